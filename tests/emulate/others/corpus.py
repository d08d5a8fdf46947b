"""The corpus: kernels that other compilers turn into PTX, each with a launch, a NumPy reference and its faulty twins.

A kernel is one file in the folder of its compiler; the functions of the folder's `cases_*.py` launch it.
README.md says how to add one.
"""

import hashlib
import importlib
import inspect
import io
import json
import lzma
import os
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
ARCHIVES = Path(os.environ.get("TILEWRIGHT_OTHERS", FOLDER / "ptx"))
"""The folder of the archives; `make test-all` sets the variable to a folder that it has just filled."""


@dataclass(frozen=True)
class Launch:
    """What `tilewright.check` is told, and what it should find.

    arguments: the kernel's, as `tilewright.check` takes them.
    expected: by the index of an argument, the contents of that array after the launch.
    tolerance: the largest error, relative to the largest expected magnitude; 0 compares bit for bit.
    """

    arguments: Sequence[Any]
    expected: Mapping[int, np.ndarray]
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    cluster: int | tuple[int, ...] = 1
    shared_bytes: int = 0
    tolerance: float = 0.0


@dataclass(frozen=True)
class Twin:
    """A kernel with a fault that people make.

    define: the name that the compile step defines; the source has the fault under it.
    kind: the kind of report that is expected. Its locations name the line of the source with the comment
    `reported: DEFINE`, or follow it; several lines may have it, and then one of them is enough.
    launch: another launch than the kernel's, for faults that show only in some shapes.
    """

    define: str
    kind: str
    launch: Callable[[np.random.Generator], Launch] | None = None


@dataclass(frozen=True)
class Case:
    """A kernel of the corpus.

    name: of the function that launches it. compiler: the name of its folder.
    source: the file; also: further files that it needs, besides those that it includes with quotation marks.
    launch: makes arguments from a generator of random numbers.
    entry: the kernel's name or a part of it; None if the module has only one.
    options: of the compiler; what they mean is the compiler's affair.
    """

    name: str
    compiler: str
    source: Path
    launch: Callable[[np.random.Generator], Launch]
    entry: str | None = None
    options: tuple[str, ...] = ()
    twins: tuple[Twin, ...] = ()
    also: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return f"{self.compiler}-{self.name}"

    def variants(self) -> list[str | None]:
        """What is compiled: the kernel (None) and the defines of its twins."""
        return [None, *(twin.define for twin in self.twins)]

    def member(self, define: str | None) -> str:
        """The name of the PTX in the archive."""
        return f"{self.name}.ptx" if define is None else f"{self.name}.{define}.ptx"

    def digest(self, define: str | None) -> str:
        """A hash of everything in this repository that the PTX depends on."""
        hashed = hashlib.sha256(json.dumps([self.entry, self.options, define]).encode())
        for path in sorted({*included(self.source), *self.also}):
            hashed.update(path.name.encode() + b"\0" + path.read_bytes())
        return hashed.hexdigest()[:16]

    def reported_lines(self, define: str) -> set[str]:
        """Lines of the source that a report of this twin may name, as FILE:LINE.

        A comment that has a line for itself marks the next one.
        """
        marked = re.compile(rf"^(.*)(//|#) reported:.*\b{define}\b")
        return {
            f"{path.name}:{number if match[1].strip() else number + 1}"
            for path in included(self.source)
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if (match := marked.match(line))
        }


CASES: list[Case] = []


def kernel(
    source: str,
    *options: str,
    entry: str | None = None,
    twins: Sequence[Twin] = (),
    also: Sequence[str] = (),
) -> Callable[[Callable[[np.random.Generator], Launch]], Callable[[np.random.Generator], Launch]]:
    """A decorator that makes a function the launch of a kernel of the corpus; the file is in the function's folder."""

    def add(launch: Callable[[np.random.Generator], Launch]) -> Callable[[np.random.Generator], Launch]:
        folder = Path(inspect.getfile(launch)).parent
        further = tuple(folder / name for name in also)
        name = launch.__name__
        CASES.append(Case(name, folder.name, folder / source, launch, entry, options, tuple(twins), further))
        return launch

    return add


@cache
def all_cases() -> tuple[Case, ...]:
    """Every kernel of the corpus, by compiler and name."""
    for path in sorted(FOLDER.glob("*/cases_*.py")):
        importlib.import_module(f"emulate.others.{path.parent.name}.{path.stem}")
    return tuple(sorted(CASES, key=str))


def included(source: Path) -> set[Path]:
    """The file and those of this corpus that it includes."""
    found, left = set(), [source]
    while left:
        path = left.pop()
        found.add(path)
        names = re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE)
        left += {path.parent / name for name in names} - found
    return found


@dataclass(frozen=True)
class Archive:
    """The PTX of one compiler.

    version: of the compiler. digests: by member, the hash of what it was made from. texts: by member, the PTX.
    """

    version: str
    digests: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the file; equal contents give equal bytes."""
        manifest = json.dumps({"version": self.version, "digests": self.digests}, indent=1, sort_keys=True)
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, text in [("manifest.json", manifest), *sorted(self.texts.items())]:
                content = text.encode()
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))


@cache
def archive(compiler: str) -> Archive:
    """The archive of a compiler; empty if there is none."""
    path = ARCHIVES / f"{compiler}.tar.xz"
    if not path.exists():
        return Archive("")
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(path.read_bytes()))) as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            texts[member.name] = content.read().decode()
    manifest = json.loads(texts.pop("manifest.json"))
    return Archive(manifest["version"], manifest["digests"], texts)
