"""Tuned choices: Configs that were measured to be the quickest for a product, which the planner takes first.

A table is a JSON file, of one GPU and one state of the kernels. The user's own is in the cache directory, in `tuned`;
then come those in the directories of TILEWRIGHT_CACHE_PATH, and the package's own.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any

from tilewright.errors import ArgumentValueError, UnavailableError, warn
from tilewright.hardware import Hardware
from tilewright.jit.cache import default_cache
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.registry import KERNELS
from tilewright.planner.tuned_table import Entry, Key, Table, decode, encode, kernels_digest
from tilewright.problem import Problem

_SHIPPED = Path(__file__).parent / "tables"
"""The package's own tables, made by tools/shipped_tables.py. They are for its own kernels, which a test shows."""

LOOK_SECONDS = 0.1
"""How long a table of another process may stay unseen."""

MAX_BYTES = 1 << 26
"""A larger file is no table."""


def label(hardware: Hardware) -> str:
    """What a table is for: a GPU model with so many SMs, since a slice of a GPU has its model's name."""
    return f"{hardware.name}-{hardware.sm_count}"


def file_name(gpu: str) -> str:
    """The name of a GPU's table for these kernels."""
    return f"{gpu}-{kernels_digest()[:16]}.json"


def read(path: Path, gpu: str | None = None, *, shipped: bool = False) -> tuple[str, Table]:
    """The GPU and the Table in a file, which is for the present kernels, unless it is `shipped` with them.

    Raises OSError, or an ArgumentValueError as `decode` does, with the path.
    """
    if path.stat().st_size > MAX_BYTES:
        raise ArgumentValueError(f"{path} has more than {MAX_BYTES} bytes, so it is no table: name another")
    try:
        return decode(path.read_text(encoding="utf-8"), gpu, current=not shipped)
    except UnicodeDecodeError:
        raise ArgumentValueError(f"{path} cannot be used: it is no text in UTF-8: take an undamaged copy") from None
    except ArgumentValueError as error:
        raise ArgumentValueError(f"{path} cannot be used: {error}") from None


class Store:
    """The tables of one GPU by its `label`, the user's first; a file that has changed is read again."""

    def __init__(self, gpu: str, folders: Sequence[Path] | None = None):
        """The tables in `folders`, by default those of the caches, the user's first, and in the package."""
        self.gpu = gpu
        if folders is None:
            kernels = default_cache()
            folders = [folder / "tuned" for folder in (kernels.directory, *kernels.extra_directories)]
        self._found: dict[Path, tuple[object, Table]] = dict.fromkeys((*folders, _SHIPPED), ("", Table()))
        self._folder = folders[0]
        self._unsaved = Table()
        self._tables: tuple[Table, ...] = ()
        self._next_look = -1.0
        self._added = False

    @cached_property
    def path(self) -> Path:
        """The user's file."""
        return self._folder / file_name(self.gpu)

    def tables(self) -> tuple[Table, ...]:
        """The tables that have entries, in the order in which they count; files are looked at every tenth of a second.

        It is another tuple only if something has changed. This process sees what it adds at once.
        """
        if (now := time.monotonic()) >= self._next_look:
            self._next_look = now + LOOK_SECONDS  # first, since another thread may want a new look meanwhile
            changed = self._added
            self._added = False
            for folder, (stamp, _) in self._found.items():
                found = _stamp(self._file(folder)) if os.path.isdir(folder) else ""
                if found != stamp:
                    self._found[folder] = found, self._load(folder)
                    changed = True
            if changed:
                known = (self._unsaved, *(table for _, table in self._found.values()))
                self._tables = tuple(table for table in known if table.extents)
        return self._tables

    def table(self) -> Table:
        """The user's own table, as it is now; raises an ArgumentValueError if it is damaged or cannot be read."""
        try:
            return self._read()
        except OSError as error:
            raise ArgumentValueError(f"{self.path} cannot be read ({error.strerror}): make it readable") from None

    def _read(self) -> Table:
        try:
            return read(self.path, self.gpu)[1]
        except (FileNotFoundError, NotADirectoryError):
            return Table()

    def shipped(self) -> Table:
        """The package's own table."""
        self.tables()
        return self._found[_SHIPPED][1]

    def found(self, problem: Problem) -> Iterator[list[Entry]]:
        """The entries of a problem by table, in the order in which they and the tables count."""
        key = None
        for table in self.tables():
            if (problem.n, problem.k) in table.extents:
                key = key or Key.of(problem)
                yield table.near(key, problem.m)

    def add(self, entries: Iterable[Entry], *, replaces: bool = False) -> None:
        """Add entries to the user's table; with `replaces` also in place of later ones.

        Any number of processes may do so at once. The file is replaced whole. One that is damaged is kept beside it.
        Raises an UnavailableError if the file cannot be written; this process then uses the entries all the same.
        """
        import filelock

        added = list(entries)
        try:
            default_cache().make_directory()
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            with filelock.FileLock(self.path.with_suffix(".lock")):
                table = self._undamaged()
                for entry in added:
                    table.add(entry, replaces=replaces)
                write_whole(self.path, encode(table, self.gpu))
        except (OSError, NotImplementedError) as error:  # filelock raises the second one without flock
            for entry in added:
                self._unsaved.add(entry, replaces=True)
            self._added = True
            raise UnavailableError(
                f"{self.path} cannot be written ({error}), so tuned Configs end with this process: set "
                f"TILEWRIGHT_CACHE_DIR to a directory that can be written"
            ) from None
        finally:
            self._next_look = -1.0

    def _undamaged(self) -> Table:
        """What the user's file holds; a damaged one is moved out of the way."""
        try:
            return self._read()
        except ArgumentValueError as error:
            names = (self.path.with_suffix(f".damaged{number or ''}") for number in count())
            damaged = next(path for path in names if not path.exists())
            os.replace(self.path, damaged)
            warn("%s; it is kept as %s, and a new table begun", error, damaged)
            return Table()

    def others(self) -> dict[Path, Table]:
        """The tables of other folders than the user's and the package's, by file, in the order in which they count."""
        self.tables()
        folders = [folder for folder in self._found if folder not in (self._folder, _SHIPPED)]
        return {self._file(folder): self._found[folder][1] for folder in folders}

    def _file(self, folder: Path) -> Path:
        """The table in a folder. The name of a shipped one needs no digest, which takes some 10 ms."""
        return folder / (f"{self.gpu}.json" if folder == _SHIPPED else self.path.name)

    def _load(self, folder: Path) -> Table:
        try:
            return read(self._file(folder), self.gpu, shipped=folder == _SHIPPED)[1]
        except OSError:
            return Table()  # the usual case: nothing was tuned
        except ArgumentValueError as error:
            warn("tuned Configs are not used: %s", error)
            return Table()


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _stamp(path: Path) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return status.st_mtime_ns, status.st_size, status.st_ino


