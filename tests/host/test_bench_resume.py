"""`tilewright bench --resume` on fake contenders: many short runs that add to one record."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from support.commands import error, invoke
from support.contenders import MACHINE, FakeContender, FakeInputs, fake_machine
from support.hostile import mutant
from tilewright.bench import record, session, suites
from tilewright.bench.claims import Claims
from tilewright.bench.inputs import Shape
from tilewright.cli import app
from tilewright.measure.protocol import Settled

SHAPES = ("--shape", "512,512,512", "--shape", "1024,512,512", "--shape", "2048,512,512")
QUICK = ("--rounds", 2, "--cycles", 2, "--slice", 0.05)


@pytest.fixture
def made():
    """The contenders that were made, by name, in the order of sessions."""
    return {}


@pytest.fixture
def machine(monkeypatch, made):
    """A GPU on which every peer takes part, and QuACK is the quickest."""
    times = {"tilewright": 1e-3, "cublas": 1.1e-3, "cublaslt": 1.05e-3, "triton": 1.4e-3, "quack": 0.98e-3}

    def one(name):
        made.setdefault(name, []).append(FakeContender(name, times[name], tunes=name not in ("tilewright", "cublas")))
        return made[name][-1]

    return fake_machine(monkeypatch, {name: lambda name=name: one(name) for name in times})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "proof.json"


def content(path):
    return json.loads(path.read_text(encoding="utf-8"))


def bench(*arguments, code=0):
    return invoke("bench", *arguments, code=code)


def cut_after(monkeypatch, count, error=KeyboardInterrupt):
    """End the run when it asks for the inputs of one product more than `count`."""
    asked = []

    class Cut(FakeInputs):
        """Inputs of which only so many can be had."""

        def __init__(self, shape, **settings):
            asked.append(shape)
            if len(asked) > count:
                raise error
            super().__init__(shape, **settings)

    monkeypatch.setattr(session, "Inputs", Cut)
    return asked


def test_a_run_goes_on_where_the_last_was_interrupted(machine, made, path, monkeypatch):
    cut_after(monkeypatch, 1)
    done = bench(*SHAPES, *QUICK, "--resume", path, code=130)
    assert "interrupted: 1 of 3 products are complete; give the same command again to go on" in done.stderr
    assert content(path)["left"] == ["2048x512x512 bf16 nt", "1024x512x512 bf16 nt"]  # what was begun comes last
    asked = cut_after(monkeypatch, 9)
    done = bench(*SHAPES, *QUICK, "--resume", path)
    assert "1 of 3 products are done; the rest takes about" in done.stderr
    assert [shape.m for shape in asked] == [2048, 1024]
    found = content(path)
    assert found["left"] == []
    assert [product["m"] for product in found["products"]] == [512, 1024, 2048]
    assert [product["session"] for product in found["products"]] == [0, 1, 1]
    assert (
        found["sessions"]
        == [{"date": MACHINE["date"], "command": "bench", "driver": "580.1", "power_limit_watts": 700.0}] * 2
    )
    assert "complete" not in bench(*SHAPES, *QUICK, "--resume", path).stderr  # nothing is left, and nothing is measured
    assert content(path) == found


def test_a_product_that_was_cut_is_measured_anew_and_tuned_no_second_time(machine, made, path):
    usual = machine["quack"]
    machine["quack"] = lambda: FakeContender("quack", tunes=True, interrupts=300)
    bench("--shape", "8,8,8", *QUICK, "--resume", path, code=130)
    (cut,) = content(path)["products"]
    assert cut["interrupted"] is True
    machine["quack"] = usual
    bench("--shape", "8,8,8", *QUICK, "--resume", path)
    (product,) = content(path)["products"]
    assert (product["interrupted"], product["session"]) == (False, 1)
    assert [len(each.tuned) for each in made["triton"]] == [1, 0]
    assert content(path)["choices"]["8x8x8 bf16 nt"] == {name: {"tile": 1} for name in ("cublaslt", "triton", "quack")}
    assert made["quack"][-1].given == [{"tile": 1}]


def test_ratios_are_formed_within_one_session(machine, made, path, monkeypatch):
    """The second session's GPU is half as fast for all, and no ratio changes."""
    cut_after(monkeypatch, 1)
    bench(*SHAPES[:4], *QUICK, "--resume", path, code=130)
    cut_after(monkeypatch, 9)
    times = {"tilewright": 2e-3, "cublas": 2.2e-3, "cublaslt": 2.1e-3, "triton": 2.8e-3, "quack": 1.96e-3}
    for name, seconds in times.items():
        machine[name] = lambda name=name, seconds=seconds: FakeContender(name, seconds)
    bench(*SHAPES[:4], *QUICK, "--resume", path)
    for product in content(path)["products"]:
        ours = product["contenders"][0]
        assert ours["settled"]["ratio"]["median"] == pytest.approx(1.1)


