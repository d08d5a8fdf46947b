"""Suites: TOML files of shapes that are timed together; the package's own are in bench/suites.

summary = "What the shapes have in common"
dtype = "bf16"       # bf16 by default
layout = "nt"        # nt by default

[[shapes]]           # one table or more
label = "QKV"        # optional; a table may also have its own dtype and layout
m = [1, 16, 64]      # a number, or several: all combinations of m, n and k are timed
n = 12288
k = 4096
"""

import tomllib
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from tilewright import dtypes
from tilewright.bench.inputs import Shape
from tilewright.errors import ArgumentValueError

FOLDER = Path(__file__).parent / "suites"
LAYOUTS = ("nt", "nn", "tn", "tt")
MOST_SHAPES = 10_000
_DEFAULTS = {"dtype": "bf16", "layout": "nt"}


@dataclass(frozen=True, slots=True)
class Suite:
    """Shapes to be timed one after the other. `summary` says what they have in common."""

    name: str
    summary: str
    shapes: tuple[Shape, ...]


def names() -> list[str]:
    """The package's own suites."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Suite:
    """The suite of that name, or of the TOML file at that path. A ValueError says what is wrong with it."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or too deep
        raise ArgumentValueError(f"suite {name} is not TOML: {error}") from None
    except OSError as error:
        if name.endswith(".toml"):
            raise ArgumentValueError(f"suite {name} cannot be read: {error.strerror}; name another file") from None
        raise ArgumentValueError(
            f"suite {name!r} does not exist: use {', '.join(names())}, or the path of your own suite (.toml), "
            "or of a record to be shown again (.json)"
        ) from None
    return parse(content, path.stem)


def parse(content: dict[str, Any], name: str) -> Suite:
    """The suite that a TOML document describes. A ValueError names the wrong key and the rule that it breaks."""
    where = f"suite {name}"
    _refuse_others(content, {"summary", "shapes", *_DEFAULTS}, where)
    tables = content.get("shapes")
    if not isinstance(tables, list) or not tables:
        raise ArgumentValueError(f"{where} has no shapes: add a [[shapes]] table with m, n and k")
    common = {key: content.get(key, default) for key, default in _DEFAULTS.items()}
    shapes: list[Shape] = []
    for number, table in enumerate(tables, 1):
        shapes += _shapes(table, common, f"{where}, table {number} of [[shapes]]")
        if len(shapes) > MOST_SHAPES:
            raise ArgumentValueError(f"{where} has more than {MOST_SHAPES} shapes: make several suites of it")
    return Suite(name, _text(content, "summary", where), tuple(shapes))


def _shapes(table: Any, common: dict[str, Any], where: str) -> list[Shape]:
    if not isinstance(table, dict):
        raise ArgumentValueError(f"{where} is not a table: write [[shapes]], and m, n and k below it")
    _refuse_others(table, {"m", "n", "k", "label", *_DEFAULTS}, where)
    settings = common | {key: table[key] for key in _DEFAULTS if key in table}
    kind = dtypes.by_name(settings["dtype"]) if isinstance(settings["dtype"], str) else None
    if kind is None:
        raise ArgumentValueError(f"{where} has dtype={settings['dtype']!r}: use {dtypes.NAMES}")
    if settings["layout"] not in LAYOUTS:
        raise ArgumentValueError(f"{where} has layout={settings['layout']!r}: use {', '.join(LAYOUTS)}")
    label = _text(table, "label", where)
    settings["dtype"] = kind.name
    every = [_extents(table, name, where) for name in "mnk"]
    if prod(map(len, every)) > MOST_SHAPES:
        raise ArgumentValueError(f"{where} names {prod(map(len, every))} shapes: name at most {MOST_SHAPES}")
    return [Shape(m, n, k, label=label, **settings) for m, n, k in product(*every)]


def _extents(table: dict[str, Any], name: str, where: str) -> list[int]:
    if name not in table:
        raise ArgumentValueError(f"{where} has no {name}: add it, a number or a list of them")
    extents = table[name] if isinstance(table[name], list) else [table[name]]
    if not extents or any(type(extent) is not int or extent < 1 for extent in extents):
        raise ArgumentValueError(
            f"{where} has {name}={table[name]!r}: write a whole number from 1 on, or a list of them"
        )
    return extents


def _text(table: dict[str, Any], key: str, where: str) -> str:
    if not isinstance(value := table.get(key, ""), str):
        raise ArgumentValueError(f"{where} has {key}={value!r}: put it in quotes")
    return value


def _refuse_others(table: dict[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(table.keys() - known):
        raise ArgumentValueError(f"{where} has the unknown key {unknown[0]!r}: use {', '.join(sorted(known))}")
