"""The record of a benchmark, which one session makes or several sessions add to, also at the same time.

A product is measured within one session, so that ratios are only formed between times of one session. The file is
replaced by a complete one after each product and each tuning, so an end at any time loses one product at most.
"""

import hashlib
import json
import os
import tempfile
from collections import UserDict
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any

from tilewright.bench import first_look
from tilewright.bench.claims import Claims
from tilewright.bench.inputs import Shape
from tilewright.bench.session import Settings, machine
from tilewright.errors import ArgumentValueError
from tilewright.measure.sensors import board_facts
from tilewright.planner.tuned_table import kernels_digest

MODELS = ("cost", "l2", "prediction", "raster", "traffic")
"""The models that the planner asks."""

SOURCES = (
    *("cuda/**/*.cuh", "kernels/**/*.py", "jit/source.py", "planner/**/*.py", "tuning/**/*.py"),
    *(f"model/{name}.py" for name in MODELS),
)
"""What decides which kernel runs, tuned or not, and how it is written."""

PEERS = ("nvmath-python", "triton", "quack-kernels")
"""The packages of peers whose versions a record has; torch's are among the machine's facts."""

_SAME_MACHINE = "continue it where it was begun, or name another record"
_SAME_OPTIONS = "give the options that it was begun with, or name another record"
_MUST_AGREE = {
    "gpu": ("the GPU", _SAME_MACHINE),
    "sources": ("the digest of kernels, planner and tuner", _SAME_MACHINE),
    "versions": ("version", _SAME_MACHINE),
    "suite": ("SUITE", _SAME_OPTIONS),
    "contenders": ("--contender", _SAME_OPTIONS),
    "baseline": ("--baseline", _SAME_OPTIONS),
    "against": ("--against", _SAME_OPTIONS),
    "configs": ("--configs", _SAME_OPTIONS),
    "finalists": ("--finalists", _SAME_OPTIONS),
    "data": ("--data", _SAME_OPTIONS),
    "seed": ("--seed", _SAME_OPTIONS),
    "protocols": ("protocol", _SAME_OPTIONS),
    "shapes": ("the list of products", _SAME_OPTIONS),
}
"""What all sessions of a record share, with its name in messages, and the remedy."""


