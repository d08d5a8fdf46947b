"""`tilewright check` on kernels of tilewright."""

import json
import re

import pytest

from support.commands import error, in_json, invoke
from tilewright.backends.emulated import EmulatedExecutable
from tilewright.backends.emulation_limit import PACES, Pace
from tilewright.checking.asynchrony import Asynchrony
from tilewright.checking.kernels import KernelCheck
from tilewright.checking.product import Product
from tilewright.checking.result import CheckResult, Findings
from tilewright.cli.check.arguments import FILLS
from tilewright.cli.output import compact, console
from tilewright.dtypes import fp32
from tilewright.kernels.ladder import LADDER
from tilewright.kernels.refusal import Refusal


@pytest.fixture(autouse=True)
def no_colors_stay():
    """A console that was made under FORCE_COLOR is not the next test's."""
    yield
    console.cache_clear()


def test_check_runs_every_schedule():
    record = in_json("check", "mma", 40, 24, 70, "--schedules", 1)
    assert record["verified"] is True
    assert record["reports"] == []
    assert record["schedules"] == ["eager", "lazy", "random(0)"]
    assert record["counters"]["totals"]["tensor_flops"] > 0
    by_line = record["counters"]["by_line"]
    assert any("mma.cuh:" in line for line in by_line)
    for name in ("tensor_flops", "barrier_waits"):
        assert sum(counts[name] for counts in by_line.values()) == record["counters"]["totals"][name]
    text = invoke("check", "mma", 40, 24, 70, "--schedules", 0, "--lines").stdout
    assert all(line in text for line, counts in by_line.items() if counts["tensor_flops"])
    text = invoke("check", "mma", 40, 24, 70, "--schedules", 0).stdout
    assert not any(row.startswith(f"  {line} ") for line in by_line for row in text.splitlines())


def test_check_takes_fields_of_a_config_and_as_many_sms_as_its_clusters_need():
    words = ("check", "wgmma", 100, 72, 648, "--schedules", 0, "--config")
    record = in_json(*words, "tile_m=64,tile_n=64,split_k=2,cluster_m=2,cluster_n=1,swap_ab=false")
    assert record["verified"] is True
    assert "split_k=2" in record["config"]
    assert "cluster_m=2" in record["config"]
    assert record["counters"]["totals"]["multicast_saved_bytes"] > 0
    assert record["sms"] == 4
    assert "on the 8 SMs that are emulated" in " ".join(invoke(*words, "tile_m=64,tile_n=64,split_k=8").stdout.split())
    assert "as planned for the 2 SMs that are emulated" in " ".join(invoke(*words[:-1]).stdout.split())
    assert "a cluster has up to eight CTAs" in error(*words, "split_k=4,cluster_m=4")
    assert "--config='tile_p=3' is no field of a Config of kernel 'wgmma': use tile_m" in error(*words, "tile_p=3")
    assert error(*words, "in_flight=2").endswith("ping_pong, or take kernel gemv, which has it\n")
    assert "--config=stages=3 is for one kernel, and all are several" in error("check", "all", "--config", "stages=3")
    assert "stages=3,tile_m=64 is for" in error("check", "all", "--config", "stages=3", "--config", "tile_m=64")


@pytest.mark.parametrize(
    ("kernel", "options", "product"),
    [
        ("mma", ("--dtype", "int8", "--gpu", "A100"), "151x77x203 int8 nt -> int32, on an A100"),
        ("mma", ("--dtype", "fp8_e4m3", "--b-dtype", "fp8_e5m2", "--fast-accumulation", "--gpu", "rtx-4090"),
         "151x77x203 fp8_e4m3 by fp8_e5m2 fast nt -> bf16, acc + bias, on an RTX-4090"),
        ("mma", ("--dtype", "int8", "--recipe", "row", "--zero-a"),
         "151x77x203 int8 row with zero points nt -> bf16, acc + bias"),
        ("wgmma", ("--dtype", "fp8_e4m3", "--recipe", "1x128_128x128", "--activation", "relu"),
         "264x328x464 fp8_e4m3 1x128_128x128 nt -> bf16, relu(acc + bias)"),
        ("wgmma", ("--dtype", "int8", "--recipe", "row", "--no-bias", "--out-dtype", "fp16"),
         "264x328x464 int8 row nt -> fp16"),
        ("wgmma", ("--dtype", "fp8_e4m3", "--out-dtype", "fp8_e4m3", "--recipe", "tensor", "--outputs", "amax"),
         "264x328x464 fp8_e4m3 tensor nt -> fp8_e4m3"),
        ("mma", ("--batch", 2, "--layout", "tt", "--batch-invariant"), "2 of 151x77x203 bf16 tt -> bf16, acc + bias"),
    ],
)  # fmt: skip
def test_check_takes_all_elements_scales_and_gpus(kernel, options, product):
    record = in_json("check", kernel, "--schedules", 0, *options)
    assert (record["verified"], record["product"]) == (True, product)


