"""Compiled kernels on disk and in memory, shared by any number of processes.

An entry is one file, named by a digest of everything that goes into a compilation. It is written to a
temporary file under the key's lock and then renamed, so a reader sees a whole entry or none. A checksum catches
other damage. The locks are the operating system's, so a process that dies releases its locks. If the disk
cannot be written, or if other users can write to the directory, kernels are compiled as if there were no cache.
"""

import contextlib
import functools
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.errors import warn
from tilewright.hardware import HOPPER
from tilewright.jit import compile as compiler
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.entries import METADATA_FIELDS, SUFFIX, CorruptEntry, abandoned, distrusted, read_entry, write_entry
from tilewright.jit.source import TranslationUnit, headers_digest

if TYPE_CHECKING:
    import filelock  # imported late: only what is compiled takes a lock

# Increment this when the layout of an entry changes, or the result of `compile` for the same options. The fields
# of CompiledKernel are part of the key anyway.
ENTRY_FORMAT = 2


def _user_directory() -> Path:
    import platformdirs  # only needed if no directory was named

    return platformdirs.user_cache_path("tilewright")


def _resolved(directory: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(os.path.expanduser(directory)))


def contents(directory: Path) -> tuple[int, int]:
    """How many entries a directory holds, and their size in bytes."""
    sizes = []
    for path in directory.glob(f"*{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another process may be clearing the cache
            sizes.append(path.stat().st_size)
    return len(sizes), sum(sizes)


class KernelCache:
    """A directory of compiled kernels.

    `directory` is TILEWRIGHT_CACHE_DIR by default, or else the user's cache directory. `extra_directories` are
    only read; by default they are those of TILEWRIGHT_CACHE_PATH, separated as in PATH. In all of them `~` is the
    user's home. Relative ones are below the directory that is current when the cache is made.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        extra_directories: Sequence[str | os.PathLike[str]] | None = None,
    ):
        if directory is None:
            directory = os.environ.get("TILEWRIGHT_CACHE_DIR") or _user_directory()
        if extra_directories is None:
            search_path = os.environ.get("TILEWRIGHT_CACHE_PATH", "").split(os.pathsep)
            extra_directories = [folder for folder in search_path if folder]
        self.directory = _resolved(directory)
        self.extra_directories = tuple(_resolved(folder) for folder in extra_directories)
        self._warned_of_disk = False
        self._warned_of: set[Path] = set()

    def key(self, unit: TranslationUnit, arch: str) -> str:
        """SHA-256 in hexadecimal over everything that determines the compiled kernel. It needs no compiler."""
        ingredients = [
            ENTRY_FORMAT,
            METADATA_FIELDS,
            unit.name,
            unit.text,
            headers_digest(unit.headers),
            arch,
            compiler.nvrtc_version(),
            compiler.OPTIONS,
        ]
        return hashlib.sha256(json.dumps(ingredients).encode()).hexdigest()

    def find(self, unit: TranslationUnit, arch: str = HOPPER) -> CompiledKernel | None:
        """The entry of `unit` for `arch`, or None."""
        return self._find(self.key(unit, arch))

    def get_or_compile(self, unit: TranslationUnit, arch: str = HOPPER) -> CompiledKernel:
        """The entry of `unit` for `arch`, compiled if there is none. Processes that ask together compile once.

        Raises what `compile` raises. Problems with the disk are logged and never raised.
        """
        return self.get_or_make(lambda: self.key(unit, arch), lambda: compiler.compile(unit, arch))

    def get_or_make(self, key_of: Callable[[], str], make: Callable[[], CompiledKernel]) -> CompiledKernel:
        """The entry of a key, made if there is none. The key covers all that goes into it, the compiler too."""
        found = self._find(key_of())
        if found is not None:
            return found
        # Once the compiler is loaded, its version is certain, and the key may differ.
        compiler.load_nvrtc()
        key = key_of()
        with self._locked(key) as may_write:
            found = self._find(key, report=True)
            if found is not None:
                return found
            kernel = make()
            if may_write:
                self._write(key, kernel)
        return kernel

    def clear(self) -> None:
        """Remove every entry, the quarantined ones, and the temporary files of killed processes.

        Lock files stay, because removing a held one would let two processes believe that they hold it.
        """
        for path in [*self.directory.glob(f"*{SUFFIX}"), *self.quarantine.glob(f"*{SUFFIX}")]:
            path.unlink(missing_ok=True)
        import filelock

        for key, path in abandoned(self.directory):
            with contextlib.suppress(filelock.Timeout), self._lock(key).acquire(timeout=0):
                path.unlink(missing_ok=True)

    def make_directory(self) -> None:
        """Make the directory, for this user alone, unless it is there. Raises OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def folder(self, name: str) -> Path | None:
        """A folder in the directory for files that are no kernels; None if it cannot be made, or is not trusted."""
        with self._disk_may_fail():
            self.make_directory()
            if self._trusts(self.directory):
                (self.directory / name).mkdir(mode=0o700, exist_ok=True)
                return self.directory / name
        return None

    @property
    def quarantine(self) -> Path:
        """The directory of corrupt entries."""
        return self.directory / "quarantine"

    def _find(self, key: str, report: bool = False) -> CompiledKernel | None:
        """The entry of `key` in any directory. With `report`, log a corrupt one, and quarantine it if it is ours."""
        for folder in (self.directory, *self.extra_directories):
            if not self._trusts(folder):
                continue
            path = folder / f"{key}{SUFFIX}"
            try:
                return read_entry(path, key)
            except OSError:
                continue  # the usual miss, or a directory that cannot be read
            except CorruptEntry as error:
                if report:
                    warn("the cache entry %s is corrupt: %s; it is compiled again", path, error)
                    if folder == self.directory:
                        self._move_to_quarantine(path)
        return None

    def _trusts(self, folder: Path) -> bool:
        """Whether the kernels in a directory may run; the first time that they may not, a warning says why."""
        reason = distrusted(folder, any_owner=folder != self.directory)
        if reason and folder not in self._warned_of:
            self._warned_of.add(folder)
            warn("the kernel cache %s is not used, since others' code could be in it: %s", folder, reason)
        return not reason

    def _move_to_quarantine(self, path: Path) -> None:
        with self._disk_may_fail():
            self.quarantine.mkdir(exist_ok=True)
            os.replace(path, self.quarantine / path.name)

    def _write(self, key: str, kernel: CompiledKernel) -> None:
        with self._disk_may_fail():
            for _, path in abandoned(self.directory, key):  # by killed processes, since we hold the lock
                path.unlink(missing_ok=True)
            write_entry(self.directory / f"{key}{SUFFIX}", kernel, key)

    def _lock(self, key: str) -> "filelock.BaseFileLock":
        import filelock

        return filelock.FileLock(self.directory / "locks" / f"{key}.lock")

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[bool]:
        """Hold the lock of `key`; yields False if the directory cannot be written or locked, or is not trusted."""
        lock = self._lock(key)
        with self._disk_may_fail():
            self.make_directory()
            if self._trusts(self.directory):
                (self.directory / "locks").mkdir(exist_ok=True)
                lock.acquire(poll_interval=0.01)
        try:
            yield lock.is_locked
        finally:
            lock.release()

    @contextlib.contextmanager
    def _disk_may_fail(self) -> Iterator[None]:
        """Turn OSErrors into one warning per cache object."""
        try:
            yield
        except (OSError, NotImplementedError) as error:  # filelock raises the second one without flock
            if not self._warned_of_disk:
                self._warned_of_disk = True
                warn(
                    "the kernel cache %s cannot be written (%s): every process compiles its kernels again; "
                    "set TILEWRIGHT_CACHE_DIR to a directory that can be written",
                    self.directory,
                    error,
                )


@functools.cache
def default_cache() -> KernelCache:
    """The cache of this process, at the place that the environment named at its first use."""
    return KernelCache()


_built: dict[tuple[TranslationUnit, str], CompiledKernel] = {}
_build_locks: dict[tuple[TranslationUnit, str], threading.Lock] = {}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_build_locks.clear)  # threads that are not in the child may hold them


def build(unit: TranslationUnit, arch: str = HOPPER) -> CompiledKernel:
    """The compiled kernel, from memory, from the default cache or from the compiler. Thread-safe."""
    request = (unit, arch)
    kernel = _built.get(request)
    if kernel is None:
        with _build_locks.setdefault(request, threading.Lock()):
            kernel = _built.get(request)
            if kernel is None:
                kernel = _built[request] = default_cache().get_or_compile(unit, arch)
    return kernel


def known(unit: TranslationUnit, arch: str = HOPPER) -> CompiledKernel | None:
    """The kernel that `build` would not have to compile, from memory or from the default cache; or None."""
    kernel = _built.get((unit, arch))
    if kernel is None and (kernel := default_cache().find(unit, arch)) is not None:
        remember(unit, arch, kernel)
    return kernel


def in_memory(unit: TranslationUnit, arch: str = HOPPER) -> CompiledKernel | None:
    """The kernel if `build` would return it at once; or None."""
    return _built.get((unit, arch))


def remember(unit: TranslationUnit, arch: str, kernel: CompiledKernel) -> None:
    """Keep in memory what another process has compiled, for `build` to find."""
    _built.setdefault((unit, arch), kernel)