class Record:
    """A record under way. `content` is its JSON, and `path` its file, if it has one.

    claims: of the processes that add to the record at the same time, such as one for each GPU of a machine; None if
    this one alone writes it. Each change begins with what the others have written.
    """

    def __init__(
        self,
        content: dict[str, Any],
        session: dict[str, Any],
        path: Path | None,
        estimate: float,
        claims: Claims | None = None,
    ):
        self.content, self.path, self._estimate, self._claims = content, path, estimate, claims
        self._session, self._session_number = session, -1
        self.shapes = [Shape(**shape) for shape in content["shapes"]]

    @classmethod
    def begin(
        cls,
        conditions: dict[str, Any],
        estimate: float,
        path: Path | None = None,
        claims: Claims | None = None,
        looked: dict[str, Any] | None = None,
    ) -> "Record":
        """A record without products; `estimate` is how many seconds a product takes.

        looked: an earlier record of the same peers, whose first looks and tuners' choices hold here too.
        """
        parts: dict[str, Any] = {"interrupted": False, "left": [], "sessions": [], "choices": {}}
        if looked is not None:
            parts["choices"] = first_look.choices(looked, conditions["kernels"])
            parts["first_look"] = {"date": looked["date"], "best": first_look.best_peers(looked)}
        parts |= {"tries": {}, "products": []}
        return cls({**conditions, **parts}, _session_facts(conditions), path, estimate, claims)

    @classmethod
    def resume(
        cls, known: dict[str, Any], conditions: dict[str, Any], estimate: float, path: Path, claims: Claims
    ) -> "Record":
        """A known record, for another session. A ValueError names what is not as in the sessions before."""
        for name, (subject, remedy) in _MUST_AGREE.items():
            if known[name] != conditions[name]:
                raise ArgumentValueError(f"{path} {_difference(subject, known[name], conditions[name])}: {remedy}")
        return cls({**known, "interrupted": False}, _session_facts(conditions), path, estimate, claims)

    @property
    def left(self) -> list[Shape]:
        """The products that are not measured to the end, those that were tried least often first."""
        done = {_shape_of(product) for product in self.content["products"] if _complete(product)}
        tries = self.content["tries"]
        return sorted((each for each in self.shapes if each not in done), key=lambda each: tries.get(_key(each), 0))

    @property
    def product_seconds(self) -> float:
        """How long a product takes: the mean of those that are measured, or what the settings let expect."""
        return fmean(self._seconds()) if self._seconds() else self._estimate

    @property
    def longest_seconds(self) -> float:
        """How long the slowest product took, or what the settings let expect."""
        return max(self._seconds(), default=self._estimate)

    def _seconds(self) -> list[float]:
        return [product["seconds"] for product in self.content["products"] if _complete(product)]

    def choices(self, shape: Shape) -> "Choices":
        """What tuners chose for a product, by contender; each new choice is written at once."""

        def keep(contender: str, choice: Any) -> None:
            with self._changing():
                self.content["choices"].setdefault(_key(shape), {})[contender] = choice

        return Choices(self.content["choices"].get(_key(shape), {}), keep)

    def best_peers(self, shape: Shape) -> dict[str, str]:
        """The best peers of a product by protocol, if an earlier record's first look is known."""
        found: dict[str, str] = self.content.get("first_look", {"best": {}})["best"].get(_key(shape), {})
        return found

    def attempt(self, but: Container[Shape] = ()) -> Shape | None:
        """The next product to be measured here, which is none of `but` and none that another process measures.

        The record notes that it is begun, so that one that ends the process does not come first again. The first of
        them adds the session to the record. None: there is nothing left to do.
        """
        with self._changing():
            for shape in self.left:
                if shape not in but and (self._claims is None or self._claims.take(_key(shape))):
                    break
            else:
                return None
            if self._session_number < 0:
                self._session_number = len(self.content["sessions"])
                self.content["sessions"].append(self._session)
            self.content["tries"][_key(shape)] = self.content["tries"].get(_key(shape), 0) + 1
            return shape

    def add(self, shape: Shape, product: dict[str, Any], seconds: float) -> None:
        """Add a product, which took that long; it replaces an incomplete one of the same shape."""
        product |= {"session": self._session_number, "seconds": seconds}
        order = {each: number for number, each in enumerate(self.shapes)}
        with self._changing():
            others = [each for each in self.content["products"] if _shape_of(each) != shape]
            ordered = sorted([*others, product], key=lambda each: order.get(_shape_of(each), len(order)))
            self.content["products"], self.content["interrupted"] = ordered, product["interrupted"]
        if self._claims is not None:
            self._claims.give_back(_key(shape))

    def interrupt(self) -> None:
        """Note that the session was interrupted."""
        with self._changing():
            self.content["interrupted"] = True

    def leave(self) -> None:
        """Leave to others what is not measured yet."""
        if self._claims is not None:
            self._claims.give_all_back()

    def write(self) -> None:
        """Replace the file, if there is one, by a complete one. An OSError leaves the old one."""
        with self._changing():
            pass

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change `content` in a `with` block, from what other processes have written to what they will read."""
        with nullcontext() if self._claims is None else self._claims.exclusive:
            if self._claims is not None and self.path is not None and self.path.is_file():
                self.content = json.loads(self.path.read_text(encoding="utf-8"))
            yield
            self.content["left"] = [_key(each) for each in self.left]
            if self.path is not None:
                _replace(self.path.resolve(), json.dumps(self.content, indent=1) + "\n")  # resolve keeps a link


def _replace(target: Path, text: str) -> None:
    """Give a file another text, whole or not at all."""
    if target.exists() and not target.is_file():  # such as /dev/null, which must stay what it is
        target.write_text(text, encoding="utf-8")
        return
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o644)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


class Choices(UserDict[str, Any]):
    """What tuners chose for a product, by contender. `keep` is called with each new choice."""

    def __init__(self, known: dict[str, Any], keep: Callable[[str, Any], None]):
        super().__init__()
        self.data, self._keep = dict(known), keep

    def __setitem__(self, contender: str, choice: Any) -> None:
        if self.data.get(contender) != choice:
            self.data[contender] = choice
            self._keep(contender, choice)


def conditions(shapes: Sequence[Shape], settings: Settings, suite: str | None, tilewright: str) -> dict[str, Any]:
    """The facts of this machine and the options of this run, for JSON; `tilewright` is the package's version."""
    here = machine()
    peers = {name: found for name in PEERS if (found := _installed(name)) is not None}
    return {
        **here,
        "sources": source_digest(),
        "kernels": kernels_digest(),
        "versions": {"tilewright": tilewright, **here["versions"], **peers},
        "suite": suite,
        **json.loads(json.dumps(settings.as_dict())),
        "shapes": [asdict(shape) for shape in shapes],
    }


