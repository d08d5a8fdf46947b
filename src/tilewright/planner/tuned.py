"""Tuned choices: Configs that were measured to be the quickest for a product, which the planner takes first.

A table is a JSON file, of one GPU and one state of the kernels. The user's own is in the cache directory, in `tuned`;
then come those in the directories of TILEWRIGHT_CACHE_PATH, and the package's own.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from hashlib import sha256
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.errors import ArgumentValueError, UnavailableError, warn
from tilewright.hardware import Hardware
from tilewright.jit.cache import default_cache
from tilewright.kernels.kernel import fields_of, values_of
from tilewright.kernels.registry import KERNELS
from tilewright.problem import Matrix, Problem

FORMAT = 2
"""The format of the files; others are refused."""

LINE = 128
"""Rows that begin on lines of L2 are aligned as well as can be."""

_SHIPPED = Path(__file__).parent / "tables"
"""The package's own tables, made by tools/shipped_tables.py. They are for its own kernels, which a test shows."""

LOOK_SECONDS = 0.1
"""How long a table of another process may stay unseen."""

MAX_BYTES = 1 << 26
"""A larger file is no table."""


class Key(NamedTuple):
    """What a tuned Config depends on besides m, kernels and GPU.

    alignment: of the rows of a, b and out in bytes, at most LINE; 0 where no stride is 1.
    shared: the operands that all batches share. epilogue: what is read besides a and b, with the types and what of
    the strides counts, and the activation or the expression.
    """

    n: int
    k: int
    batch: int
    layout: str
    dtype: str
    out_dtype: str
    alignment: tuple[int, ...]
    shared: str
    epilogue: str

    @classmethod
    def of(cls, problem: Problem) -> "Key":
        """The Key of a problem."""
        matrices = dict(problem.operands())
        words = [f"{name} {_form(matrix)}" for name, matrix in problem.epilogue.read()]
        activation, expression = problem.epilogue.activation, problem.epilogue.expression
        words += [str(each) for each in (activation, expression and expression.gate, expression) if each is not None]
        words += [f"{name} {_form(matrix)}" for name, matrix in problem.epilogue.written()]
        words += ["batch-invariant"] if problem.batch_invariant else []
        shared = [name for name in ("a", "b") if problem.batch and not any(matrices[name].batch_strides)]
        return cls(
            problem.n,
            problem.k,
            problem.batch_count,
            problem.layout,
            problem.a.dtype.name,
            problem.out.dtype.name,
            tuple(_alignment(matrices[name]) for name in ("a", "b", "out")),
            " ".join(shared),
            ", ".join(words),
        )


def _form(matrix: Matrix) -> str:
    """The type of an addend, its strides if they are 0 or 1, and the alignment of its rows."""
    strides = ",".join(str(stride) if stride in (0, 1) else "n" for stride in (matrix.row_stride, matrix.column_stride))
    return f"{matrix.dtype} ({strides}) by {_alignment(matrix)}"


def _alignment(matrix: Matrix) -> int:
    if 1 not in (matrix.row_stride, matrix.column_stride):
        return 0
    outer = matrix.row_stride if matrix.column_stride == 1 else matrix.column_stride
    strides = gcd(LINE, *(stride * matrix.dtype.nbytes for stride in (outer, *matrix.batch_strides)))
    return strides if matrix.alignment >= 16 else min(strides, matrix.alignment)


