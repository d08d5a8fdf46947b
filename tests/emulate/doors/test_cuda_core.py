"""Programs and object code of cuda-core in `tilewright.check`, without a GPU, also from a Python file."""

import numpy as np
import pytest
from cuda.core import ObjectCode, Program, ProgramOptions

import tilewright as tw
from support.commands import error, invoke
from tilewright.cli.check import python_file
from tilewright.cli.check.python_file import loaded
from tilewright.jit.user_source import UserSource

SOURCE = "template <int N> __global__ void multiply(float* x) {\n  x[threadIdx.x] *= N;\n}\n"
FILE = f"""import numpy
from cuda.core import Program, ProgramOptions

TEXT = {SOURCE!r}


class kernels:
    product = Program(TEXT, "c++", ProgramOptions(arch="sm_90a", lineinfo=True, name="multiply.cu"))


product = kernels.product
"""


def program(text=SOURCE):
    return Program(text, "c++", ProgramOptions(arch="sm_90a", lineinfo=True, name="multiply.cu"))


def test_a_program():
    x, made = np.ones(32, np.float32), program()
    for times in (1, 2):
        result = tw.check(made, x, block=32, entry="multiply<3>", schedules=0)
        assert result.verified
        assert set(x) == {3.0**times}
    assert result.kernel == "multiply<3>"
    assert list(result.counters["by_line"]) == ["multiply.cu:1", "multiply.cu:2", "multiply.cu:3"]
    with pytest.raises(ValueError, match="'multiply<5>' is not an instantiation that the Program was compiled with"):
        tw.check(made, x, block=32, entry="multiply<5>")


def test_a_program_that_does_not_compile():
    with pytest.raises(tw.CompilationError, match=r'multiply\.cu\(1\): error: identifier "y" is undefined'):
        tw.check(program("__global__ void f() { y = 1; }"), block=1)


def test_object_code(tmp_path):
    ptx = UserSource("f.cu", "__global__ void f(int* x) { x[threadIdx.x] = 1; }").compiled().ptx
    x = np.zeros(8, np.int32)
    result = tw.check(ObjectCode.from_ptx(ptx.encode(), name="mine"), x, block=8, schedules=0)
    assert result.verified
    assert result.product == "mine"
    assert set(x) == {1}
    path = tmp_path / "f.ptx"
    path.write_text(ptx)
    for place in (path, str(path)):
        result = tw.check(ObjectCode.from_ptx(place), np.zeros(8, np.int32), block=8, schedules=0)
        assert (result.verified, result.product) == (True, "f.ptx")
    with pytest.raises(ValueError, match=r"none\.ptx cannot be read"):
        tw.check(ObjectCode.from_ptx("none.ptx"), block=8)
    with pytest.raises(ValueError, match="kernel is of cubin: pass the Program, or its ObjectCode of 'ptx'"):
        tw.check(ObjectCode.from_cubin(b"\x7fELF"), x, block=8)


ALIVE = []
"""Modules: cuda-core complains of a Program that the garbage collector finds in a cycle."""


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "multiplication.py"
    path.write_text(FILE)

    def kept(path):
        ALIVE.append(loaded(path))
        return ALIVE[-1]

    monkeypatch.setattr(python_file, "loaded", kept)
    return path


def test_a_kernel_in_a_python_file(file):
    options = ("--entry", "multiply<2>", "--block", 32, "--arg", "f32[32]:ones", "--schedules", 0)
    for name in ("product", "kernels.product"):
        shown = invoke("check", f"{file}:{name}", *options).stdout
        assert shown.startswith("multiply<2> program under eager, lazy: clean")


def test_what_a_python_file_lacks(file):
    assert "'sum' is not in it: name one of its kernels, FILE.py:NAME; it has product" in error("check", f"{file}:sum")
    assert "'numpy' is no kernel" in error("check", f"{file}:numpy")
    assert "may have several kernels: name one" in error("check", file)
    assert "there is no such file" in error("check", "./none.py:sum")
    assert "is for CUDA C++, and" in error("check", f"{file}:product", "--include", ".")
    assert "must be NAME=VALUE, such as BLOCK=128" in error("check", f"{file}:product", "--define", "3")
    assert "N=3 is not an argument of a check of cuda-core" in error("check", f"{file}:product", "--define", "N=3")
    assert "takes no bytes" in error("check", f"{file}:product", "--arg", "bytes:00")
    (file.parent / "wrong.py").write_text("a = 1\nb = c\n")
    assert "wrong.py:2 ends with NameError: name 'c' is not defined" in error("check", f"{file.parent}/wrong.py:a")
    (file.parent / "worse.py").write_text("a = 1\nb = (\n")
    assert "worse.py:2 ends with SyntaxError" in error("check", f"{file.parent}/worse.py:a")
    (file.parent / "empty.py").write_text("a = 1\n")
    assert "it has none, of Triton, CuTe DSL, CuPy or cuda-core" in error("check", f"{file.parent}/empty.py:b")
