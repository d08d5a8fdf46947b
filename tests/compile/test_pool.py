"""Compilation in several processes: what they return, what they leave on disk, and how they fail and end."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tilewright.errors import UnavailableError
from tilewright.jit import cache
from tilewright.jit.cache import KernelCache
from tilewright.jit.compile import CompilationError, CompiledKernel
from tilewright.jit.pool import CompilerPool, Worker
from tilewright.jit.source import TranslationUnit


def unit(name, body="*out = 1;"):
    return TranslationUnit(name, f'extern "C" __global__ void {name}(int* out) {{ {body} }}')


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A cache of its own, in this process and in the workers."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    cache.default_cache.cache_clear()
    yield tmp_path
    cache.default_cache.cache_clear()


def test_units_are_compiled_once_and_kept_in_memory_and_on_disk(own_cache):
    units = [unit("first"), unit("second"), unit("first")]
    with CompilerPool(2) as pool:
        kernels = dict(pool.build_all(units, "sm_90a"))
    assert [kernels[each].name for each in units] == ["first", "second", "first"]
    assert all(isinstance(kernel, CompiledKernel) and ".entry" in kernel.ptx for kernel in kernels.values())
    assert cache.build(units[0]) is kernels[units[0]]
    assert KernelCache(own_cache).find(units[1]) == kernels[units[1]]


def test_an_error_of_the_compiler_comes_with_its_log_and_the_others_are_compiled():
    wrong = unit("wrong", "undeclared = 1;")
    with CompilerPool(1) as pool:
        found = dict(pool.build_all([wrong, unit("right")], "sm_90a"))
    assert isinstance(found[wrong], CompilationError)
    assert "undeclared" in found[wrong].log
    assert found[unit("right")].name == "right"


def test_a_worker_that_dies_takes_one_unit_with_it(monkeypatch):
    compile_by_worker = Worker.compile

    def crash_first(self, each, arch):
        if each.name == "fatal":
            os.kill(self._process.pid, signal.SIGSEGV)
        return compile_by_worker(self, each, arch)

    monkeypatch.setattr(Worker, "compile", crash_first)
    with CompilerPool(1) as pool:
        found = dict(pool.build_all([unit("before"), unit("fatal"), unit("after")], "sm_90a"))
    assert found[unit("before")].name == "before"
    assert found[unit("after")].name == "after"
    assert "process that compiled fatal" in str(found[unit("fatal")])
    assert "signal 11" in str(found[unit("fatal")])


def test_workers_end_with_the_block_even_while_they_compile():
    many = [unit(f"kernel_{number}") for number in range(40)]
    pool = CompilerPool(2)

    def interrupted():
        with pool:
            next(pool.build_all(many, "sm_90a"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert pool._workers
    assert not any(worker.is_alive for worker in pool._workers)
    deadline = time.monotonic() + 30
    while any(thread.name.startswith("tilewright-compile") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_ends_with_its_input():
    worker = Worker()
    assert worker.compile(unit("only"), "sm_90a").name == "only"
    worker._process.stdin.close()
    assert worker._process.wait(30) == 0
    worker.close()


def test_what_nobody_waits_for_is_not_compiled(own_cache):
    units = [unit(f"number_{number}") for number in range(9)]
    with CompilerPool(1) as pool:
        ready = pool.build_all(units, "sm_90a")
        next(ready)
        ready.close()
        assert pool.submit(unit("later"), "sm_90a").result().name == "later"  # which has waited for all before it
    assert KernelCache(own_cache).find(units[-1]) is None


def test_a_known_kernel_starts_no_worker(own_cache):
    kernel = cache.build(unit("there"))
    with CompilerPool(1) as pool:
        assert pool.submit(unit("there"), "sm_90a").result() is kernel
        assert not pool._workers
    assert list(Path(own_cache).glob("*"))


def test_workers_import_what_their_parent_would_and_nothing_from_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "filelock.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    with CompilerPool(1) as pool:
        assert pool.submit(unit("only"), "sm_90a").result().name == "only"


def test_a_python_that_cannot_be_started_or_ends_at_once_is_named(tmp_path, monkeypatch):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    for executable, message in ((str(tmp_path), "cannot be started"), (str(script), "ended with status 3")):
        monkeypatch.setattr(sys, "executable", executable)
        with CompilerPool(1) as pool:
            ((_, error),) = pool.build_all([unit("nowhere")], "sm_90a")
        assert isinstance(error, UnavailableError)
        assert f"sys.executable={executable!r}" in str(error)
        assert message in str(error)