def test_a_time_limit_ends_a_run_between_products(machine, path, monkeypatch):
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("tilewright.cli.bench.time", type("Clock", (), {"monotonic": lambda: next(clock)}))
    done = bench(*SHAPES, *QUICK, "--resume", path, "--time-limit", 35)
    # The clock moves ten seconds at each look: a product takes 10, and the third would end after 35.
    assert (
        "tilewright: 1 of 3 products are complete; the rest takes about 20 s; give the same command again"
        in done.stderr
    )
    bench(*SHAPES, *QUICK, "--resume", path, "--time-limit", 0)
    assert len(content(path)["left"]) == 1  # one is always measured
    bench(*SHAPES, *QUICK, "--resume", path)
    assert content(path)["left"] == []


KILLED = """
import os, signal, sys
import pytest
from support.commands import invoke
from support.contenders import FakeContender, fake_machine

class Deadly(FakeContender):
    def prepare(self, inputs, choice=None):
        if inputs.shape.m == 1024:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().prepare(inputs, choice)

made = {name: lambda name=name: FakeContender(name, tunes=True) for name in ("tilewright", "cublas", "cublaslt")}
made |= {"triton": lambda: Deadly("triton"), "quack": lambda: FakeContender("quack")}
fake_machine(pytest.MonkeyPatch(), made)
invoke("bench", *sys.argv[1:])
"""


def test_a_run_that_is_killed_leaves_what_was_written(path):
    """The process ends in the second product, at Triton's turn: what the others' tuners chose is kept."""
    arguments = [sys.executable, "-c", KILLED, *map(str, (*SHAPES, *QUICK, "--resume", path))]
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    found = content(path)
    assert [product["m"] for product in found["products"]] == [512]
    tuned = {name: {"tile": 2} for name in ("tilewright", "cublas", "cublaslt")}
    assert found["choices"]["1024x512x512 bf16 nt"] == tuned
    assert found["tries"] == {"512x512x512 bf16 nt": 1, "1024x512x512 bf16 nt": 1}
    assert os.listdir(path.parent) == [path.name]


def test_a_file_is_replaced_whole_or_not_at_all(machine, path, monkeypatch):
    bench("--shape", "8,8,8", *QUICK, "--resume", path)
    before = path.read_bytes()
    known = record.Record(content(path), {}, path, 1.0)
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError(28, "no space left")))
    with pytest.raises(OSError, match="no space left"):
        known.write()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_device_stays_a_device(machine):
    bench("--shape", "8,8,8", *QUICK, "--output", os.devnull)
    assert not Path(os.devnull).is_file()


