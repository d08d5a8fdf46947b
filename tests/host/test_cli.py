import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tilewright
from support.commands import error, in_json, invoke
from tilewright.cli import app
from tilewright.cli.options import hardware_of, parse_shape, shape_of
from tilewright.cli.output import _compact
from tilewright.cli.product import Product
from tilewright.dtypes import SUPPORTED, bf16, fp32
from tilewright.operand import adopt
from tilewright.problem import ACTIVATIONS
from tilewright.reference import Comparison

COMMANDS = ("run", "ladder", "bench", "inspect", "check", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples_that_the_command_takes(command):
    text = invoke(command, "--help").stdout
    assert f"tilewright {command}" in text
    assert "Examples" in text
    assert "--json" in text


def test_run_verifies_counts_and_predicts():
    record = in_json("run", 96, 72, 40, "--backend", "emulator", "--bias", "--activation", "relu", "--seed", 3)
    assert record["verified"] is True
    assert 0 < record["relative_error"] <= record["error_bound"]
    assert (record["m"], record["n"], record["k"]) == (96, 72, 40)
    assert (record["dtype"], record["layout"], record["backend"]) == ("bf16", "nt", "emulator")
    assert record["config"]["tile_m"] > 0
    assert record["kernel"] in record["reason"]
    assert record["checked_elements"] == record["total_elements"] == 96 * 72
    assert record["counters"]["tensor_flops"] >= 2 * 96 * 72 * 40
    assert record["predicted_time_us"] > 0
    assert record["predicted_tflops"] == pytest.approx(2 * 96 * 72 * 40 / record["predicted_time_us"] / 1e6)
    assert "time_us" not in record


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_run_multiplies_every_layout(layout):
    record = in_json("run", 37, 41, 29, "--backend", "emulator", "--kernel", "mma", "--layout", layout)
    assert record["verified"] is True
    assert record["layout"] == layout
    assert record["kernel"] == "mma"


def test_run_tells_people_the_same():
    text = invoke("run", 64, 64, 64, "--backend", "emulator", "--dtype", "fp16", "--out-dtype", "fp32").stdout
    assert "64x64x64 fp16 nt -> fp32" in text
    assert "right: relative error" in text
    assert "over all 4,096 elements" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "tensor flops" in text


def test_run_says_what_part_of_a_sampled_product_it_compared(monkeypatch):
    monkeypatch.setattr(Product, "verify", lambda *_: Comparison(True, 0.001, 0.002, 9))
    record = in_json("run", 16, 16, 16, "--backend", "emulator")
    assert (record["checked_elements"], record["total_elements"]) == (9, 256)
    text = invoke("run", 16, 16, 16, "--backend", "emulator").stdout
    assert "over 9 of 256 elements (sampled rows and columns)" in " ".join(text.split())


def test_run_without_a_shape_says_that_it_multiplied_a_smaller_one(monkeypatch):
    from tilewright.cli import run

    monkeypatch.setattr(run, "EMULATED_SHAPE", (64, 64, 64))
    text = invoke("run", "--backend", "emulator").stdout
    (line,) = [line for line in text.splitlines() if line.startswith("smaller")]
    assert "4096x4096x4096" in line
    assert "64x64x64 bf16 nt -> bf16, in the emulator" in text
    assert "smaller" not in invoke("run", 64, 64, 64, "--backend", "emulator").stdout


def test_run_of_an_empty_product_runs_no_kernel():
    record = in_json("run", 0, 8, 8, "--backend", "emulator")
    assert record["verified"] is True
    assert record["kernel"] is None


def test_a_wrong_product_exits_with_1(monkeypatch):
    monkeypatch.setattr(Product, "verify", lambda *_: Comparison(False, 0.5, 0.001, 9))
    assert in_json("run", 16, 16, 16, "--backend", "emulator", code=1)["verified"] is False
    monkeypatch.setattr(Product, "verify", lambda *_: Comparison(False, float("nan"), 0.001, 9))
    assert in_json("run", 16, 16, 16, "--backend", "emulator", code=1)["relative_error"] is None
    assert "WRONG" in invoke("run", 16, 16, 16, "--backend", "emulator", code=1).stdout


def test_inspect_reports_resources_and_listings():
    record = in_json("inspect", "mma", "--problem", "64,64,64", "--ptx", "--source")
    assert record["registers"] > 0
    assert record["spill_bytes"] == 0
    assert (record["m"], record["n"], record["k"]) == (64, 64, 64)
    assert f".entry {record['entry']}" in record["ptx"]
    assert "struct Config" in record["source"]
    assert any(opcode.startswith("mma.sync") for opcode in record["instruction_mix"]["ptx"])
    assert "registers per thread" in invoke("inspect", "mma", "--problem", "64x64x64").stdout
    assert invoke("inspect", "mma", "--problem", "64,64,64", "--ptx").stdout.lstrip().startswith("//")
    both = invoke("inspect", "mma", "--problem", "64,64,64", "--ptx", "--source").stdout
    assert both.index("struct Config") < both.index("\n// ptx\n") < both.index(".entry")


def test_inspect_shows_first_what_tells_kernels_apart():
    text = invoke("inspect", "wgmma").stdout
    special, _, others = text.partition("Of the others")
    for name in ("wgmma.mma_async", "cp.async.bulk.tensor", "mbarrier.try_wait", "setmaxnreg", "stmatrix"):
        assert f"  {name}" in special
        assert f"  {name}" not in others
    assert "mul.f32" in others


@pytest.mark.parametrize("kernel", ["mma", "simt"])
@pytest.mark.parametrize("arch", ["sm_86", "sm_90", "sm_120"])
def test_inspect_compiles_for_architectures_without_an_entry(kernel, arch):
    record = in_json("inspect", kernel, "--problem", "64,64,64", "--arch", arch, "--ptx")
    assert record["arch"] == arch
    assert f".target {arch}" in record["ptx"]


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
    assert not any(line in invoke("check", "mma", 40, 24, 70, "--schedules", 0).stdout for line in by_line)


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
    assert _compact(value) == text


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
    assert text.count(": clean") == 2


def test_check_of_an_empty_product_does_not_say_clean():
    assert in_json("check", "simt", 0, 0, 0)["verified"] is None
    text = invoke("check", "simt", 0, 0, 0).stdout
    assert "nothing runs" in text
    assert "clean" not in text


def test_check_all_where_no_kernel_takes_the_product(monkeypatch):
    from tilewright.kernels.registry import KERNELS

    for kernel in KERNELS.values():
        monkeypatch.setattr(kernel, "rejects", lambda *_: "too odd")
    message = error("check", "all", 8, 8, 8)
    assert all(f"kernel '{name}'" in message for name in KERNELS)


def test_check_reports_what_the_emulator_finds_and_a_race(monkeypatch):
    from tilewright.cli import check_kernel
    from tilewright.emulator.errors import OutOfBounds

    multiply = check_kernel._multiply

    def broken(kernel, config, product, backend, operands):
        asynchrony = backend.device._asynchrony
        if asynchrony == "lazy":
            raise OutOfBounds("ld.global at kernels/mma.cuh:41 reads address 0x10, outside every allocation")
        out, counters = multiply(kernel, config, product, backend, operands)
        if asynchrony == "random":
            out[0, 0] += 1
        return out, counters

    monkeypatch.setattr(check_kernel, "_multiply", broken)
    record = in_json("check", "mma", 24, 24, 24, "--schedules", 2, code=1)
    assert record["verified"] is False
    assert [(report["kind"], report["schedules"]) for report in record["reports"]] == [
        ("OutOfBounds", ["lazy"]),
        ("WrongProduct", ["random(0)", "random(1)"]),
        ("ScheduleDependence", ["random(0)", "random(1)"]),
    ]
    assert record["reports"][0]["locations"] == ["kernels/mma.cuh:41"]
    assert "of eager in 1 of 576 elements, first at (0, 0)" in record["reports"][2]["rule"]
    assert "OutOfBounds" in invoke("check", "mma", 24, 24, 24, "--schedules", 0, code=1).stdout


def test_doctor_multiplies_and_finds_no_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    record = in_json("doctor")
    assert record["ok"] is True
    by_name = {finding["name"]: finding for finding in record["findings"]}
    assert by_name["self test"]["status"] == "ok"
    assert str(tmp_path) in by_name["cache"]["detail"]
    assert all(finding["remedy"] for finding in record["findings"] if finding["status"] != "ok")


def test_doctor_exits_with_1_when_something_fails(monkeypatch):
    from tilewright.cli import doctor

    def broken():
        raise OSError("the disk is gone")

    monkeypatch.setattr(doctor, "_cache", broken)
    record = in_json("doctor", code=1)
    assert record["ok"] is False
    assert "the disk is gone" in json.dumps(record["findings"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", 8, 8), ["K is missing", "M N K"]),
        (("run", 8, 8, 8, "--kernel", "nope"), ["kernel='nope' does not exist: use 'auto' or one of wgmma, mma"]),
        (("run", 8, 8, 8, "--kernel", "mma", "--dtype", "fp32", "--backend", "emulator"), ["mma", "fp32"]),
        (("run", 6144, 6144, 6144, "--backend", "emulator"), ["TILEWRIGHT_EMULATOR_SECONDS"]),
        (("check", "mma", 6144, 6144, 6144), ["TILEWRIGHT_EMULATOR_SECONDS"]),
        (("run", 10**9, 10**9, 1), ["1000000000x1000000000x1 bf16 nt", "memory", "smaller"]),
        (("check", "simt", 10**6, 10**6, 10), ["1000000x1000000x10 fp32 nt", "memory", "smaller"]),
        (("inspect", "nope"), ["KERNEL='nope' does not exist: use one of wgmma, mma"]),
        (("inspect", "WGMM"), ["KERNEL='WGMM' does not exist: did you mean wgmma", "? Use one of wgmma, mma"]),
        (("inspect", "mma", "--problem", "4096"), ["--problem", "M,N,K"]),
        (("inspect", "mma", "--arch", "sm_75"), ["--arch", "sm_90a"]),
        (("inspect", "wgmma", "--arch", "sm_80"), ["sm_80"]),
        (("inspect", "wgmma", "--arch", "sm_90"), ["needs sm_90a"]),
        (("inspect", "wgmma", "--arch", "sm_100"), ["needs sm_90a"]),
        (("inspect", "mma", "--dtype", "fp32"), ["fp32"]),
        (("check", "nope"), ["'nope' does not exist: use all,", "PTX file such as ./kernel.ptx, or one of wgmma, mma"]),
        (("check", "sim"), ["KERNEL='sim' does not exist: did you mean simt", "? Use all,", "./kernel.ptx", "one of"]),
        (("check", "kernel.ptx"), ["kernel.ptx cannot be read", "No such file"]),
        (("check", "kernel.ptx", 8, 8, 8), ["M is 8", "--arg"]),
        (("check", "mma", "--grid", 4, "--smem", 64), ["--grid, --smem", "'mma'", ".ptx"]),
    ],
)
def test_what_cannot_be_done_is_one_message_and_exit_code_2(arguments, words):
    message = error(*arguments)
    assert message.startswith("tilewright: ")
    assert all(word in message for word in words)


def test_a_gpu_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr("tilewright.api.gpu_count", lambda: 0)
    assert "doctor" in error("run", 8, 8, 8, "--backend", "gpu")


def test_interrupting_says_so_and_exits_with_130(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Product, "operands", interrupted)
    done = invoke("run", 8, 8, 8, "--backend", "emulator", code=130)
    assert done.stderr == "tilewright: interrupted\n"


def test_interrupting_check_all_shows_what_was_found_until_then(monkeypatch):
    from tilewright.cli import check_kernel

    multiply = check_kernel._multiply

    def interrupted(kernel, config, product, backend, operands):
        if kernel.name == "simt" and backend.device._asynchrony == "lazy":
            raise KeyboardInterrupt
        return multiply(kernel, config, product, backend, operands)

    monkeypatch.setattr(check_kernel, "_multiply", interrupted)
    record = in_json("check", "all", 9, 7, 5, "--schedules", 0, code=130)
    assert record["verified"] is None
    assert record["error"] == record["results"][-1]["error"]
    assert record["error"].startswith("interrupted under lazy, 50.0% of the check done")
    by_name = {found["kernel"]: found for found in record["results"]}
    assert (by_name["mma"]["verified"], by_name["simt"]["verified"]) == (True, None)
    assert by_name["simt"]["counters"]["totals"]
    text = invoke("check", "simt", 9, 7, 5, "--schedules", 0, code=130).stdout
    assert "ended early, nothing reported until then" in text
    assert "clean" not in text


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("words", [("--nope",), ("mma", "2", "3", "4", "5"), ("--seed", "-1")])
def test_usage_errors_are_json_too(command, words):
    done = invoke(command, *words, "--json", code=2)
    (message,) = json.loads(done.stdout).values()
    assert done.stdout == json.dumps({"error": message}) + "\n"
    assert "Usage" in done.stderr
    assert invoke(command, *words, code=2).stdout == ""


def test_what_cannot_be_done_is_json_too():
    assert in_json("run", 8, 8, code=2) == {"error": "M is 8, and K is missing: give all of M N K, or none of them"}
    assert "No such command" in in_json("walk", code=2)["error"]
    assert "--json" in in_json(code=2)["error"]


def test_a_terminal_sees_the_time_left(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = invoke("check", "mma", 9, 7, 5, "--schedules", 0, "--json")
    assert "checking mma" in done.stderr
    assert "left" in done.stderr
    assert json.loads(done.stdout)["verified"]


def test_a_defect_is_not_disguised_as_bad_input(monkeypatch):
    def broken(*_):
        raise KeyError("tile_m")

    monkeypatch.setattr(Product, "operands", broken)
    done = CliRunner().invoke(app, ["run", "8", "8", "8", "--backend", "emulator"])
    assert isinstance(done.exception, KeyError)
    monkeypatch.setattr(Product, "resized", "no function")  # a TypeError, but of the interpreter's
    done = CliRunner().invoke(app, ["run", "8", "8", "8", "--backend", "emulator"])
    assert isinstance(done.exception, TypeError)


def test_running_out_of_memory_is_one_message(monkeypatch):
    monkeypatch.setattr(Product, "operands", lambda *_: np.empty(1 << 62, np.uint8))
    assert error("run", 8, 8, 8, "--backend", "emulator").count("\n") == 1


def test_memory_is_refused_beyond_half_of_what_there_is(monkeypatch):
    product = Product(64, 64, 64, dtype=bf16, out_dtype=bf16)
    monkeypatch.setattr("tilewright.cli.product.available_memory", lambda: 2.0 * product.host_bytes)
    product.require_memory()
    monkeypatch.setattr("tilewright.cli.product.available_memory", lambda: 2.0 * product.host_bytes - 2)
    with pytest.raises(ValueError, match=r"64x64x64 bf16 nt.*GB.*smaller"):
        product.require_memory()


def test_there_is_memory_and_a_limit_on_the_process_counts():
    code = "from tilewright.cli.memory import available_memory as get; import resource; assert get() > 1 << 28;"
    code += "resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28)); assert get() == 1 << 28"
    pytest.importorskip("resource")
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("position", range(3))
def test_a_negative_extent_is_refused_by_name(position):
    extents = [5, 5, 5]
    extents[position] = -1
    message = error("run", *extents)
    assert f"'{'mnk'[position]}'" in message.lower()
    assert "0" in message
    assert "--sead" in error("run", "--sead", 1)


def test_version():
    assert invoke("--version").stdout == f"tilewright {tilewright.__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", ["--help", "run 0 4 4", "run 0 4 4 --json"])
def test_a_full_disk_is_one_message(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", *arguments.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "tilewright: the output cannot be written: No space left on device\n"


def test_options_name_what_the_library_takes():
    from tilewright.cli.options import ActivationName, DTypeName

    assert [name.value for name in DTypeName] == [dtype.name for dtype in SUPPORTED]
    assert tuple(name.value for name in ActivationName) == ACTIVATIONS


@pytest.mark.parametrize("text", ["64,128,256", "64x128x256", "64X128X256", "64, 128, 256"])
def test_shapes_are_read(text):
    assert parse_shape(text, "--problem") == (64, 128, 256)


@pytest.mark.parametrize("text", ["", "1,2", "1,2,3,4", "a,b,c", "-1,2,3", "1.5,2,3"])
def test_other_text_is_no_shape(text):
    with pytest.raises(ValueError, match="--problem"):
        parse_shape(text, "--problem")


def test_a_shape_is_given_whole_or_not_at_all():
    assert shape_of(None, None, None) is None
    assert shape_of(1, 2, 3) == (1, 2, 3)
    with pytest.raises(ValueError, match="N is missing"):
        shape_of(1, None, None)


def test_architectures_are_those_of_the_table():
    assert hardware_of("sm_90a").name == "H200"
    assert hardware_of("sm_80").name == "A100"


def test_other_architectures_are_those_that_nvrtc_compiles_for(monkeypatch):
    monkeypatch.setattr("tilewright.jit.compile.compilable", lambda: [75, 80, 86, 90, 100])
    assert (hardware_of("sm_86").arch, hardware_of("sm_86").smem_bytes) == ("sm_86", 101_376)
    assert (hardware_of("sm_100").arch, hardware_of("sm_100").smem_bytes) == ("sm_100", 232_448)
    for arch in ("sm_75", "sm_89", "sm_100a", "90a", ""):
        with pytest.raises(ValueError, match=f"--arch='{arch}' .*: use sm_80, sm_86, sm_90, sm_100, sm_90a$"):
            hardware_of(arch)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("dtype", [bf16, fp32], ids=str)
def test_a_product_poses_the_problem_that_its_operands_pose(layout, dtype):
    from tilewright.binding import bind

    product = Product(48, 40, 24, dtype=dtype, out_dtype=dtype, layout=layout, bias=True, activation="silu")
    arrays = product.operands(seed=1)
    operands = {name: adopt(array, name) for name, array in arrays.items()}
    out = Product(48, 40, 0, dtype=dtype, out_dtype=dtype).operands(0)["a"]
    operands["out"] = dataclasses.replace(operands["a"], shape=(48, 40), strides=(40, 1), pointer=1 << 40, owner=out)
    posed = bind(operands, activation="silu").problem
    assert posed.layout == layout == product.problem.layout
    for name, matrix in product.problem.operands():
        met = dict(posed.operands())[name]
        assert (matrix.dtype, matrix.row_stride, matrix.column_stride) == (met.dtype, met.row_stride, met.column_stride)
