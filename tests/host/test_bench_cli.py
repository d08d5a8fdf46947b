"""`tilewright bench` on fake contenders: its output, its record, its chart, and its exit code."""

import dataclasses
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.contenders import FakeContender, FakeInputs, fake_machine
from tilewright.bench import session, suites
from tilewright.bench.inputs import Shape
from tilewright.cli import app
from tilewright.measure.sensors import Reading

LLAMA = ("2048x12288x4096", "2048x4096x4096", "2048x11008x4096", "2048x4096x11008", "2048x32000x4096")
KEYS = {"m", "n", "k", "dtype", "layout", "label", "data", "baseline", "interrupted", "contenders"}
ALL_PEERS = ("cublas", "cublaslt", "triton", "quack")
MEASURED = {"time_us", "tflops", "speed_of_light_share", "ratio", "time_us_interval", "tflops_interval", "samples_us"}


def invoke(*arguments, code=0):
    done = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def named(*names):
    """The options that choose contenders."""
    return [word for name in names for word in ("--contender", name)]


def error(*arguments):
    done = invoke(*arguments, code=2)
    assert done.stdout == ""
    return " ".join(done.stderr.split())


@pytest.fixture
def machine(monkeypatch):
    """A GPU on which tilewright takes 1 ms and cuBLAS 1.1 ms for everything; peers may be changed."""
    return fake_machine(
        monkeypatch,
        {
            "tilewright": lambda: FakeContender("tilewright", 1e-3),
            "cublas": lambda: FakeContender("cublas", 1.1e-3),
            "cublaslt": lambda: FakeContender("cublaslt", absent="nvmath-python is not installed"),
            "triton": lambda: FakeContender("triton", 1.4e-3),
            "quack": lambda: FakeContender("quack", error=OSError("no compiler")),
        },
    )


def test_a_suite_is_measured_and_recorded(machine, tmp_path):
    path = tmp_path / "record.json"
    options = ("--rounds", 2, "--cycles", 2, "--slice", 0.05, "--json", "--output", path)
    done = invoke("llama-7b", *options, *named("tilewright", *ALL_PEERS))
    assert done.stdout.count("\n") == 1
    record = json.loads(done.stdout)
    assert record == json.loads(path.read_text())
    assert (record["gpu"], record["suite"], record["data"], record["interrupted"]) == (
        "a GPU",
        "llama-7b",
        "randn",
        False,
    )
    assert record["protocols"]["burst"]["cycles"] == record["protocols"]["settled"]["cycles"] == 2
    assert tuple(f"{each['m']}x{each['n']}x{each['k']}" for each in record["products"]) == LLAMA
    for product in record["products"]:
        assert product.keys() >= KEYS
        listed = {entry["contender"]: entry for entry in product["contenders"]}
        assert list(listed) == ["tilewright", *ALL_PEERS]
        for name in ("burst", "settled"):
            assert listed["tilewright"][name].keys() >= MEASURED
            assert listed["tilewright"][name]["ratio"]["median"] == pytest.approx(1.1)
            assert len(listed["triton"][name]["samples_us"]) == 2
        assert listed["cublaslt"]["status"] == "absent"
        assert listed["quack"]["status"] == "failed"


def test_people_get_a_table_of_each_product(machine):
    text = invoke("--shape", "4096,2048,1024", "--shape", "8x8x8", "--dtype", "fp16", "--layout", "tn").stdout
    assert "4096x2048x1024 fp16 tn, randn" in text
    assert "8x8x8 fp16 tn, randn" in text
    assert "times cublas" in text
    assert "1.100 [1.100, 1.100]" in text
    assert "[low, high] hold the median with 93.75% confidence or more" in text  # of five bursts
    assert "absent cublaslt: nvmath-python is not installed" in text
    assert "failed quack: OSError: no compiler" in text