@cache
def store(gpu: str) -> Store:
    """The Store of a GPU, at the place that the environment named at its first use."""
    return Store(gpu)


def tables(hardware: Hardware) -> tuple[Table, ...]:
    """The tables of a GPU, as `Store.tables` gives them."""
    return store(label(hardware)).tables()


def rows_in(tables: Iterable[Table], problem: Problem) -> frozenset[int]:
    """The numbers of rows for which a table has an entry, of products that differ from a problem in nothing else."""
    having = [table for table in tables if (problem.n, problem.k) in table.extents]
    return frozenset(m for table in having for m in table.rows_of(Key.of(problem)))


def best(problem: Problem, solved: Mapping[str, Problem], hardware: Hardware) -> Entry | None:
    """The first entry of a problem that counts; one that breaks a rule of its kernel, or is refused, hides no other.

    solved: the problem as each kernel that takes it does, maybe with copies of operands, which were part of what was
    measured. The nearest entry for other rows counts if its Config is near the best that the model knows.
    """
    for entries in store(label(hardware)).found(problem):
        for entry in entries:
            kernel, config = KERNELS[entry.kernel], entry.made_config()
            if entry.kernel not in solved:
                if entry.m == problem.m:  # another number of rows may be another kernel's
                    refusal = kernel.refuses(problem, hardware) or "another kernel comes first"
                    _ignored(entry.product, f"{entry.kernel} does not take it: {refusal}")
                continue
            try:
                kernel.check(config, solved[entry.kernel], hardware)
            except ConfigError as error:
                _ignored(entry.product, error.fault)
                continue
            if entry.m == problem.m or kernel.is_near_best(config, solved[entry.kernel], hardware):
                return entry
            break  # others of this table are further away
    return None


def require_usable(entry: Entry, hardware: Hardware) -> None:
    """Raise an ArgumentValueError for an entry whose kernel does not take its product, or whose Config breaks a rule.

    What depends on the epilogue is found when the entry is used.
    """
    from tilewright.planner.copies import Copied, copied

    entry.check_config()
    kernel = KERNELS[entry.kernel]
    found = copied(entry.plain_problem, kernel, hardware)
    if not isinstance(found, Copied):
        raise ArgumentValueError(f"{entry.kernel} does not take it: {found}")
    try:
        kernel.check(entry.made_config(), found.problem, hardware)
    except ConfigError as error:
        raise ArgumentValueError(f"its Config cannot be used: {error.fault}") from None


def changed_fields(config: Any, other: Any) -> str:
    """The fields in which a Config differs from another; all of it if that is of another type."""
    if type(config) is not type(other):
        return repr(config)
    values, others = values_of(config), values_of(other)
    return ", ".join(f"{name}={value!r}" for name, value in values.items() if value != others[name]) or "the same"


@cache
def _ignored(product: str, fault: str) -> None:
    warn("the tuned Config of %s is not used: %s; tune it again", product, fault)
