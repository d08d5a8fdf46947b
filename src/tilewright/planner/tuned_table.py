"""Tables of tuned Configs: what an entry says, how entries are found, and the text of a file of them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from math import gcd, inf
from typing import Any, NamedTuple

from tilewright.dtypes import PRODUCTS, SUPPORTED, DType, by_name
from tilewright.errors import ArgumentValueError
from tilewright.kernels.config_fields import fields_of
from tilewright.kernels.registry import KERNELS
from tilewright.problem import Matrix, Problem
from tilewright.rounding import MOST_COUNTED, ceil_div, round_up

FORMAT = 2
"""The format of the files; others are refused."""

LINE = 128
"""Rows that begin on lines of L2 are aligned as well as can be."""


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
        words += ["fast accumulation"] if problem.fast_accumulation else []
        types = dict.fromkeys((problem.a.dtype.name, problem.b.dtype.name))
        shared = [name for name in ("a", "b") if problem.batch and not any(matrices[name].batch_strides)]
        return cls(
            problem.n,
            problem.k,
            problem.batch_count,
            problem.layout,
            " by ".join(types),
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

    @property
    def product(self) -> str:
        """What it is for, in words."""
        key = self.key
        batch = f"{key.batch} of " if key.batch > 1 else ""
        return f"{batch}{self.m}x{key.n}x{key.k} {key.dtype} {key.layout}{key.epilogue and f', {key.epilogue}'}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        values = self._asdict()
        key = values.pop("key")
        return {"m": self.m, **key._asdict(), **values}

    @classmethod
    def from_dict(cls, values: Any) -> "Entry":
        """The entry that `as_dict` wrote; an ArgumentValueError says what is wrong with another."""
        if not isinstance(values, dict):
            raise ArgumentValueError(f"{str(values)[:80]} is no entry: give it exactly the members {', '.join(_TYPES)}")
        if wrong := _difference(values, _TYPES):
            raise ArgumentValueError(f"it has {wrong}: give it exactly the members {', '.join(_TYPES)}")
        if type(us := values["us"]) is int and abs(us) <= MOST_COUNTED:
            values = values | {"us": float(us)}
        for name, kind in _TYPES.items():
            if type(values[name]) is not kind:
                raise ArgumentValueError(f"it has {name}={_brief(values[name])}: write one of type {kind.__name__}")
        for name in ("m", "n", "k", "batch", "us"):
            if not 0 < values[name] < inf:
                raise ArgumentValueError(f"it has {name}={values[name]}: write a finite number above 0")
        if values["kernel"] not in KERNELS:
            raise ArgumentValueError(f"it has kernel={values['kernel']!r}: use {', '.join(KERNELS)}")
        for name, known in _VALUES.items():
            if values[name] not in known:
                raise ArgumentValueError(
                    f"it has {name}={_brief(values[name])}: write one of {', '.join(map(repr, known))}"
                )
        alignment = values["alignment"]
        if len(alignment) != 3 or not all(type(each) is int and each in _ALIGNMENTS for each in alignment):
            raise ArgumentValueError(
                f"it has alignment={_brief(alignment)}: write one of {', '.join(map(str, _ALIGNMENTS))} for each "
                f"of a, b and out"
            )
        fields = fields_of(KERNELS[values["kernel"]].config_type)
        if wrong := _difference(values["config"], fields):
            raise ArgumentValueError(
                f"it has a config with {wrong}: give it exactly the fields of {values['kernel']}, {', '.join(fields)}"
            )
        try:
            datetime.fromisoformat(values["date"])
        except ValueError:
            raise ArgumentValueError(
                f"it has date={values['date'][:80]!r}: write one in ISO 8601, such as 2026-11-22T14:00:00+00:00"
            ) from None
        key = Key(**{name: values[name] for name in Key._fields} | {"alignment": tuple(values["alignment"])})
        return cls(key, *(values[name] for name in ("m", "kernel", "config", "us", "date", "nvrtc")))

    def check_config(self) -> None:
        """Raise an ArgumentValueError if a field of the Config has a value of another type, or none of its own."""
        for name, field in fields_of(KERNELS[self.kernel].config_type).items():
            value = self.config[name]
            if type(value) is not field.type or (field.values and value not in field.values):
                raise ArgumentValueError(f"it has a config with {name}={_brief(value)}: write one {field}")

    def made_config(self) -> Any:
        """The Config."""
        return KERNELS[self.kernel].config_type(**self.config)

    @property
    def plain_problem(self) -> Problem:
        """A product of this Key without its epilogue, whose rows are aligned as its own."""
        n, k, batch, layout, dtype, out_dtype, alignment, shared, epilogue = self.key
        of_a, _, of_b = dtype.partition(" by ")
        batches = (batch,) if batch > 1 else ()
        extents = {"a": (self.m, k), "b": (k, n), "out": (self.m, n)}
        types, letters = (of_a, of_b or of_a, out_dtype), (*layout, "n")
        a, b, out = (
            _matrix(
                by_name(kind), *extents[name], letter, aligned, tuple(int(name not in shared.split()) for _ in batches)
            )
            for name, kind, letter, aligned in zip(extents, types, letters, alignment, strict=True)
        )
        words = epilogue.split(", ")
        return Problem(
            self.m, n, k, a, b, out, batches,
            batch_invariant="batch-invariant" in words, fast_accumulation="fast accumulation" in words,
        )  # fmt: skip


def _matrix(dtype: DType | None, rows: int, columns: int, letter: str, aligned: int, own: tuple[int, ...]) -> Matrix:
    """An operand stored as a letter of layouts says, whose `_alignment` is `aligned`.

    own: nothing without batches, else 1 if each has its own matrix, or 0.
    """
    assert dtype is not None
    inner = 1 if aligned else 2
    extent, unit = inner * (columns if letter == "n" else rows), max(aligned, dtype.nbytes) // dtype.nbytes
    steps = ceil_div(extent, unit)
    outer = unit * (steps + (aligned < LINE and steps % 2 == 0))
    strides = (outer, inner) if letter == "n" else (inner, outer)
    apart = (rows if letter == "n" else columns) * outer
    return Matrix(dtype, *strides, tuple(each * apart for each in own), min(16, aligned or 16))


_TYPES: dict[str, type] = {
    "m": int, "n": int, "k": int, "batch": int, "layout": str, "dtype": str, "out_dtype": str, "alignment": list,
    "shared": str, "epilogue": str, "kernel": str, "config": dict, "us": float, "date": str,
    "nvrtc": str,
}  # fmt: skip


_VALUES: dict[str, tuple[str, ...]] = {
    "layout": tuple(a + b for a in "nt" for b in "nt"),
    "dtype": tuple(" by ".join(dict.fromkeys((a.name, b.name))) for a, b in PRODUCTS),
    "out_dtype": tuple(dtype.name for dtype in SUPPORTED),
    "shared": ("", "a", "b", "a b"),
}
"""What members of text may say."""

_ALIGNMENTS = (0, *(1 << power for power in range(LINE.bit_length())))


def _difference(values: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What members are missing or beyond those that are wanted, in words; nothing if neither."""
    missing = [f"no {name}" for name in wanted if name not in values]
    return " and ".join(missing or [_brief(name) for name in values if name not in wanted])