class Entry(NamedTuple):
    """A tuned choice: for products of `key` and m rows, `kernel` with the fields of its Config took `us`.

    date: when that was measured, in ISO 8601; of two entries for one product the later one counts.
    nvrtc: the compiler's version, for information. Another one makes nearly the same code of a kernel, so the order of
    its Configs hardly changes, and the entry stays good advice.
    """

    key: Key
    m: int
    kernel: str
    config: Mapping[str, Any]
    us: float
    date: str
    nvrtc: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        values = self._asdict()
        key = values.pop("key")
        return {"m": self.m, **key._asdict(), **values}

    @classmethod
    def from_dict(cls, values: Any) -> "Entry":
        """The entry that `as_dict` wrote; an ArgumentValueError says what is wrong with another."""
        if not isinstance(values, dict) or values.keys() != _TYPES.keys():
            raise ArgumentValueError(f"{str(values)[:80]} is no entry: give it exactly the members {', '.join(_TYPES)}")
        for name, kind in _TYPES.items():
            if type(values[name]) is not kind:
                raise ArgumentValueError(
                    f"an entry has {name}={str(values[name])[:80]!r}: write one of type {kind.__name__}"
                )
        if values["kernel"] not in KERNELS:
            raise ArgumentValueError(f"an entry has kernel={values['kernel']!r}: use {', '.join(KERNELS)}")
        if not all(type(nbytes) is int for nbytes in values["alignment"]):
            raise ArgumentValueError(f"an entry has alignment={str(values['alignment'])[:80]}: write whole numbers")
        known = fields_of(KERNELS[values["kernel"]].config_type)
        if values["config"].keys() != known.keys():
            raise ArgumentValueError(
                f"an entry has another config than {values['kernel']}'s: give it exactly the fields {', '.join(known)}"
            )
        try:
            datetime.fromisoformat(values["date"])
        except ValueError:
            raise ArgumentValueError(
                f"an entry has date={values['date'][:80]!r}: write one in ISO 8601, such as 2026-11-22T14:00:00+00:00"
            ) from None
        key = Key(**{name: values[name] for name in Key._fields} | {"alignment": tuple(values["alignment"])})
        return cls(key, *(values[name] for name in ("m", "kernel", "config", "us", "date", "nvrtc")))

    def made_config(self) -> Any:
        """The Config."""
        return KERNELS[self.kernel].config_type(**self.config)


_TYPES: dict[str, type] = {
    "m": int, "n": int, "k": int, "batch": int, "layout": str, "dtype": str, "out_dtype": str, "alignment": list,
    "shared": str, "epilogue": str, "kernel": str, "config": dict, "us": float, "date": str,
    "nvrtc": str,
}  # fmt: skip


def bucket(m: int) -> int:
    """The largest m of the bucket that m belongs to: each to 16, then 32, 64, and 128, 192, 256, 384, 512, ..."""
    if m <= 16:
        return m
    power = 1 << (m - 1).bit_length()
    return power * 3 // 4 if power >= 256 and m <= power * 3 // 4 else power


class Table:
    """The entries of one file, or of several.

    extents: all (n, k). Most products have none of them, which is quicker to see than a Key to make.
    """

    def __init__(self, entries: Iterable[Entry] = ()):
        self._entries: dict[Key, dict[int, Entry]] = {}
        self.extents: set[tuple[int, int]] = set()
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def add(self, entry: Entry, *, replaces: bool = False) -> None:
        """Add an entry, unless a later one for the same product is there that it does not replace."""
        self.extents.add((entry.key.n, entry.key.k))
        of_key = self._entries.setdefault(entry.key, {})
        if replaces or entry.m not in of_key or of_key[entry.m].date <= entry.date:
            of_key[entry.m] = entry

    def find(self, key: Key, m: int) -> Entry | None:
        """The entry for m, or else the one for the nearest m in its bucket, a larger one rather than a smaller."""
        of_key = self._entries.get(key)
        if not of_key:
            return None
        near = [known for known in of_key if bucket(known) == bucket(m)]
        return of_key[min(near, key=lambda known: (known < m, abs(known - m)))] if near else None

    def entries(self) -> list[Entry]:
        """All entries, in the order of their products."""
        return sorted(
            (entry for of_key in self._entries.values() for entry in of_key.values()),
            key=lambda entry: (entry.key, entry.m),
        )


@cache
def kernels_digest() -> str:
    """What the entries of a table hold for: the kernels that the planner chooses from."""
    return sha256("".join(kernel.digest for kernel in KERNELS.values()).encode()).hexdigest()


def encode(table: Table, gpu: str) -> str:
    """The text of a file, one entry a line."""
    head = json.dumps({"format": FORMAT, "gpu": gpu, "kernels": kernels_digest()})[:-1]
    lines = ",\n".join(json.dumps(entry.as_dict()) for entry in table.entries())
    return f'{head}, "entries": [\n{lines}\n]}}\n'


