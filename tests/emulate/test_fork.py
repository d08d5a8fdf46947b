"""Forks while another thread works: the child has no such thread, and must not wait for it."""

import os
import signal
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import tilewright as tw
from tilewright import api
from tilewright.backends.emulated import EmulatedBackend
from tilewright.jit import cache, compile

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

A, B = (np.arange(16 * 16, dtype=np.float32).reshape(16, 16) % 7 - shift for shift in (3, 2))


@contextmanager
def meanwhile(work):
    """Runs `work(hold)` in a thread, and the body while the thread is in `hold`; children do not hold."""
    parent, inside, leave = os.getpid(), threading.Event(), threading.Event()

    def hold(*_):
        if os.getpid() == parent:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=work, args=(hold,))
    thread.start()
    try:
        assert inside.wait(60)
        yield
    finally:
        leave.set()
        thread.join()


def in_child(work):
    """Whether `work` returns true in a forked process that has a minute."""
    child = os.fork()
    if not child:
        status = 2
        try:
            signal.alarm(60)
            status = 0 if work() else 1
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def holding(lock):
    """Work that holds a lock."""

    def work(hold):
        with lock:
            hold()

    return work


@pytest.mark.parametrize("planned", [False, True])
def test_a_child_multiplies_while_the_parent_does(planned):
    pause = []
    backend = EmulatedBackend(progress=lambda share: pause[0](share) if pause else None)
    plan = tw.plan(A, B, backend=backend)

    def multiply(hold):
        pause.append(hold)
        results.append(plan(A, B))

    def multiplied():
        wanted, call = A @ B, plan if planned else tw.matmul
        keywords = {} if planned else {"backend": backend}
        return all(np.array_equal(call(A, B, **keywords), wanted) for _ in range(2))

    results = []
    with meanwhile(multiply):
        assert in_child(multiplied)
    assert np.array_equal(results[0], A @ B)
    assert multiplied()
    assert in_child(multiplied)  # now that nobody multiplies


def test_a_child_plans_while_the_parent_adds_a_plan():
    api.emulator()
    tw.matmul(A, B, backend="emulator")
    with meanwhile(holding(api._plans._adding)):
        assert in_child(lambda: np.array_equal(tw.matmul(A[:8], B, backend="emulator"), A[:8] @ B))


def test_a_child_builds_while_the_parent_builds(monkeypatch):
    class Cache:
        def get_or_compile(self, unit, arch):
            hold[0]()
            return f"{unit} for {arch}"

    hold = []
    monkeypatch.setattr(cache, "default_cache", Cache)
    monkeypatch.setattr(cache, "_built", {})

    def build(wait):
        hold.append(wait)
        cache.build("it", "sm_90a")

    with meanwhile(build):
        assert in_child(lambda: str(cache.build("it", "sm_90a")) == "it for sm_90a")


def test_a_child_loads_the_compiler_while_the_parent_does():
    with meanwhile(holding(compile._load_lock)):
        assert in_child(lambda: compile.load_nvrtc() is not None)
