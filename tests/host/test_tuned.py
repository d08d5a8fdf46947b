"""Tables of tuned Configs: what is found for which product, what a file may hold, and many who write at once."""

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import asdict, replace

import pytest

from support.further_cases import drawn_cases
from tilewright.bench.inputs import Shape
from tilewright.cli.products import problem_of
from tilewright.dtypes import bf16, fp16, fp32
from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.hardware import GPUS, H200
from tilewright.jit.cache import default_cache
from tilewright.kernels.registry import KERNELS
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.planner import tuned
from tilewright.planner.choose import asked, choose, exact_entry
from tilewright.planner.copies import Copied, copied
from tilewright.planner.tuned import Store
from tilewright.planner.tuned_table import Entry, Key, Table, bucket, decode, encode
from tilewright.problem import Epilogue, Matrix, Problem

SHIPPED = tuned._SHIPPED
UNUSUAL = WgmmaConfig(128, 64, 3, epilogue="direct", overlap=False)


def product(m=512, n=512, k=512, dtype=bf16, pad=0, **changes):
    matrices = {"a": Matrix(dtype, k + pad, 1), "b": Matrix(dtype, 1, k + pad), "out": Matrix(dtype, n, 1)}
    return Problem(**{"m": m, "n": n, "k": k} | matrices | changes)


def entry(problem=None, config=UNUSUAL, date="2026-01-01", **changes):
    problem = problem or product()
    values = {"key": Key.of(problem), "m": problem.m, "kernel": "wgmma", "config": asdict(config), "us": 1.5}
    return Entry(**values | {"date": date, "nvrtc": "13.0.88"} | changes)