def decode(text: str, gpu: str | None = None, *, of_kernels: str | None = None) -> tuple[str, Table]:
    """The GPU and the Table of a file's text.

    An ArgumentValueError says what is wrong with another text, or with one for another GPU than `gpu` or for other
    kernels than `of_kernels`, a digest; None is for any.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentValueError(f"it is not JSON ({error}): tune again, or take an undamaged copy") from None
    if not isinstance(content, dict) or content.keys() != {"format", "gpu", "kernels", "entries"}:
        raise ArgumentValueError("it is not a table of tuned Configs: `tilewright tune --export` writes one")
    if content["format"] != FORMAT:
        raise ArgumentValueError(f"it has format {content['format']!r}, and this version reads {FORMAT}: tune again")
    if of_kernels not in (None, content["kernels"]):
        raise ArgumentValueError("it was measured with other kernels than this version's: tune again")
    if not isinstance(content["gpu"], str) or gpu not in (None, content["gpu"]):
        raise ArgumentValueError(f"it is for GPU {content['gpu']!r}, and this one is {gpu!r}: tune on this GPU")
    if not isinstance(content["entries"], list):
        raise ArgumentValueError("its entries are no list: take an undamaged copy")
    return content["gpu"], Table(map(Entry.from_dict, content["entries"]))


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
        return decode(path.read_text(encoding="utf-8"), gpu, of_kernels=None if shipped else kernels_digest())
    except ValueError as error:
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
        self._tables: list[Table] = []
        self._next_look = -1.0

    @cached_property
    def path(self) -> Path:
        """The user's file."""
        return self._folder / file_name(self.gpu)

    def tables(self) -> list[Table]:
        """The tables that have entries, in the order in which they count; files are looked at every tenth of a second.

        This process sees what it adds at once.
        """
        if (now := time.monotonic()) >= self._next_look:
            self._next_look = now + LOOK_SECONDS  # first, since another thread may want a new look meanwhile
            for folder, (stamp, _) in self._found.items():
                found = _stamp(self._file(folder)) if os.path.isdir(folder) else ""
                if found != stamp:
                    self._found[folder] = found, self._load(folder)
            known = (self._unsaved, *(table for _, table in self._found.values()))
            self._tables = [table for table in known if table.extents]
        return self._tables

    def table(self) -> Table:
        """The user's own table, as it is now."""
        self._next_look = -1.0
        self.tables()
        return self._found[self._folder][1]

    def find(self, problem: Problem) -> Entry | None:
        """The entry of a problem in the first table that has one."""
        key = None
        for table in self.tables():
            if (problem.n, problem.k) in table.extents:
                key = key or Key.of(problem)
                if (entry := table.find(key, problem.m)) is not None:
                    return entry
        return None

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
            raise UnavailableError(
                f"{self.path} cannot be written ({error}), so tuned Configs are lost with this process: set "
                f"TILEWRIGHT_CACHE_DIR to a directory that can be written"
            ) from None
        finally:
            self._next_look = -1.0

    def _undamaged(self) -> Table:
        """What the user's file holds; a damaged one is moved out of the way."""
        try:
            return read(self.path, self.gpu)[1]
        except FileNotFoundError:
            return Table()
        except ArgumentValueError as error:
            damaged = self.path.with_suffix(".damaged")
            os.replace(self.path, damaged)
            warn("%s; it is kept as %s, and a new table begun", error, damaged)
            return Table()

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


def may_have(problem: Problem, hardware: Hardware) -> bool:
    """Whether a table of this GPU has entries for the n and k of a problem."""
    return any((problem.n, problem.k) in table.extents for table in store(label(hardware)).tables())


def best(problem: Problem, hardware: Hardware, kernel: str) -> tuple[Any, str] | None:
    """The tuned Config of a kernel for a problem, and the reason in words; None if there is none that fits."""
    entry = store(label(hardware)).find(problem)
    if entry is None or entry.kernel != kernel:
        return None
    config = entry.made_config()
    try:
        KERNELS[kernel].check(config, problem, hardware)
    except ArgumentValueError as error:
        _ignored(str(error))
        return None
    if entry.m != problem.m and not KERNELS[kernel].is_near_best(config, problem, hardware):
        return None
    return config, f"tuned for {entry.m} rows"


def changed_fields(config: Any, other: Any) -> str:
    """The fields in which a Config differs from another of its type."""
    values, others = values_of(config), values_of(other)
    return ", ".join(f"{name}={value!r}" for name, value in values.items() if value != others[name]) or "the same"


@cache
def _ignored(error: str) -> None:
    warn("a tuned Config is not used: %s", error)