def _brief(value: object) -> str:
    """A value as Python writes it, cut short."""
    return repr(value[:80]) if isinstance(value, str) else str(value)[:80]


def bucket(m: int) -> int:
    """The largest m of the bucket that m belongs to: each to 16, then 32, 64, and 128, 192, 256, 384, 512, ..."""
    if m <= 16:
        return m
    power = 1 << (m - 1).bit_length()
    return power * 3 // 4 if power >= 256 and m <= power * 3 // 4 else power


def _distance(known: int, m: int) -> tuple[bool, int, int]:
    """What of entries for so many rows the best one for m has least of."""
    further = round_up(known, 8) - round_up(m, 8)
    return further < 0, abs(further), known


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
        """Add an entry, unless one for the same product that is no older is there and is not to be replaced."""
        self.extents.add((entry.key.n, entry.key.k))
        of_key = self._entries.setdefault(entry.key, {})
        if replaces or entry.m not in of_key or of_key[entry.m].date < entry.date:
            of_key[entry.m] = entry

    def near(self, key: Key, m: int) -> list[Entry]:
        """The entry for m, and then those for others of its bucket, the nearest first, larger ones before smaller.

        All are rounded up to 8, so that numbers of rows that share a choice share an entry.
        """
        of_key = self._entries.get(key, {})
        known = [rows for rows in of_key if bucket(rows) == bucket(m)]
        return [of_key[rows] for rows in sorted(known, key=lambda rows: (rows != m, _distance(rows, m)))]

    def rows_of(self, key: Key) -> Iterable[int]:
        """The numbers of rows for which it has entries."""
        return self._entries.get(key, ())

    def kernels(self) -> tuple[str, ...]:
        """The kernels of its entries, in the order of KERNELS."""
        found = {entry.kernel for of_key in self._entries.values() for entry in of_key.values()}
        return tuple(name for name in KERNELS if name in found)

    def entries(self) -> list[Entry]:
        """All entries, in the order of their products."""
        return sorted(
            (entry for of_key in self._entries.values() for entry in of_key.values()),
            key=lambda entry: (entry.key, entry.m),
        )