def test_check_says_what_elements_a_product_has():
    assert "--recipe='row' is not for bf16" in error("check", "mma", "--recipe", "row")
    assert "bias was given and out is int32" in error("check", "mma", "--dtype", "int8", "--bias")
    assert "wgmma needs sm_90a (Hopper) and A100 is sm_80" in error("check", "wgmma", "--gpu", "A100")
    assert "--gpu is for a product of tilewright's kernels" in error("check", "a.ptx", "--gpu", "A100")


def test_check_takes_expressions_and_outputs():
    options = ("--epilogue", "silu(acc) * scale", "--operand", "scale=m,1", "--outputs", "acc,amax,column_sums")
    record = in_json("check", "mma", 40, 24, 70, "--schedules", 0, *options)
    assert record["verified"] is True
    assert any("group_sums.cuh:" in line for line in record["counters"]["by_line"])
    gated = in_json("check", "simt", "--schedules", 0, "--gate", "interleaved", "--activation", "gelu")
    assert (gated["verified"], gated["product"]) == (True, "151x78x203 fp32 nt -> fp32, gelu(x) * y")
    assert "wgmma_basic shows one idea" in error("check", "wgmma_basic", "--epilogue", "acc * 2")
    for option in ("--epilogue", "--gate", "--outputs"):
        value = {"--gate": "stacked", "--outputs": "acc"}.get(option, "acc")
        assert f"{option} is for a product" in error("check", "kernel.ptx", option, value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, ""),
        (9_999, "9,999"),
        (10_000, "10k"),
        (98_304, "98.3k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (2**33, "8.59G"),
    ],
)
def test_numbers_of_the_line_table(value, text):
    assert compact(value) == text


@pytest.mark.parametrize(
    ("options", "given"), [(("--grid", 4), "--grid is for"), (("--grid", 4, "--arg", 5), "--grid, --arg are for")]
)
def test_options_of_a_launch_are_not_for_kernels_of_tilewright(options, given):
    assert f"{given} the launch of a file's kernel, and 'mma' is no file: name FILE.ptx" in error(
        "check", "mma", *options
    )


def test_help_names_what_an_array_may_hold_and_every_key_of_the_record():
    text = " ".join(re.sub(r"[│\n]", " ", invoke("check", "--help").stdout).split())
    for fill in FILLS:
        assert re.search(rf"An array holds [^:]*\b{fill}\b", text)
    record = in_json("check", "simt", 9, 7, 5, "--schedules", 0)
    for key in (*record, *record["counters"]):
        assert re.search(rf"--json prints .*\b{key}\b.*with the key error", text)


def test_check_all_goes_on_where_a_kernel_does_not_take_the_product():
    record = in_json("check", "all", 9, 7, 5, "--schedules", 0)
    assert record["verified"] is True
    by_name = {found["kernel"]: found for found in record["results"]}
    assert "TMA" in by_name["wgmma"]["skipped"]
    assert by_name["wgmma"]["verified"] is None
    single = in_json("check", "mma", 9, 7, 5, "--schedules", 0)
    assert all(found.keys() == single.keys() for found in record["results"])
    assert single == by_name["mma"]
    assert by_name["mma"]["verified"] is by_name["simt"]["verified"] is True
    text = invoke("check", "all", 9, 7, 5, "--schedules", 0).stdout
    assert "wgmma does not take it" in text
    assert text.count(": clean") == 3


def test_check_all_says_what_it_covers():
    lines = invoke("check", "all", 9, 7, 5, "--schedules", 0).stdout.splitlines()
    assert lines[0].startswith("Checking the kernels that the planner chooses from; `tilewright check ladder`")
    assert lines[-1] == "3 of 5 clean; not run: wgmma, copy"


def test_check_ladder_checks_every_rung(monkeypatch):
    quick = ["coalesced", "wmma_gmem", "wgmma_basic"]  # all take a minute
    run = KernelCheck.run

    def found(check, *others, **options):
        return (
            run(check, *others, **options)
            if check.kernel.name in quick
            else CheckResult(check.kernel.name, verified=False)
        )

    monkeypatch.setattr(KernelCheck, "run", found)
    record = in_json("check", "ladder", "--schedules", 0, code=1)
    assert [found["kernel"] for found in record["results"]] == list(LADDER)
    assert [found["kernel"] for found in record["results"] if found["verified"]] == quick
    every = in_json("check", "all", 9, 7, 5, "--schedules", 0, code=1)
    assert every.keys() == record.keys()
    assert every["results"][0].keys() == record["results"][0].keys()