def test_contenders_protocol_baseline_and_data_are_chosen(machine):
    chosen = ("--contender", "triton", "--contender", "tilewright", "--baseline", "triton")
    options = ("--protocol", "burst", "--data", "uniform", "--seed", 7)
    record = json.loads(invoke("--shape", "8,8,8", *chosen, *options, "--json").stdout)
    (product,) = record["products"]
    assert [entry["contender"] for entry in product["contenders"]] == ["triton", "tilewright"]
    assert (product["baseline"], product["data"], product["seed"]) == ("triton", "uniform", 7)
    assert list(record["protocols"]) == ["burst"]
    assert "settled" not in product["contenders"][0]


def test_ratios_are_to_the_first_where_the_baseline_takes_no_part(machine):
    record = json.loads(
        invoke("--shape", "8,8,8", "--contender", "triton", "--contender", "tilewright", "--json").stdout
    )
    assert record["products"][0]["baseline"] == "triton"


def test_a_wrong_result_exits_with_1(machine):
    machine["triton"] = lambda: FakeContender("triton", right=False)
    done = invoke("--shape", "8,8,8", code=1)
    assert "wrong triton: its result is not the product" in done.stdout
    assert "tilewright" in done.stdout


def test_a_table_fits_a_terminal_of_80_columns(machine, monkeypatch):
    monkeypatch.setattr("tilewright.measure.sensors.Sensors.reading", lambda self: Reading(690.4, 1455, 61))
    text = invoke("llama-70b").stdout
    assert max(map(len, text.splitlines())) <= 80
    for name in ("tilewright", "690", "1455", "61", "settled", "burst"):
        assert name in text


def test_a_kernel_of_ours_that_fails_exits_with_1_and_a_peer_does_not(machine):
    machine["tilewright"] = lambda: FakeContender("tilewright", error=OSError("no compiler"))
    invoke("--shape", "8,8,8", "--contender", "tilewright", "--contender", "cublas", code=1)
    invoke("--shape", "8,8,8", "--contender", "quack", "--contender", "cublas")


def test_nothing_that_could_be_timed_exits_with_1(machine):
    assert "absent cublaslt" in invoke("--shape", "8,8,8", "--contender", "cublaslt", code=1).stdout


def test_ctrl_c_gives_what_was_measured_and_says_so(machine, tmp_path):
    made = []

    def interrupted():
        made.append(FakeContender("tilewright", interrupts=5000))
        return made[-1]

    machine["tilewright"] = interrupted
    path = tmp_path / "record.json"
    options = ("--cycles", 1, "--rounds", 20, "--slice", 0.05, "--contender", "tilewright", "--json", "--output", path)
    done = invoke("squares", *options, code=130)
    record = json.loads(done.stdout)
    assert record["interrupted"] is True
    assert record == json.loads(path.read_text())
    assert 1 < len(record["products"]) < 6
    assert record["products"][-1]["interrupted"] is True
    assert f"interrupted: {len(record['products']) - 1} of 6 products are complete" in done.stderr


def test_ctrl_c_between_products_keeps_those_before(machine, monkeypatch, tmp_path):
    class Slow(FakeInputs):
        """Inputs of large products are never finished."""

        def __init__(self, shape, **settings):
            if shape.m > 1024:
                raise KeyboardInterrupt
            super().__init__(shape, **settings)

    monkeypatch.setattr(session, "Inputs", Slow)
    path = tmp_path / "record.json"
    done = invoke("squares", "--protocol", "burst", "--json", "--output", path, code=130)
    record = json.loads(done.stdout)
    assert [product["m"] for product in record["products"]] == [512, 1024]
    assert record["interrupted"] is True
    assert record == json.loads(path.read_text())
    assert "interrupted: 2 of 6 products are complete" in done.stderr