def test_a_contender_that_breaks_the_gpu_ends_the_run_and_its_product_is_left(machine, path, monkeypatch):
    monkeypatch.setattr(session, "gpu_is_usable", lambda: False)
    machine["quack"] = lambda: FakeContender("quack", error=RuntimeError("illegal memory access"))
    done = bench(*SHAPES, *QUICK, "--resume", path, "--json")
    found = json.loads(done.stdout)
    assert len(found["left"]) == 3
    assert "broke the GPU's context" in found["products"][0]["skipped"]
    assert "process: quack, RuntimeError: illegal memory access" in found["products"][0]["skipped"]
    monkeypatch.setattr(session, "gpu_is_usable", lambda: True)
    asked = cut_after(monkeypatch, 9)
    bench(*SHAPES, *QUICK, "--resume", path)
    assert [shape.m for shape in asked] == [1024, 2048, 512]


# ---------------------------------------------------------------- several processes at once


def record_of(path, claims):
    conditions = {"shapes": [{"m": m, "n": 8, "k": 8} for m in (1, 2, 3)], "date": "today", "command": "bench"}
    return record.Record.begin(conditions, 1.0, path, claims)


def test_two_processes_measure_different_products_of_one_record(path):
    """Locks of one process exclude each other, so two Claims stand for two processes."""
    first, second = (record_of(path, Claims(path)) for _ in range(2))
    taken = [first.attempt(), second.attempt(), first.attempt(but={Shape(1, 8, 8)})]
    assert [shape.m for shape in taken] == [1, 2, 3]
    assert second.attempt() is None  # what is left is under way
    first.choices(taken[0])["quack"] = {"tile": 1}
    second.choices(taken[1])["quack"] = {"tile": 2}
    second.add(taken[1], {**asdict(taken[1]), "interrupted": False}, 3.0)
    first.add(taken[0], {**asdict(taken[0]), "interrupted": True}, 2.0)
    first.add(taken[2], {**asdict(taken[2]), "interrupted": False}, 1.0)
    assert second.attempt() == taken[0]  # the first gave it back
    found = content(path)
    assert [(product["m"], product["session"]) for product in found["products"]] == [(1, 0), (2, 1), (3, 0)]
    assert found["choices"] == {"1x8x8 bf16 nt": {"quack": {"tile": 1}}, "2x8x8 bf16 nt": {"quack": {"tile": 2}}}
    assert found["left"] == ["1x8x8 bf16 nt"]
    assert found["tries"] == {"1x8x8 bf16 nt": 2, "2x8x8 bf16 nt": 1, "3x8x8 bf16 nt": 1}
    assert len(found["sessions"]) == 2


CLAIMING = """
import sys
from pathlib import Path
from tilewright.bench.claims import Claims

claims = Claims(Path(sys.argv[1]))
print(claims.take("a product"), flush=True)
sys.stdin.read()
"""