@cache
def kernels_digest(names: tuple[str, ...] = tuple(KERNELS)) -> str:
    """What measurements of these kernels hold for; by default of all from which the planner chooses."""
    return sha256("".join(KERNELS[name].digest for name in names).encode()).hexdigest()


def encode(table: Table, gpu: str) -> str:
    """The text of a file, one entry a line."""
    head = json.dumps({"format": FORMAT, "gpu": gpu, "kernels": kernels_digest(table.kernels())})[:-1]
    lines = ",\n".join(json.dumps(entry.as_dict()) for entry in table.entries())
    return f'{head}, "entries": [\n{lines}\n]}}\n'


def decode(text: str, gpu: str | None = None, *, current: bool = False) -> tuple[str, Table]:
    """The GPU and the Table of a file's text.

    An ArgumentValueError says what is wrong with another text, or with one for another GPU than `gpu`, None being any;
    if `current`, also with one whose kernels have changed since they were measured.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentValueError(f"it is not JSON ({error}): tune again, or take an undamaged copy") from None
    if not isinstance(content, dict) or content.keys() != {"format", "gpu", "kernels", "entries"}:
        raise ArgumentValueError("it is not a table of tuned Configs: `tilewright tune --export` writes one")
    if content["format"] != FORMAT:
        raise ArgumentValueError(f"it has format {content['format']!r}, and this version reads {FORMAT}: tune again")
    if not isinstance(content["gpu"], str) or gpu not in (None, content["gpu"]):
        raise ArgumentValueError(
            f"it is for GPU {content['gpu']!r}, and this one is {gpu!r}: tune on this GPU, or name that one"
        )
    if not isinstance(content["entries"], list):
        raise ArgumentValueError("its entries are no list: take an undamaged copy")
    named = [entry.get("kernel") for entry in content["entries"] if isinstance(entry, dict)]
    kernels = tuple(name for name in KERNELS if name in named)
    if current and kernels and content["kernels"] != kernels_digest(kernels):
        raise ArgumentValueError("it was measured with other kernels than this version's: tune again")
    return content["gpu"], Table(_entries(content["entries"]))


def _entries(values: list[Any]) -> Iterator[Entry]:
    """The entries of a file; an ArgumentValueError says which one is wrong."""
    for number, each in enumerate(values, 1):
        try:
            yield Entry.from_dict(each)
        except ArgumentValueError as error:
            raise ArgumentValueError(f"entry {number} of {len(values)}: {error}") from None
