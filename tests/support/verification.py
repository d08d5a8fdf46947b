"""The record of the last GPU run, and whether the kernels are still those that it verified."""

import hashlib
import io
import json
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from tilewright.jit.source import cuda_code
from tilewright.kernels.registry import KERNELS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tilewright"
RECORD = ROOT / "results" / "gpu_verification.json"

KERNEL_SOURCES = ("cuda/**/*.cuh", "kernels/**/*.py", "jit/source.py")

CASES_PER_KERNEL = 2000
CASES_PER_RUNG = 200

verified: Counter[str] = Counter()
"""Generated cases that came out right by kernel, in this process or in those that shared its tests."""
verified_dtypes: defaultdict[str, set[str]] = defaultdict(set)
"""The element types of a in these cases, by kernel."""


def kernel_digest(package: Path = PACKAGE) -> str:
    """SHA-256 in hexadecimal over all code that becomes a kernel: headers, Configs, how units are written.

    Where clang-format breaks a line is no change of a kernel.
    """
    digest = hashlib.sha256()
    for path in sorted(path for pattern in KERNEL_SOURCES for path in package.glob(pattern)):
        content = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            lines = [line.rstrip() for line in python_code(content).splitlines() if line.strip()]
        else:
            lines = ["".join(cuda_code(content).split())]
        text = "\n".join(lines).encode()
        digest.update(f"{path.relative_to(package).as_posix()}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()


def python_code(text: str) -> str:
    """Python without its comments and docstrings."""
    lines = text.splitlines()
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    code = [token for token in tokens if token.type not in (tokenize.NL, tokenize.COMMENT)]
    starts = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    dropped = [token for token in tokens if token.type == tokenize.COMMENT]
    for number, token in enumerate(code):
        begins = number == 0 or code[number - 1].type in starts
        if token.type == tokenize.STRING and begins and code[number + 1].type == tokenize.NEWLINE:
            dropped.append(token)
    for token in sorted(dropped, key=lambda token: token.start, reverse=True):
        (first, start), (last, end) = token.start, token.end
        lines[first - 1 : last] = [lines[first - 1][:start] + lines[last - 1][end:]]
    return "\n".join(lines)


def outcome() -> dict[str, dict[str, object]]:
    """What this process verified, for `merge` in the one that gave it its tests."""
    return {"cases": dict(verified), "dtypes": {name: sorted(found) for name, found in verified_dtypes.items()}}


def merge(cases: dict[str, int], dtypes: dict[str, list[str]]) -> None:
    """Add what another process verified."""
    verified.update(cases)
    for name, found in dtypes.items():
        verified_dtypes[name].update(found)


def cases_of(kernel: str) -> int:
    """The number of generated cases of a kernel in a full run."""
    return CASES_PER_KERNEL if kernel in KERNELS else CASES_PER_RUNG


def incomplete(kernels: Collection[str]) -> str | None:
    """The reason why this run has verified too little for a record; None if every kernel had all its cases."""
    counts = [f"{verified[name]} of {cases_of(name)} cases of {name}" for name in kernels]
    complete = all(verified[name] == cases_of(name) for name in kernels)
    return None if complete else f"Nothing is recorded, since a part has run: {', '.join(counts)}."


def record(gpu: str, driver: str, nvrtc: str, command: str, passed: int) -> dict[str, object]:
    """The record of a passed GPU run: generated cases and their dtypes by kernel, and `passed`, pytest's tests."""
    return {
        "gpu": gpu,
        "driver": driver,
        "nvrtc": nvrtc,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "tests_passed": passed,
        "cases": dict(sorted(verified.items())),
        "dtypes": {name: sorted(found) for name, found in sorted(verified_dtypes.items())},
        "kernel_digest": kernel_digest(),
    }


def notice(path: Path = RECORD, package: Path = PACKAGE) -> str | None:
    """The notice about the last GPU run; None if it verified the kernels as they are."""
    again = "run `make test-gpu` on a machine with a GPU"
    if not path.exists():
        return f"No GPU run is on record: {again}."
    last = json.loads(path.read_text())
    if last["kernel_digest"] == kernel_digest(package):
        return None
    return f"The kernels have CHANGED since they were verified on a GPU ({last['gpu']}, {last['date']}): {again}."