def test_a_claim_ends_with_its_process(path):
    with subprocess.Popen(
        [sys.executable, "-c", CLAIMING, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "True\n"
        mine = Claims(path)
        assert mine.take("another product")
        assert not mine.take("a product")
        other.kill()
    assert mine.take("a product")


# ---------------------------------------------------------------- the best peer


def test_ours_is_timed_with_the_baseline_and_the_best_peer_alone(machine, made, path):
    bench("--shape", "8,8,8", *QUICK, "--against", "best", "--resume", path)
    (product,) = content(path)["products"]
    assert [entry["contender"] for entry in product["heat"]] == ["cublas", "cublaslt", "triton", "quack"]
    assert [entry["contender"] for entry in product["contenders"]] == ["tilewright", "cublas", "quack"]
    assert made["quack"][0].given == [None, {"tile": 1}]  # tuned for the first look only
    text = bench(path).stdout
    assert "first look, settled, TFLOP/s: cublas" in text


def test_who_is_absent_or_wrong_in_the_first_look_is_reported(machine, path):
    machine["quack"] = lambda: FakeContender("quack", absent="quack-kernels is not installed")
    machine["triton"] = lambda: FakeContender("triton", right=False)
    done = bench("--shape", "8,8,8", *QUICK, "--against", "best", "--resume", path, code=1)
    assert "absent quack: quack-kernels is not installed" in done.stdout
    assert "wrong triton: its result is not the product" in done.stdout


def test_a_first_look_that_is_interrupted_is_what_is_known(machine, path):
    machine["quack"] = lambda: FakeContender("quack", interrupts=100)
    bench("--shape", "8,8,8", *QUICK, "--against", "best", "--resume", path, code=130)
    (product,) = content(path)["products"]
    assert product["interrupted"] is True
    assert len(product["contenders"]) == 4


# ---------------------------------------------------------------- what it refuses


@pytest.fixture
def begun(machine, path):
    bench("--shape", "8,8,8", *QUICK, "--resume", path)
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seed", 1), "has 0 as --seed, and this run has 1: give the options that it was begun with"),
        (("--data", "uniform"), "has randn as --data, and this run has uniform"),
        (("--rounds", 3), "has 2 as protocol burst cycles, and this run has 3"),
        (("--protocol", "burst"), "as protocol settled, and this run has None"),
        (("--against", "best"), "has all as --against, and this run has best"),
        (("--contender", "tilewright"), "as --contender, and this run has tilewright"),
        (("--baseline", "triton"), "has cublas as --baseline, and this run has triton"),
        (("--shape", "16,8,8"), "has another value of the list of products"),
    ],
)
def test_a_record_of_other_options_is_refused(begun, options, message):
    assert message in error("bench", "--shape", "8,8,8", *QUICK, *options, "--resume", begun)


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        (
            {"gpu": "NVIDIA H20"},
            "has a GPU as the GPU, and this run has NVIDIA H20: continue it where it was begun",
        ),
        ({"versions": {"torch": "2.12", "cuda": "13.0"}}, "has 2.11 as version torch, and this run has 2.12"),
    ],
)
def test_a_record_of_another_machine_is_refused(begun, fact, message, monkeypatch):
    monkeypatch.setattr(record, "machine", lambda: {**MACHINE, **fact})
    assert message in error("bench", "--shape", "8,8,8", *QUICK, "--resume", begun)


