"""Compilation in several processes at once, for those who need many kernels.

NVRTC compiles one unit at a time per process. It may crash, and a fork of a process that compiles may hang; neither
reaches the caller here, since each worker is a fresh process of its own.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import cast

from tilewright.errors import TilewrightError, UnavailableError
from tilewright.jit import cache
from tilewright.jit.compile import CompilationError, CompiledKernel
from tilewright.jit.source import TranslationUnit

MOST = 16
"""The most processes by default: each takes some 150 MB, and a container may have fewer cores than it sees."""


class Worker:
    """A process that compiles one unit after the other."""

    def __init__(self) -> None:
        # It imports what this process would, and nothing else that lies in the current directory.
        code = f"import sys; sys.path[:] = {sys.path!r}; from tilewright.jit.worker import main; main()"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the parent, which then ends its workers
            )
        except OSError as error:
            raise UnavailableError(
                f"sys.executable={sys.executable!r} cannot be started, and it compiles the kernels: {error.strerror}; "
                f"set it to a Python, or compile one kernel at a time by tilewright.plan"
            ) from None
        self._has_answered = False

    def compile(self, unit: TranslationUnit, arch: str) -> CompiledKernel:
        """The compiled kernel; raises what the compiler raises, and a CompilationError if the process ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((unit, arch), self._process.stdin)
            self._process.stdin.flush()
            answer = pickle.load(self._process.stdout)  # our own worker's bytes
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            status = self._process.wait()
            end = f"signal {-status}" if status < 0 else f"status {status}"
            if not self._has_answered and status > 0:
                raise UnavailableError(
                    f"sys.executable={sys.executable!r}, which compiles the kernels, ended with {end} before it had "
                    f"compiled one: see what it printed"
                ) from None
            raise CompilationError(
                f"the process that compiled {unit.name} for {arch} ended with {end}: NVRTC has probably crashed; "
                f"another version of it, or another Config, may do",
                log="",
            ) from None
        self._has_answered = True
        if isinstance(answer, TilewrightError):
            raise answer
        return cast(CompiledKernel, answer)

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process, even while it compiles."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()


class CompilerPool:
    """At most `size` worker processes, by default one for each usable core up to MOST; they start as they are needed.

    Use it in a `with` block: at its end, or on an exception such as Ctrl-C, all workers end.
    """

    def __init__(self, size: int | None = None):
        self.size = size or min(usable_cores(), MOST)
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="tilewright-compile")
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._workers: list[Worker] = []
        self._closed = False

    def __enter__(self) -> "CompilerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in list(self._workers):
            worker.close()  # a thread that waits for it goes on with an error that nobody asks for
        self._threads.shutdown()

    def submit(self, unit: TranslationUnit, arch: str) -> "Future[CompiledKernel]":
        """The future kernel, which `build` finds too once it is there; its errors are those of `compile`."""
        return self._threads.submit(self._compile, unit, arch)

    def build_all(
        self, units: Iterable[TranslationUnit], arch: str
    ) -> Generator[tuple[TranslationUnit, CompiledKernel | TilewrightError], None, None]:
        """Each distinct unit with its kernel, or with the error of its compilation, as they become ready.

        Units that nobody has begun to compile when the iterator is closed are not compiled.
        """
        futures = {self.submit(unit, arch): unit for unit in dict.fromkeys(units)}
        try:
            for future in as_completed(futures):
                error = future.exception()
                if error is not None and not isinstance(error, TilewrightError):
                    raise error
                yield futures[future], error or future.result()
        finally:
            for future in futures:
                future.cancel()

    def _compile(self, unit: TranslationUnit, arch: str) -> CompiledKernel:
        kernel = cache.known(unit, arch)
        if kernel is None:
            worker = self._take()
            try:
                kernel = worker.compile(unit, arch)
            finally:
                if worker.is_alive:
                    self._idle.put(worker)
            cache.remember(unit, arch, kernel)
        return kernel

    def _take(self) -> Worker:
        """An idle worker, or a new one: there are never more than threads."""
        with suppress(Empty):
            return self._idle.get_nowait()
        worker = Worker()
        self._workers.append(worker)
        if self._closed:
            worker.close()
        return worker


def compilations() -> int:
    """How many compilations leave a core to a process that measures meanwhile."""
    return max(1, min(usable_cores(), MOST) - 1)


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
