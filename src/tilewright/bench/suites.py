"""Suites: TOML files of shapes that are timed together; the package's own are in bench/suites.

summary = "What the shapes have in common"
source = "Where the extents come from"    # optional
dtype = "bf16"       # bf16 by default, or a list; "fp8_e4m3 row" has scales, as "fp8_e4m3 by fp8_e5m2 tensor -> fp16"
layout = "nt"        # nt by default; s: strided, every second element of every second row of a larger matrix
contenders = ["tilewright", "cublas"]    # who is timed; tilewright, cuBLAS and Triton by default

[[shapes]]           # one table or more, of shapes or random ones
label = "QKV"        # optional; a table may also have its own dtype and layout
m = [1, 16, 64]      # a number, or several: all combinations of m, n and k are timed
n = 12288
k = 4096

[[random]]
count = 8            # how many shapes are drawn
m = [1, 8192]        # extents between two numbers, whose logarithms are drawn uniformly
n = [64, 16384]
k = [64, 16384]
multiple = 8         # of n and k; 1 by default

Random shapes follow from the seed: m, n and k of each shape in turn are round(low * (high / low) ** x), where x is the
next number of Python's `random.Random(seed).random()`, whose sequence Python promises to keep. n and k are then rounded
up to a multiple.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import Any

from tilewright.bench.contenders import NAMES, is_known
from tilewright.bench.inputs import Shape
from tilewright.dtypes import PRODUCTS
from tilewright.errors import ArgumentValueError
from tilewright.measure.elements import Elements
from tilewright.measure.layouts import LAYOUTS
from tilewright.rounding import round_up

FOLDER = Path(__file__).parent / "suites"
MOST_SHAPES = 10_000
USUAL = ("tilewright", "cublas", "triton")
USUAL_OF_8_BITS = ("tilewright", "torch", "cublaslt")
"""Who is timed by default; the latter where elements are of 8 bits."""
_DEFAULTS = {"dtype": "bf16", "layout": "nt"}


@dataclass(frozen=True, slots=True)
class Suite:
    """Shapes to be timed one after the other by the same contenders.

    summary: what the shapes have in common. contenders: those that it names; none for the USUAL ones.
    source: where the extents come from, if from elsewhere.
    """

    name: str
    summary: str
    shapes: tuple[Shape, ...]
    contenders: tuple[str, ...] = ()
    source: str = ""


def names() -> list[str]:
    """The package's own suites."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str, seed: int = 0) -> Suite:
    """The suite of that name, or of the TOML file at that path. A ValueError says what is wrong with it.

    seed: of random shapes.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or too deep
        raise ArgumentValueError(f"suite {name} is not TOML: {error}") from None
    except OSError as error:
        if name.endswith(".toml"):
            raise ArgumentValueError(f"suite {name} cannot be read: {error.strerror}; name another file") from None
        if name.endswith(".json"):
            raise ArgumentValueError(f"{name} is no suite: `tilewright bench` alone shows records (.json)") from None
        raise ArgumentValueError(
            f"suite {name!r} does not exist: use {', '.join(names())}, or the path of your own suite (.toml), "
            "or of a record to be shown again (.json)"
        ) from None
    return parse(content, path.stem, seed)


def parse(content: dict[str, Any], name: str, seed: int = 0) -> Suite:
    """The suite that a TOML document describes. A ValueError names the wrong key and the rule that it breaks."""
    where = f"suite {name}"
    _refuse_others(content, {"summary", "source", "contenders", "shapes", "random", *_DEFAULTS}, where)
    if not content.get("shapes") and not content.get("random"):
        raise ArgumentValueError(f"{where} has no shapes: add a [[shapes]] table with m, n and k")
    common = {key: content.get(key, default) for key, default in _DEFAULTS.items()}
    shapes: list[Shape] = []
    numbers = Random(seed)
    for kind in ("shapes", "random"):
        tables = content.get(kind, [])
        if not isinstance(tables, list):
            raise ArgumentValueError(f"{where} has {kind}={tables!r}: write [[{kind}]], and m, n and k below it")
        for number, table in enumerate(tables, 1):
            place = f"{where}, table {number} of [[{kind}]]"
            shapes += _shapes(table, common, place) if kind == "shapes" else _drawn(table, common, place, numbers)
            if len(shapes) > MOST_SHAPES:
                raise ArgumentValueError(f"{where} has more than {MOST_SHAPES} shapes: make several suites of it")
    summary, source = (_text(content, key, where) for key in ("summary", "source"))
    return Suite(name, summary, tuple(shapes), _contenders(content, where), source)


def _shapes(table: Any, common: dict[str, Any], where: str) -> list[Shape]:
    settings = _settings(table, common, {"m", "n", "k"}, where)
    every = [_extents(table, name, where) for name in "mnk"]
    if prod(map(len, every)) > MOST_SHAPES:
        raise ArgumentValueError(f"{where} names {prod(map(len, every))} shapes: name at most {MOST_SHAPES}")
    return [Shape(m, n, k, **each) for m, n, k in product(*every) for each in settings]


def _drawn(table: Any, common: dict[str, Any], where: str, numbers: Random) -> Iterator[Shape]:
    settings = _settings(table, common, {"m", "n", "k", "count", "multiple"}, where)
    ranges = {name: _extents(table, name, where) for name in "mnk"}
    for name, found in ranges.items():
        if len(found) != 2 or found[0] > found[1]:
            raise ArgumentValueError(f"{where} has {name}={found}: write the least and the largest extent")
    count, multiple = (_number({"multiple": 1, **table}, name, where) for name in ("count", "multiple"))
    for _ in range(min(count, MOST_SHAPES + 1)):
        m, n, k = (round(low * (high / low) ** numbers.random()) for low, high in ranges.values())
        for each in settings:
            yield Shape(m, round_up(n, multiple), round_up(k, multiple), **each)


def _settings(table: Any, common: dict[str, Any], others: set[str], where: str) -> list[dict[str, str]]:
    """The dtype, the layout and the label of a table's shapes, for each dtype."""
    if not isinstance(table, dict):
        raise ArgumentValueError(f"{where} is not a table: write [[shapes]], and m, n and k below it")
    _refuse_others(table, {"label", *others, *_DEFAULTS}, where)
    settings = common | {key: table[key] for key in _DEFAULTS if key in table}
    texts = settings["dtype"] if isinstance(settings["dtype"], list) else [settings["dtype"]]
    every = [Elements.parse(str(text), f"{where} has dtype") for text in texts]
    for elements in every:
        if (elements.a, elements.b) not in PRODUCTS:
            raise ArgumentValueError(f"{where} has dtype={str(elements)!r}, which nothing multiplies: take another")
    found = dict.fromkeys(map(str, every))
    if settings["layout"] not in LAYOUTS:
        raise ArgumentValueError(f"{where} has layout={settings['layout']!r}: use {', '.join(LAYOUTS)}")
    label = _text(table, "label", where)
    return [{"dtype": text, "layout": settings["layout"], "label": label} for text in found]