def test_a_record_of_another_package_or_of_other_kernels_is_refused(begun, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tilewright.__version__", "9.0")
        message = error("bench", "--shape", "8,8,8", *QUICK, "--resume", begun)
        assert "as version tilewright, and this run has 9.0" in message
    monkeypatch.setattr(record, "source_digest", lambda: "0123")
    message = error("bench", "--shape", "8,8,8", *QUICK, "--resume", begun)
    assert "as the digest of kernels, planner and tuner, and this run has 0123" in message


def test_what_is_no_record_to_go_on_with_is_refused(machine, path, begun):
    options = ("bench", "--shape", "8,8,8", *QUICK)
    both = error(*options, "--resume", path, "--output", path.with_name("other.json"))
    assert "are both the place of the record: leave one out" in both
    assert f"{begun} and --shape" not in both
    old = path.with_name("old.json")
    shutil.copy(Path(__file__).parents[2] / "results" / "wgmma_vs_cublas.json", old)
    assert "is not a record" in error(*options, "--resume", old)
    assert "--resume is for measuring" in error("bench", begun, "--resume", path)
    assert "--self-check is against the contender itself, and --against=best" in error(
        "bench", "--self-check", "--against", "best"
    )
    assert "--self-check is one measurement, and --resume=" in error("bench", "--self-check", "--resume", path)


def test_a_changed_record_is_gone_on_with_or_refused(begun):
    options, original, chosen = ("--shape", "8,8,8", *QUICK, "--resume", begun), content(begun), Random(7)
    codes = set()
    for _ in range(60):
        begun.write_text(json.dumps(mutant(original, chosen)))
        done = CliRunner().invoke(app, ["bench", *map(str, options)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        codes.add(done.exit_code)
    assert codes == {0, 2}


def test_the_digest_is_of_kernels_and_planner():
    assert record.source_digest() == record.source_digest()
    assert len(record.source_digest()) == 64


# ---------------------------------------------------------------- estimates and suites


def test_the_proof_takes_less_than_an_hour_of_a_gpu(monkeypatch):
    """By the settings that docs/performance.md gives; this is arithmetic."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "tools")
    import performance_numbers

    whole, tuning = performance_numbers.proof_seconds()
    assert 0 < tuning < whole < 3600
    assert whole / 32 < performance_numbers.LIMIT_SECONDS


def test_an_estimate_counts_what_will_run():

    class Tuned(FakeContender):
        """A contender with a slow tuner."""

        tuning_seconds = 25

    everyone = [*(FakeContender(name) for name in ("tilewright", "cublas", "quack")), Tuned("triton")]
    protocols = (Settled(cycles=3, slice_seconds=0.5, warmup_seconds=2),)
    every = session.Settings(tuple(everyone), protocols, "cublas")
    assert every.seconds() == pytest.approx(25 + 4 * session.PREPARING_SECONDS + 2 + 4 * 3 * 2 * 0.5)
    assert every.seconds({"triton"}) == pytest.approx(every.seconds() - 25)
    best = session.Settings(tuple(everyone), protocols, "cublas", against="best")
    look = 3 * session.PREPARING_SECONDS + session.SWEEP.seconds(3)
    assert best.seconds() == pytest.approx(25 + look + 3 * session.PREPARING_SECONDS + 2 + 3 * 3 * 2 * 0.5)
    two = session.Settings(tuple(everyone[:2]), protocols, "cublas", against="best")
    assert two.heats == ()  # there is nobody to choose from


def test_the_proof_has_24_products_nt_and_8_nn_against_all_peers():
    suite = suites.load("proof")
    assert [shape.layout for shape in suite.shapes].count("nt") == 24
    assert [shape.layout for shape in suite.shapes].count("nn") == 8
    assert suite.contenders == ("tilewright", "tilewright:tuned", "cublas", "cublaslt", "triton", "quack")
    own = {name: found for name in suites.names() if (found := suites.load(name).contenders)}
    assert own.pop("proof") == suite.contenders
    assert own == {
        "invariant": ("tilewright", "tilewright:invariant", "cublas"),
        "low-precision": ("tilewright", "torch", "cublaslt", "cublas"),
        "few-rows": ("tilewright", "tilewright:gemv", "cublas", "read"),
        "batches": (*suites.USUAL, "read"),
        "chains": ("tilewright", "tilewright:serial", "tilewright:gemv", "tilewright:gemv:serial", "cublas"),
    }


def test_the_suites_of_decoding_have_every_model_and_number_of_rows():
    few, more = (suites.load(name).shapes for name in ("few-rows", "batches"))
    assert {shape.m for shape in few} == {1, 2, 4, 8, 16}
    assert {shape.m for shape in more} == {32, 64, 128, 256}
    for shapes in (few, more):
        weights = {(shape.n, shape.k, shape.layout) for shape in shapes}
        assert len(shapes) == len(weights) * len({shape.m for shape in shapes})
        for model in ("Llama 7B", "Llama 70B", "DeepSeek-V3", "Qwen3", "GPT-OSS"):
            assert any(shape.label.startswith(model) for shape in shapes)
        assert {shape.layout for shape in shapes} == {"nt", "nn"}


def test_random_shapes_follow_from_the_seed():
    first, again, other = (suites.load("random", seed).shapes for seed in (0, 0, 1))
    assert first == again != other
    assert all(1 <= each.m <= 8192 and 64 <= each.n <= 16384 and 64 <= each.k <= 16384 for each in first)
    assert {each.n % 8 or each.k % 8 for each in first if "multiples" in each.label} == {0}
    assert any(each.n % 8 for each in first if "any" in each.label)
    x = Random(0).random  # the documented generator, written once more
    m, n, k = round(8192 ** x()), round(64 * 256 ** x()), round(64 * 256 ** x())
    assert (first[0].m, first[0].n, first[0].k) == (m, -(-n // 8) * 8, -(-k // 8) * 8)
    assert isinstance(first[0], Shape)