def test_a_bar_goes_on_from_kernel_to_kernel(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    bars = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", invoke("check", "all", 9, 7, 5, "--schedules", 0).stderr)
    shares = [int(share) for share in re.findall(r"checking simt, 3 of 5 \D*(\d+)%", bars)]
    assert shares[0] == 40
    assert shares[-1] == 60


def test_check_of_an_empty_product_does_not_say_clean():
    assert in_json("check", "simt", 0, 0, 0)["verified"] is None
    text = invoke("check", "simt", 0, 0, 0).stdout
    assert "nothing runs" in text
    assert "clean" not in text


def test_check_all_where_no_kernel_takes_the_product(monkeypatch):
    from tilewright.kernels.registry import KERNELS

    for kernel in KERNELS.values():
        monkeypatch.setattr(kernel, "refuses", lambda *_: Refusal("too odd"))
    message = error("check", "all", 8, 8, 8)
    assert all(f"kernel '{name}'" in message for name in KERNELS)


def test_what_is_reported_is_shown_and_exits_with_1(monkeypatch):
    found = Findings("mma", "24x24x24")
    found.begin(eager := Asynchrony("eager"))
    place = "`ld.global.f32` at kernels/mma.cuh:41 (PTX line 9)"
    found.report(eager, "OutOfBounds", "reads outside all", [place], "CTA 0, thread 3")
    monkeypatch.setattr(KernelCheck, "run", lambda *_, **__: found.result())
    record = in_json("check", "mma", 24, 24, 24, code=1)
    assert record["verified"] is False
    assert record["reports"][0]["locations"] == [place]
    assert "OutOfBounds (eager): reads outside all" in invoke("check", "mma", 24, 24, 24, code=1).stdout


def test_interrupting_check_all_shows_what_was_found_until_then(monkeypatch):
    launch = EmulatedExecutable.__call__

    def interrupted(executable, *others):
        if "simt" in executable._kernel.name and executable._device._asynchrony == "lazy":
            raise KeyboardInterrupt
        return launch(executable, *others)

    monkeypatch.setattr(EmulatedExecutable, "__call__", interrupted)
    record = in_json("check", "all", 9, 7, 5, "--schedules", 0, code=130)
    assert record["verified"] is None
    assert record["error"] == record["results"][-1]["error"]
    assert record["error"].startswith("interrupted under lazy, 50.0% of the check done")
    by_name = {found["kernel"]: found for found in record["results"]}
    assert (by_name["mma"]["verified"], by_name["simt"]["verified"]) == (True, None)
    assert by_name["simt"]["counters"]["totals"]
    summary = invoke("check", "all", 9, 7, 5, "--schedules", 0, code=130).stdout.splitlines()[-1]
    assert summary == "1 of 5 clean; ended early: simt; not run: wgmma, gemv, copy"
    text = invoke("check", "simt", 9, 7, 5, "--schedules", 0, code=130).stdout
    assert "ended early, nothing reported until then" in text
    assert "clean" not in text


def test_a_terminal_sees_the_time_left(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = invoke("check", "mma", 9, 7, 5, "--schedules", 0, "--json")
    assert "checking mma" in done.stderr
    assert "left" in done.stderr
    assert json.loads(done.stdout)["verified"]


def test_ctrl_c_between_kernels_keeps_those_before(monkeypatch):
    operands = Product.operands

    def interrupted(product, *seed):
        if product.dtype is fp32:
            raise KeyboardInterrupt
        return operands(product, *seed)

    monkeypatch.setattr(Product, "operands", interrupted)
    record = in_json("check", "all", 9, 7, 5, "--schedules", 0, code=130)
    assert [found["verified"] for found in record["results"]] == [None, True, None]
    assert record["error"] == "interrupted"


def test_check_all_leaves_a_kernel_that_takes_too_long_out_and_keeps_the_others(monkeypatch):
    monkeypatch.setitem(PACES, "cuda_cores", Pace(1.0, 0.0, 0.0))
    record = in_json("check", "all", 24, 24, 24, "--schedules", 0)
    by_name = {found["kernel"]: found for found in record["results"]}
    assert (by_name["mma"]["verified"], by_name["simt"]["verified"]) == (True, None)
    assert "would take the emulator about" in by_name["simt"]["skipped"]
    assert record["verified"] is True
    assert "would take the emulator about" in error("check", "simt", 24, 24, 24)


def test_check_all_keeps_the_others_where_a_kernel_cannot_be_run(monkeypatch):
    run = KernelCheck.run

    def found(check, *others, **options):
        if check.kernel.name == "simt":
            raise MemoryError("16 GB")
        return run(check, *others, **options)

    monkeypatch.setattr(KernelCheck, "run", found)
    record = in_json("check", "all", 9, 7, 5, "--schedules", 0, code=1)
    by_name = {found["kernel"]: found for found in record["results"]}
    assert (by_name["mma"]["verified"], by_name["simt"]["verified"]) == (True, False)
    assert by_name["simt"]["skipped"] == "not enough memory: take a smaller product (16 GB)"
