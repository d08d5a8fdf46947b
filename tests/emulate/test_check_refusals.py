"""Launches and files that `tilewright check FILE.ptx` refuses."""

import pytest

from support.commands import error, in_json
from support.sources import SCALE

OUT = ("--arg", "f32[128]")
FACTOR = ("--arg", "2.0")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ["kernel.ptx has 2 entries", "--entry NAME", "\n  scale\n  nothing\n"]),
        (("--entry", "other"), ["--entry other names none of them", "\n  scale\n  nothing\n"]),
        (
            ("--entry", "scale", "--block", 128, *OUT),
            ["given once", "parameter 1, .u64, takes f32[", "parameter 2, .f32, takes a"],
        ),
        (("--entry", "scale", *OUT, *FACTOR), ["--block is missing"]),
        (
            ("--entry", "scale"),
            ["--block is missing", "; --grid is 1 unless you", "2 arguments: give one for each\n  parameter 1, .u64, "],
        ),
        (("--entry", "scale", "--block", "12x", *OUT, *FACTOR), ["--block='12x'", "positive numbers"]),
        (("--entry", "scale", "--block", 256, *OUT, *FACTOR), ["at most 128 threads"]),
        (("--entry", "scale", "--block", 128, "--shared-bytes", 300000, *OUT, *FACTOR), ["bytes of shared memory"]),
        (
            ("--entry", "scale", "--block", 128, *OUT, "--arg", "f64:1"),
            ["'f64:1'", "parameter 2 of scale, .f32, takes", "1.5"],
        ),
        (("--entry", "scale", "--block", 128, *OUT, *OUT), ["parameter 2 of scale, .f32, takes", "1.5"]),
        (
            ("--entry", "scale", "--block", 128, "--arg", 1.5, *FACTOR),
            ["--arg '1.5'", "parameter 1 of scale, .u64, takes", "ptr:NAME"],
        ),
        (("--entry", "nothing", "--block", 1, "--dtype", "fp16"), ["--dtype is for a product", "with --arg"]),
        (
            ("--layout", "nt", "--no-bias", "--activation", "silu"),
            ["--layout, --no-bias, --activation are for a product"],
        ),
        (("--entry", "nothing", "--block", 1, *OUT), ["given once", "takes no arguments"]),
        (("--entry", "nothing", "--block", 1, "--grid", "1,70000"), ["above the limits"]),
        (("--entry", "scale", "--block", 128, "--arg", "u8[1000000,1000000]", *FACTOR), ["1,000.0 GB", "smaller"]),
        (("--entry", "scale", "--block", 128, "--arg", "f32[1]:none.npy", *FACTOR), ["none.npy cannot be loaded"]),
    ],
)
def test_launches_that_are_refused(ptx, options, words):
    message = error("check", ptx(SCALE), *options)
    assert message.startswith("tilewright: ")
    assert all(word in message for word in words)


def test_too_little_shared_memory_is_reported_with_the_remedy(ptx):
    options = ("--entry", "scale", "--block", 128, *OUT, *FACTOR, "--schedules", 0)
    assert in_json("check", ptx(SCALE), *options, "--shared-bytes", 512)["verified"] is True
    (report,) = in_json("check", ptx(SCALE), *options, "--shared-bytes", 256, code=1)["reports"]
    assert report["kind"] == "OutOfBounds"
    assert "outside the 256 bytes" in report["message"]
    assert "as much dynamic shared memory as it needs" in report["message"]
    assert "static" not in report["message"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"int main() {}", ["PTX line 1", "'int main() {}'", ".version"]),
        (b"__global__ void k() {}", ["PTX line 1", "looks like CUDA C++", "nvcc -ptx -lineinfo"]),
        (b"", ["is empty", "nvcc -ptx"]),
        (b".version 8.0\n.target sm_80\n.address_size 64\n", ["has no entry"]),
        (b"\x7fELF\xff\xfe", ["is not text", "cuobjdump"]),
        (b".version 12.0\n.target sm_90\n", [".version 12.0 is unknown"]),
        (b".version 8.0\n.target sm_20\n", [".target sm_20 is unknown"]),
        (b".version 6.0\n.target sm_90a\n", ["PTX line 2", "sm_90a needs .version 8.0 or later", "says 6.0"]),
        (b".version 7.0\n.target sm_90\n", ["sm_90 needs .version 7.8 or later"]),
        (b".version 6.5\n.target sm_80\n", ["sm_80 needs .version 7.0 or later"]),
        (b".version 8.0\n.target sm_100\n", ["sm_100 needs .version 8.6 or later"]),
        (
            b".version 8.0\n.target sm_80\n.entry e() { ret; }\n.entry e() { ret; }",
            ["PTX line 4", "e is defined twice"],
        ),
        (b".version 8.0\n.target sm_80\n.address_size 64\n.entry e() { frob.u32; ret; }", ["frob", "PTX line 4"]),
    ],
)
def test_files_that_are_refused(tmp_path, content, words):
    path = tmp_path / "kernel.ptx"
    path.write_bytes(content)
    message = error("check", path, "--block", 1)
    assert all(word in message for word in words)


def test_a_directory_is_refused(tmp_path):
    assert "cannot be read: Is a directory" in error("check", tmp_path, "--block", 1)


def test_one_entry_is_not_several(tmp_path):
    path = tmp_path / "kernel.ptx"
    path.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.entry only() { ret; }")
    assert "kernel.ptx has 1 entry, and --entry other" in error("check", path, "--entry", "other", "--block", 1)