def test_a_product_that_fails_late_is_skipped_and_the_others_are_measured(machine, monkeypatch, tmp_path):
    class Large(FakeInputs):
        """There is no memory for one of the shapes."""

        def __init__(self, shape, **settings):
            if shape.m == 16:
                raise MemoryError("16 GB")
            super().__init__(shape, **settings)

    monkeypatch.setattr(session, "Inputs", Large)
    path = tmp_path / "record.json"
    shapes = ("--shape", "8,8,8", "--shape", "16,8,8", "--shape", "24,8,8")
    options = ("--protocol", "burst", "--output", path)
    record = json.loads(invoke(*shapes, *options, "--json", code=1).stdout)
    assert [bool(product["contenders"]) for product in record["products"]] == [True, False, True]
    skipped = record["products"][1]
    assert (skipped["m"], skipped["skipped"]) == (16, "not enough memory: take a smaller product (16 GB)")
    assert skipped.keys() >= KEYS
    assert record == json.loads(path.read_text())
    assert "skipped: not enough memory" in invoke(*shapes, *options, code=1).stdout
    assert "skipped: not enough memory" in invoke(path).stdout


@pytest.mark.parametrize(("slower", "code"), [(1.0, 0), (1.005, 0), (1.02, 1)])
def test_the_self_check_wants_agreement_within_a_percent(machine, slower, code, tmp_path):
    seconds = iter((1e-3, 1e-3 * slower))
    machine["tilewright"] = lambda: FakeContender("tilewright", next(seconds))
    path = tmp_path / "record.json"
    done = invoke("--self-check", "--cycles", 2, "--slice", 0.05, "--json", "--output", path, code=code)
    record = json.loads(done.stdout)
    assert record == json.loads(path.read_text())
    assert record["agrees"] is (code == 0)
    (product,) = record["products"]
    assert (product["m"], product["n"], product["k"]) == (4096, 4096, 4096)
    assert [entry["contender"] for entry in product["contenders"]] == ["first", "second"]
    assert product["disagreement"]["settled"] == pytest.approx(slower - 1, abs=1e-6)
    assert done.stderr.count("differs from itself by") == 2


def test_a_self_check_that_is_interrupted_before_the_second_contender_is_no_agreement(machine):
    made = iter((FakeContender("", interrupts=1), FakeContender("")))
    machine["tilewright"] = lambda: next(made)
    done = invoke("--self-check", "--json", code=130)
    record = json.loads(done.stdout)
    assert (record["agrees"], record["interrupted"]) == (False, True)
    assert record["products"][0]["disagreement"] == {}
    assert "burst: was not measured" in done.stderr


def test_the_self_check_of_a_contender_that_is_absent_fails(machine):
    done = invoke("--self-check", "--contender", "cublaslt", code=1)
    assert "burst: was not measured" in done.stderr


# ---------------------------------------------------------------- records and pictures


@pytest.fixture
def record(machine, tmp_path):
    path = tmp_path / "record.json"
    invoke("llama-7b", "--protocol", "burst", "--output", path)
    return path


def test_a_record_is_shown_again_without_a_gpu(record, monkeypatch):
    monkeypatch.undo()
    text = invoke(record).stdout
    assert "a GPU, 2026-11-21" in text
    assert "session of 2026-11-21 12:00, 5 products, driver 580.1, power limit 700 W" in text
    assert "2048x32000x4096 bf16 nt, randn" in text
    assert json.loads(invoke(record, "--json").stdout) == json.loads(record.read_text())


def test_a_file_that_is_no_record_is_refused(tmp_path):
    assert "cannot be read: No such file" in error(tmp_path / "missing.json")
    (tmp_path / "broken.json").write_text("{")
    assert "is not JSON" in error(tmp_path / "broken.json")
    about = {"gpu": "a GPU", "date": "2026", "data": "randn", "protocols": {}}
    others = [[], {**about, "products": []}, {**about, "command": "bench", "products": [{"m": 1}]}]
    for other in others:
        (tmp_path / "other.json").write_text(json.dumps(other))
        assert "name a file that `tilewright bench --output` wrote" in error(tmp_path / "other.json")


@pytest.mark.parametrize(
    "option",
    [("--shape", "8,8,8"), ("--contender", "nonsense"), ("--output", "x.json"), ("--seed", 0), ("--self-check",)],
)
def test_a_record_that_is_shown_takes_no_option_of_measuring(record, option):
    assert f"{option[0]} is for measuring, and {record} is only shown again" in error(record, *option)