def _contenders(content: dict[str, Any], where: str) -> tuple[str, ...]:
    if "contenders" not in content:
        return ()
    names = content["contenders"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and is_known(name) for name in names):
        raise ArgumentValueError(f"{where} has contenders={names!r}: write a list of some of {NAMES}")
    return tuple(dict.fromkeys(names))


def _extents(table: dict[str, Any], name: str, where: str) -> list[int]:
    if name not in table:
        raise ArgumentValueError(f"{where} has no {name}: add it, a number or a list of them")
    extents = table[name] if isinstance(table[name], list) else [table[name]]
    if not extents or any(type(extent) is not int or extent < 1 for extent in extents):
        raise ArgumentValueError(
            f"{where} has {name}={table[name]!r}: write a whole number from 1 on, or a list of them"
        )
    return extents


def _number(table: dict[str, Any], name: str, where: str) -> int:
    if len(found := _extents(table, name, where)) > 1:
        raise ArgumentValueError(f"{where} has {name}={found}: write one number")
    return found[0]


def _text(table: dict[str, Any], key: str, where: str) -> str:
    if not isinstance(value := table.get(key, ""), str):
        raise ArgumentValueError(f"{where} has {key}={value!r}: put it in quotes")
    return value


def _refuse_others(table: dict[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(table.keys() - known):
        raise ArgumentValueError(f"{where} has the unknown key {unknown[0]!r}: use {', '.join(sorted(known))}")