@pytest.fixture(autouse=True)
def untuned():
    """No other table is kept away: `folder` does that."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The cache directory, without a table and without those of the package."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILEWRIGHT_CACHE_PATH", raising=False)
    monkeypatch.setattr(tuned, "_SHIPPED", tmp_path / "none")
    for each in (default_cache, tuned.store, tuned._ignored):
        each.cache_clear()
    yield tmp_path
    for each in (default_cache, tuned.store, tuned._ignored):
        each.cache_clear()


def test_buckets_are_exact_to_16_and_then_powers_of_two_and_three_halves_of_them():
    found = list(dict.fromkeys(bucket(m) for m in range(1, 4097)))
    assert found == [*range(1, 17), 32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096]
    assert all(m <= bucket(m) for m in range(1, 4097))


@pytest.mark.parametrize(
    "other",
    [
        product(n=520),
        product(k=520),
        product(dtype=fp16),
        product(pad=8),
        product(b=Matrix(bf16, 512, 1)),
        product(out=Matrix(fp32, 512, 1)),
        product(out=Matrix(bf16, 513, 1)),
        product(a=Matrix(bf16, 512, 1, alignment=8)),
        product(a=Matrix(bf16, 1024, 2)),
        product()._replace(fast_accumulation=True),
        product(b=Matrix(fp16, 1, 512)),
        product(epilogue=Epilogue(activation="gelu")),
        product(epilogue=Epilogue(bias=Matrix(bf16, 0, 1))),
        product(epilogue=Epilogue(bias=Matrix(fp32, 0, 1))),
        product(epilogue=Epilogue(c=Matrix(bf16, 512, 1))),
        product(
            batch=(3,),
            a=Matrix(bf16, 512, 1, (512 * 512,)),
            b=Matrix(bf16, 1, 512, (512 * 512,)),
            out=Matrix(bf16, 512, 1, (512 * 512,)),
        ),
        product(
            batch=(3,),
            a=Matrix(bf16, 512, 1, (512 * 512,)),
            b=Matrix(bf16, 1, 512, (0,)),
            out=Matrix(bf16, 512, 1, (512 * 512,)),
        ),
    ],
    ids=str,
)
def test_an_entry_is_for_products_that_differ_in_m_alone(other):
    table = Table([entry()])
    assert table.near(Key.of(product()), 512)
    assert Key.of(other) != Key.of(product())
    assert not table.near(Key.of(other), 512)


def test_of_a_bucket_the_nearest_m_counts_and_a_larger_one_first():
    table = Table([entry(product(m=m)) for m in (16, 400, 450, 500, 512)])
    key = Key.of(product())
    found = {m: next(iter(table.near(key, m)), None) for m in (15, 16, 17, 385, 400, 401, 499, 501, 505, 512, 513)}
    expected = [None, 16, None, 400, 400, 450, 500, 500, 512, 512, None]  # 501 has the tiles of 500
    assert [each and each.m for each in found.values()] == expected


def test_of_two_entries_for_one_product_the_later_counts():
    late = replace(UNUSUAL, stages=4)
    for order in ((0, 1), (1, 0)):
        both = entry(), entry(config=late, date="2026-01-02")
        table = Table([both[index] for index in order])
        assert table.near(Key.of(product()), 512)[0].made_config() == late
        assert len(table) == 1


def test_a_table_returns_from_its_text():
    table = Table([entry(), entry(product(m=7, dtype=fp16)), entry(product(epilogue=Epilogue(activation="relu")))])
    gpu, again = decode(encode(table, "H200-132"))
    assert (gpu, again.entries()) == ("H200-132", table.entries())


def test_an_entry_counts_whichever_compiler_it_was_measured_with(folder):
    Store("H200-132").add([entry(nvrtc="12.9.86")])
    assert choose(product(), H200).config == UNUSUAL
    assert [each.nvrtc for each in Store("H200-132").table().entries()] == ["12.9.86"]


def test_the_planner_takes_an_entry_at_once_and_says_so(folder):
    untuned = choose(product(), H200)
    assert untuned.config != UNUSUAL
    tuned.store("H200-132").add([entry()])
    found = choose(product(), H200)
    assert (found.kernel.name, found.config) == ("wgmma", UNUSUAL)
    assert "; tuned for 512 rows; for comparison, a published decision tree would take a tiled GEMM" in found.reason
    assert choose(product(m=64), H200).config == KERNELS["wgmma"].best(product(m=64), H200)
    assert choose(product(), H200, kernel="wgmma").config == untuned.config


def test_an_entry_for_other_rows_counts_where_the_model_does_not_see_much_better(folder):
    wgmma = KERNELS["wgmma"]
    near = product(m=4000, n=4096, k=4096)
    good, bad = wgmma.configs(near, H200)[1], WgmmaConfig(64, 16, 12, epilogue="direct", overlap=False, wait_depth=1)
    for config in (good, bad):
        tuned.store("H200-132").add([entry(product(m=4096, n=4096, k=4096), config)], replaces=True)
        expected = wgmma.is_near_best(config, near, H200)
        assert expected == (config is good)
        assert (choose(near, H200).config == config) == expected


ODD = product(16, 4096, 1001)
"""Its a and b have rows that TMA cannot address."""


@pytest.mark.parametrize(
    ("kernel", "copies"), [("gemv", ()), ("wgmma", ("a", "b")), ("mma", ())], ids=["gemv", "copies", "mma"]
)
def test_what_was_measured_of_a_product_that_may_be_copied_decides_about_the_kernel_too(folder, kernel, copies):
    (taken,) = (taken for each, taken in asked(ODD, H200) if each.name == kernel)
    config = KERNELS[kernel].candidates(taken.problem, H200, 2)[-1]
    tuned.store("H200-132").add([entry(ODD, config, kernel=kernel)])
    found = choose(ODD, H200)
    assert (found.kernel.name, found.config, found.tuned, found.copied.copies) == (kernel, config, True, copies)
    assert "; tuned for 16 rows" in found.reason


def test_what_was_measured_without_copies_leads_to_none(folder):
    even = product(16, 4096, 1024)
    untuned, config = choose(ODD, H200), KERNELS["wgmma"].best(even, H200)
    tuned.store("H200-132").add([entry(even, config), entry(product(16, 4096, 1001, pad=23), config)])
    assert choose(even, H200).kernel is KERNELS["wgmma"]
    assert choose(ODD, H200) == untuned


def test_tables_count_in_the_order_user_search_path_package(folder, monkeypatch, tmp_path):
    configs = {place: replace(UNUSUAL, stages=stages) for place, stages in (("user", 2), ("path", 3), ("package", 4))}
    monkeypatch.setenv("TILEWRIGHT_CACHE_PATH", str(tmp_path / "path"))
    monkeypatch.setattr(tuned, "_SHIPPED", tmp_path / "package")
    for place, path in (
        ("path", tmp_path / "path" / "tuned" / tuned.file_name("H200-132")),
        ("package", tmp_path / "package" / "H200-132.json"),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(encode(Table([entry(config=configs[place])]), "H200-132"))
    default_cache.cache_clear()
    assert next(Store("H200-132").found(product()))[0].made_config() == configs["path"]
    Store("H200-132").add([entry(config=configs["user"])])
    assert next(Store("H200-132").found(product()))[0].made_config() == configs["user"]
    monkeypatch.delenv("TILEWRIGHT_CACHE_PATH")
    default_cache.cache_clear()
    (folder / "tuned" / tuned.file_name("H200-132")).unlink()
    assert next(Store("H200-132").found(product()))[0].made_config() == configs["package"]


def changed(**changes):
    content = json.loads(encode(Table([entry()]), "H200-132"))
    return json.dumps(content | changes)


def changed_entry(**changes):
    content = json.loads(encode(Table([entry()]), "H200-132"))
    return json.dumps(content | {"entries": [content["entries"][0] | changes]})


BAD = {
    "{": "it is not JSON",
    "[" * 100_000: "it is not JSON",
    "[]": "it is not a table of tuned Configs",
    '{"format": 2}': "it is not a table of tuned Configs",
    changed(format=1): "it has format 1, and this version reads 2: tune again",
    changed(kernels="0"): "it was measured with other kernels than this version's: tune again",
    changed(gpu="A100"): "it is for GPU 'A100', and this one is 'H200-132': tune on this GPU",
    changed(gpu=7): "it is for GPU 7",
    changed(entries={}): "its entries are no list",
    changed(entries=[1]): "entry 1 of 1: 1 is no entry: give it exactly the members m, n, k",
    changed_entry(color=1): "entry 1 of 1: it has 'color': give it exactly the members m, n, k",
    changed_entry(m="512"): "entry 1 of 1: it has m='512': write one of type int",
    changed_entry(m=True): "entry 1 of 1: it has m=True: write one of type int",
    changed_entry(kernel="cublas"): "entry 1 of 1: it has kernel='cublas': use wgmma",
    changed_entry(config={}): "entry 1 of 1: it has a config with no tile_m and no tile_n and no stages",
    changed_entry(alignment=[[1], 16, 16]): "entry 1 of 1: it has alignment=[[1], 16, 16]: write one of 0, 1, 2, 4, 8",
    changed_entry(alignment=[128]): "entry 1 of 1: it has alignment=[128]: write one of 0, 1, 2, 4, 8, 16, 32, 64, 128",
    changed_entry(alignment=[3, 16, 16]): "entry 1 of 1: it has alignment=[3, 16, 16]: write one of 0, 1",
    changed_entry(layout="xx"): "entry 1 of 1: it has layout='xx': write one of 'nn', 'nt', 'tn', 'tt'",
    changed_entry(dtype="fp33"): "entry 1 of 1: it has dtype='fp33': write one of 'bf16', ",
    changed_entry(out_dtype=""): "entry 1 of 1: it has out_dtype='': write one of 'bf16', ",
    changed_entry(shared="b a"): "entry 1 of 1: it has shared='b a': write one of '', 'a', 'b', 'a b'",
    changed_entry(k=0): "entry 1 of 1: it has k=0: write a finite number above 0",
    changed_entry(us=10**400): f"entry 1 of 1: it has us=1{'0' * 79}: write one of type float",
    changed_entry(us=float("nan")): "entry 1 of 1: it has us=nan: write a finite number above 0",
}


@pytest.mark.parametrize(("text", "reason"), BAD.items(), ids=[str(number) for number in range(len(BAD))])
def test_a_file_that_is_no_table_is_refused_ignored_with_one_warning_and_kept(folder, caplog, text, reason):
    with pytest.raises(ArgumentValueError) as refusal:
        decode(text, "H200-132", current=True)
    assert str(refusal.value).startswith(reason)
    path = folder / "tuned" / tuned.file_name("H200-132")
    path.parent.mkdir()
    path.write_text(text)
    caplog.set_level(logging.WARNING, "tilewright")
    untuned = KERNELS["wgmma"].best(product(), H200)
    assert [choose(product(), H200).config for _ in range(3)] == [untuned] * 3
    (warning,) = caplog.records
    assert str(path) in warning.getMessage()
    assert reason in warning.getMessage()
    tuned.store("H200-132").add([entry()])
    assert choose(product(), H200).config == UNUSUAL
    assert path.with_suffix(".damaged").read_text() == text


@pytest.mark.parametrize("name", ["wgmma", "mma", "simt", "gemv", "wgmma, operands copied"])
def test_an_entry_of_what_the_planner_offers_is_usable(name):
    kernel, checked = KERNELS[name.partition(",")[0]], 0
    for case, _ in drawn_cases(name, 40, "usable"):
        problem = case.problem()
        found = copied(problem, kernel, H200)
        if problem.is_empty or problem.k == 0 or not isinstance(found, Copied):
            continue
        config = kernel.best(found.problem, H200)
        made = entry(problem, config, kernel=kernel.name)
        assert Key.of(made.plain_problem) == made.key._replace(epilogue=Key.of(made.plain_problem).epilogue)
        tuned.require_usable(made, H200)
        checked += 1
    assert checked


def test_a_time_may_be_a_whole_number():
    text = changed_entry(us=3)
    assert [each.us for each in decode(text, "H200-132")[1].entries()] == [3.0]


def test_an_entry_of_the_same_date_replaces_none(folder):
    store = tuned.store("H200-132")
    store.add([entry()])
    store.add([entry(config=replace(UNUSUAL, stages=4))])
    assert store.table().entries() == [entry()]


def test_a_table_that_cannot_be_read_for_a_moment_is_not_moved_away(folder, monkeypatch):
    store = tuned.store("H200-132")
    store.add([entry()])
    before = store.path.read_text()

    def fails(path, **options):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(type(store.path), "read_text", fails)
        with pytest.raises(UnavailableError, match="Too many open files"):
            store.add([entry(product(m=7))])
    assert store.path.read_text() == before


def test_each_damaged_table_is_kept(folder):
    store = tuned.store("H200-132")
    store.path.parent.mkdir()
    for text in ("one", "two", "three"):
        store.path.write_text(text)
        store.add([entry()])
    kept = sorted(store.path.parent.glob("*.damaged*"))
    assert [path.read_text() for path in kept] == ["one", "two", "three"]


def test_a_config_that_breaks_a_rule_or_is_of_other_types_is_ignored_with_one_warning(folder, caplog):
    caplog.set_level(logging.WARNING, "tilewright")
    untuned = KERNELS["wgmma"].best(product(), H200)
    for number, changes in enumerate(({"tile_m": 100}, {"stages": "3"}, {"tile_m": 0})):
        wrong = replace(UNUSUAL, **changes)
        tuned.store("H200-132").add([entry(config=wrong, date=f"2027-01-0{number + 1}")])
        assert [choose(product(), H200).config for _ in range(2)] == [untuned] * 2
        assert len(caplog.records) == number + 1
        said = caplog.records[-1].getMessage()
        assert "the tuned Config of 512x512x512 bf16 nt is not used: " in said
        assert said.endswith("; tune it again")


def test_a_config_that_breaks_a_rule_hides_none_of_a_later_table(folder, monkeypatch):
    monkeypatch.setattr(tuned, "_SHIPPED", SHIPPED)
    shipped = next(each for each in tuned.store("H200-132").shipped().entries() if each.key == Key.of(product(each.m)))
    mine = product(shipped.m, shipped.key.n, shipped.key.k)
    tuned.store("H200-132").add([entry(mine, config=replace(UNUSUAL, tile_m=100), date="2099-01-01")])
    assert choose(mine, H200).config == shipped.made_config()


def test_nor_does_one_of_another_kernel_and_the_product_is_tuned_anew(folder, tmp_path, monkeypatch):
    few = product(8, 4096, 4096)
    broken = replace(KERNELS["gemv"].best(few, H200), tile_m=100)
    good = KERNELS["wgmma"].candidates(few, H200, 2)[1]
    monkeypatch.setattr(tuned, "_SHIPPED", tmp_path / "package")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "H200-132.json").write_text(encode(Table([entry(few, config=good)]), "H200-132"))
    tuned.store("H200-132").add([entry(few, kernel="gemv", config=broken)])
    assert choose(few, H200).config == good
    assert exact_entry(few, H200).kernel == "wgmma"
    (tmp_path / "package" / "H200-132.json").unlink()
    tuned.store.cache_clear()
    assert not choose(few, H200).tuned
    assert exact_entry(few, H200) is None


def test_an_entry_whose_kernel_refuses_the_product_is_named_once(folder, caplog):
    caplog.set_level(logging.WARNING, "tilewright")
    refused = product(64, dtype=fp32)
    tuned.store("H200-132").add([entry(refused)])
    for rows in (64, 64, 56):
        assert not choose(refused._replace(m=rows), H200).tuned
    (record,) = caplog.records
    assert record.getMessage() == (
        "the tuned Config of 64x512x512 fp32 nt is not used: wgmma does not take it: wgmma multiplies bf16, fp16 and "
        "int8 by themselves, and fp8, and a is fp32, b is fp32; tune it again"
    )


def test_nor_one_for_other_rows_of_the_same_bucket(folder):
    broken, near = product(256, 4096, 2048), product(248, 4096, 2048)
    good = KERNELS["wgmma"].candidates(near, H200, 2)[1]
    wrong = replace(UNUSUAL, tile_m=100)
    tuned.store("H200-132").add([entry(broken, config=wrong), entry(near, config=good)])
    assert choose(product(252, 4096, 2048), H200).config == good


WRITER = """
import sys
from dataclasses import replace
sys.path.insert(0, {tests!r})
from host.test_tuned import entry, product
from tilewright.planner.tuned import Store
store = Store("H200-132")
for step in range({steps}):
    store.add([entry(product(m=1000 * {number} + step))])
    print(step, flush=True)