def test_a_plot_without_matplotlib_says_what_to_install(record, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "pip install matplotlib" in error("--shape", "8,8,8", "--plot", tmp_path / "rates.png")
    assert "pip install matplotlib" in error(record, "--plot", tmp_path / "rates.png")


def test_rates_are_drawn(record, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "rates.svg"
    assert f"drawn into {path}" in invoke(record, "--plot", path).stderr
    assert path.read_text().startswith("<?xml")
    assert "has a suffix that is not drawn" in error(record, "--plot", tmp_path / "rates.txt")
    assert "is in a folder that does not exist" in error(record, "--plot", tmp_path / "missing" / "rates.png")


def test_a_record_without_measurements_is_shown_and_not_drawn(machine, tmp_path):
    pytest.importorskip("matplotlib")
    path, picture = tmp_path / "record.json", tmp_path / "rates.png"
    options = ("--shape", "8,8,8", "--contender", "cublaslt", "--output", path, "--plot", picture)
    done = [invoke(*options, "--json", code=1), invoke(path, "--plot", picture, "--json")]
    for each in done:
        assert json.loads(each.stdout) == json.loads(path.read_text())
        assert "there is nothing that could be drawn" in each.stderr
    assert not picture.exists()


def test_an_unreadable_place_for_a_picture_leaves_one_object(record, tmp_path):
    assert json.loads(invoke(record, "--plot", tmp_path / "x.txt", "--json", code=2).stdout).keys() == {"error"}


# ---------------------------------------------------------------- what it refuses


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr("tilewright.api.gpu_count", lambda: 0)


def test_without_a_gpu_it_says_so_and_what_works(no_gpu):
    said = error("squares")
    assert "none is usable here" in said
    for command in ("run", "check", "inspect", "doctor", "bench RECORD.json"):
        assert f"`tilewright {command}`" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "neither SUITE nor --shape is given: give one of them; suites are batches, chains, decode"),
        (("squares", "--shape", "8,8,8"), "SUITE is squares and --shape is given as well"),
        (("--shape", "8,8"), "--shape='8,8' is not a shape: write M,N,K"),
        (("round",), "suite 'round' does not exist: use batches, chains"),
        (("README.md",), "the path of your own suite (.toml), or of a record to be shown again (.json)"),
        (("no/such.toml",), "suite no/such.toml cannot be read"),
        (("--self-check", "--contender", "triton", "--contender", "quack"), "--self-check times one contender"),
        (("--shape", "8,8,8", "--shape", "8,8,6", "--data", "2:4"), "and k is 6: make k a multiple of 4"),
        (("--shape", "8,8,8", "--shape", "0,8,8"), "0x8x8 has nothing to time: make m, n and k at least 1"),
        (("--self-check", "--configs", "all"), "--self-check times one contender, and --configs=all finds several"),
        (("--self-check", "--baseline", "cublas"), "--self-check is against the contender itself"),
        (
            ("squares", "--baseline", "cublass"),
            "--baseline=cublass is not a contender: use tilewright, cublas, triton",
        ),
        (
            ("squares", "--configs", "all", "--contender", "tilewright:mma", "--contender", "tilewright:wgmma"),
            "--configs=all belongs to one kernel, and there are tilewright:mma, tilewright:wgmma: name one of them",
        ),
        (("squares", "--output", "/no/such/record.json"), "--output=/no/such/record.json is in a folder that does not"),
        (
            ("squares", "--contender", "mkl"),
            "contender 'mkl' does not exist: use tilewright, tilewright:tuned, ",
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(arguments, message, no_gpu):
    assert message in error(*arguments)


# ---------------------------------------------------------------- suites


@pytest.mark.parametrize("name", suites.names())
def test_the_packages_suites_are_read(name):
    suite = suites.load(name)
    assert suite.name == name
    assert suite.summary
    assert len(set(suite.shapes)) == len(suite.shapes) > 3
    assert all(shape.flops > 0 for shape in suite.shapes)


def test_the_suites_that_help_names_are_those_there_are():
    said = " ".join(word for word in invoke("--help").stdout.split() if word != "│")
    named = said.partition("suite <str> ")[2].partition(", a TOML file")[0]
    assert sorted(named.split(", ")) == suites.names()


def test_a_list_of_extents_stands_for_each_of_them():
    decode = suites.load("decode").shapes
    rows = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    layers = [(12288, 4096), (4096, 11008), (28672, 8192)]
    assert [(shape.m, shape.n, shape.k) for shape in decode] == [(m, *layer) for layer in layers for m in rows]


def test_a_suite_of_the_users_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('dtype = "float16"\n[[shapes]]\nm = 1\nn = [2, 3]\nk = 4\nlayout = "nn"\nlabel = "head"\n')
    assert suites.load(str(path)).shapes == tuple(Shape(1, n, 4, "fp16", "nn", "head") for n in (2, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shapes = ", "is not TOML"),
        ("# \xe9 in another encoding", "is not TOML: 'utf-8' codec can't decode byte 0xe9"),
        ("", "has no shapes"),
        ("shapes = [1]", "is not a table"),
        ("[[shapes]]\nm = 1\nn = 1", "has no k"),
        ("[[shapes]]\nm = 0\nn = 1\nk = 1", "has m=0: write a whole number from 1 on"),
        ("[[shapes]]\nm = true\nn = 1\nk = 1", "has m=True"),
        ("[[shapes]]\nm = []\nn = 1\nk = 1", "has m=[]"),
        ("[[shapes]]\nm = [1, 2.5]\nn = 1\nk = 1", "has m=[1, 2.5]"),
        ("[[shapes]]\nm = 1\nn = 1\nk = 1\nbatch = 2", "unknown key 'batch'"),
        ("[[shapes]]\nm = 1\nn = 1\nk = 1\ndtype = 'int4'", "has dtype='int4': use bf16"),
        ("[[shapes]]\nm = 1\nn = 1\nk = 1\ndtype = 'int32'", "has dtype='int32', which nothing multiplies: take"),
        ("layout = 'tx'\n[[shapes]]\nm = 1\nn = 1\nk = 1", "has layout='tx': use nt"),
        ("[[shapes]]\nm = 1\nn = 1\nk = 1\nlabel = 5", "has label=5: put it in quotes"),
        (
            "contenders = []\n[[shapes]]\nm = 1\nn = 1\nk = 1",
            "has contenders=[]: write a list of some of tilewright, tilewright:tuned",
        ),
        ("contenders = ['mkl']\n[[shapes]]\nm = 1\nn = 1\nk = 1", "has contenders=['mkl']: write a list of some of"),
        ("contenders = [1]\n[[shapes]]\nm = 1\nn = 1\nk = 1", "has contenders=[1]: write a list of some of"),
        ("source = 1\n[[shapes]]\nm = 1\nn = 1\nk = 1", "has source=1: put it in quotes"),
        ("[random]\nm = 1", "has random={'m': 1}: write [[random]]"),
        ("[[random]]\nm = [1, 2]\nn = [1, 2]\nk = [1, 2]", "table 1 of [[random]] has no count"),
        ("[[random]]\ncount = [1, 2]\nm = [1, 2]\nn = [1, 2]\nk = [1, 2]", "has count=[1, 2]: write one number"),
        ("[[random]]\ncount = 1\nm = 4\nn = [1, 2]\nk = [1, 2]", "has m=[4]: write the least and the largest extent"),
        ("[[random]]\ncount = 1\nm = [2, 1]\nn = [1, 2]\nk = [1, 2]", "has m=[2, 1]: write the least and the largest"),
        ("[[random]]\ncount = 99999\nm = [1, 2]\nn = [1, 2]\nk = [1, 2]", "has more than 10000 shapes"),
        ("kernels = 1\n[[shapes]]\nm = 1\nn = 1\nk = 1", "unknown key 'kernels'"),
    ],
)
def test_a_suite_that_is_wrong_is_refused_with_the_place(text, message, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="latin-1")
    assert message in error(path)


def test_shapes_are_data_of_the_package():
    assert Path(suites.__file__).parent in suites.FOLDER.parents
    assert dataclasses.is_dataclass(Shape)