def _session_facts(conditions: dict[str, Any]) -> dict[str, Any]:
    """Date and command of a session, and the driver, power limit and highest clock of its GPU."""
    return {"date": conditions["date"], "command": conditions["command"], **board_facts()}


def session_lines(record: dict[str, Any]) -> list[str]:
    """A line about each session: its date, its board, and what the board reported in the settled measurements."""
    sessions = record.get("sessions") or [{"date": record["date"]}]
    lines = []
    for number, session in enumerate(sessions):
        facts = [
            text.format(session[name])
            for name, text in (
                ("driver", "driver {}"),
                ("power_limit_watts", "power limit {:.0f} W"),
                ("max_sm_clock_mhz", "SM clock up to {:.0f} MHz"),
            )
            if name in session
        ]
        own = [product for product in record["products"] if product.get("session", 0) == number]
        settled = [found for each in own for entry in each["contenders"] if (found := entry.get("settled"))]
        ranges = [
            f"{min(values):.0f} to {max(values):.0f} {unit}"
            for name, unit in (("watts", "W"), ("sm_clock_mhz", "MHz"))
            if (values := [found[name] for found in settled if name in found])
        ]
        facts += [f"settled at {' and '.join(ranges)}"] if ranges else []
        when = session["date"].replace("T", " ")[:16]
        lines.append(f"session of {when}, {len(own)} products{''.join(f', {fact}' for fact in facts)}")
    return lines


def source_digest() -> str:
    """SHA-256 in hexadecimal over the sources of kernels, planner and tuner."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in package.glob(pattern)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _difference(subject: str, theirs: Any, ours: Any) -> str:
    """A part of a sentence: what is not the same."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        name = next(name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name))
        subject, theirs, ours = f"{subject} {name}", theirs.get(name), ours.get(name)
        if isinstance(theirs, dict) and isinstance(ours, dict):
            return _difference(subject, theirs, ours)
    if isinstance(theirs, list) and not all(isinstance(each, str) for each in theirs):
        return f"has another value of {subject}"
    words = [", ".join(each) if isinstance(each, list) else str(each)[:60] for each in (theirs, ours)]
    return f"has {words[0]} as {subject}, and this run has {words[1]}"


def _complete(product: dict[str, Any]) -> bool:
    return not product["interrupted"] and not product.get("skipped")


def _shape_of(product: dict[str, Any]) -> Shape:
    return Shape(**{field.name: product[field.name] for field in fields(Shape)})


def _key(shape: Shape) -> str:
    return f"{shape} {shape.dtype} {shape.layout}"