"""


def writer(number, steps):
    tests = os.path.dirname(os.path.dirname(__file__))
    text = textwrap.dedent(WRITER.format(tests=tests, number=number, steps=steps))
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


def test_eight_processes_add_to_one_table_and_lose_nothing(folder):
    processes = [writer(number, 5) for number in range(1, 9)]
    assert [process.wait(120) for process in processes] == [0] * 8
    found = tuned.read(folder / "tuned" / tuned.file_name("H200-132"))[1]
    assert {each.m for each in found.entries()} == {1000 * number + step for number in range(1, 9) for step in range(5)}


def test_a_process_that_is_killed_leaves_a_whole_table(folder):
    path = folder / "tuned" / tuned.file_name("H200-132")
    for number in range(1, 6):
        process = writer(number, 10_000)
        told = [int(process.stdout.readline()) for _ in range(3 + number)]
        time.sleep(0.003 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = {each.m for each in tuned.read(path)[1].entries()}
        assert {1000 * number + step for step in told} <= found
    Store("H200-132").add([entry(product(m=7))])
    assert 7 in {each.m for each in tuned.read(path)[1].entries()}


def test_the_shipped_tables_are_for_these_kernels_and_are_used(folder, monkeypatch):
    """After a change of the kernels: measure again, or remove them. tools/shipped_tables.py does both."""
    monkeypatch.setattr(tuned, "_SHIPPED", SHIPPED)
    for path in SHIPPED.glob("*.json"):
        gpu, table = decode(path.read_text(encoding="utf-8"), current=True)
        (hardware,) = (each for each in GPUS.values() if tuned.label(each) == gpu)
        assert path.name == f"{gpu}.json"
        assert len(table)
        for entry in table.entries():
            n, k, _, layout, dtype, *_ = entry.key
            recipes = ("tensor", "tensor fast", "row", "row fast") if entry.key.epilogue else ()
            elements = [dtype, *(f"{dtype} {recipe}" for recipe in recipes)]
            asked = [problem_of(Shape(entry.m, n, k, each, layout), bias=False, activation=None) for each in elements]
            (problem,) = (each for each in asked if Key.of(each) == entry.key)
            assert choose(problem, hardware).config == entry.made_config()
            assert choose(problem, hardware, measured=False).config != entry.made_config()
