"""How errors of sums grow with their length on tensor cores: the record, and what docs/precision.md shows of it.

python tools/precision_numbers.py [--gpu] writes results/precision.json: errors of dot products of random numbers by the
emulator's two ways to add, and with --gpu also as the GPU adds them. readme_numbers.py writes the page.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from tilewright.emulator.semantics.matrices.accumulation import ADDERS, factors_of, hardware_sum  # noqa: E402
from tilewright.emulator.semantics.matrices.fragments import ELEMENT_TYPES, product_of  # noqa: E402
from tilewright.model.precision.formats import FORMATS  # noqa: E402
from tilewright.plots.numbers import Growth, sums_by_arithmetic  # noqa: E402
from tilewright.plots.style import save  # noqa: E402

PAGE = "docs/precision.md"
CHART = "docs/pictures/precision.svg"
RECORD = ROOT / "results" / "precision.json"
COMMAND = "python tools/precision_numbers.py"

KINDS = (
    ("wgmma", "tf32", "f32"), ("wgmma", "f16", "f32"), ("wgmma", "f16", "f16"), ("wgmma", "bf16", "f32"),
    ("wgmma", "e4m3", "f32"), ("wgmma", "e4m3", "f16"), ("wgmma", "e5m2", "f32"), ("mma", "e4m3", "f32"),
)  # fmt: skip
"""Instruction, type of A and B, and type of sums."""
LENGTHS = (64, 256, 1024, 4096, 16384)
SHOWN = (64, 1024, 16384)
"""The lengths in the page's table."""
MEASURED_LENGTHS = LENGTHS[:-1]
ROWS, COLUMNS = 64, 32
"""Of A and of B: of their dot products each is one sample."""
DATA = {"normal": "normal numbers", "positive": "numbers from 0 to 1"}
FORMAT_OF = {"f16": "fp16", "tf32": "tf32", "bf16": "bf16", "e4m3": "e4m3", "e5m2": "e5m2"}

DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip

Matrix = NDArray[np.float64]


def operands(data: str, kind: str) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """A (rows, k) and B (k, columns), and both rounded to a type."""
    random = np.random.default_rng(0)
    draw = random.standard_normal if data == "normal" else random.random
    a, b = draw((ROWS, LENGTHS[-1])), draw((LENGTHS[-1], COLUMNS))
    form = FORMATS[FORMAT_OF[kind]]
    return a, b, form.rounded(a), form.rounded(b)


def depth_of(kind: str) -> int:
    """The k of one instruction."""
    return 8 * ELEMENT_TYPES[kind].per_register


def added(way: str, instruction: str, kind: str, accumulator: str, a: Matrix, b: Matrix) -> Iterator[Matrix]:
    """The sums at each of LENGTHS, added "exact" or "hardware", instruction by instruction."""
    adder = ADDERS[instruction, ELEMENT_TYPES[kind].family]
    total = np.zeros((ROWS, COLUMNS), np.float32)
    depth = depth_of(kind)
    for k in range(0, LENGTHS[-1], depth):
        part_a, part_b = a[:, k : k + depth].astype(np.float32), b[k : k + depth].astype(np.float32)
        if way == "hardware":
            total = hardware_sum(adder, factors_of(part_a, part_b, kind, kind), total, accumulator)
        else:
            total = np.asarray(total + product_of(part_a, part_b), np.float32)
            if accumulator == "f16":
                total = total.astype(np.float16).astype(np.float32)
        if k + depth in LENGTHS:
            yield total.astype(np.float64)


def exact(a: Matrix, b: Matrix, lengths: Sequence[int] = LENGTHS) -> list[Matrix]:
    """The exact sums at each length, up to float64."""
    return [np.asarray(a[:, :k] @ b[:k]) for k in lengths]


def shares(found: Sequence[Matrix], right: Sequence[Matrix]) -> list[float]:
    """Root mean square errors, as shares of the right results'."""
    return [
        float(f"{np.sqrt(np.mean((one - other) ** 2) / np.mean(other**2)):.3g}")
        for one, other in zip(found, right, strict=True)
    ]


def name_of(instruction: str, kind: str, accumulator: str) -> str:
    """A row of the table."""
    return f"{instruction}, {kind} in {accumulator}"


def emulated() -> dict[str, dict[str, dict[str, list[float]]]]:
    """By data and row: the shares by rounding the inputs, and by the two ways to add, at each length."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for data in DATA:
        found[data] = {}
        for instruction, kind, accumulator in KINDS:
            a, b, rounded_a, rounded_b = operands(data, kind)
            right = exact(rounded_a, rounded_b)
            found[data][name_of(instruction, kind, accumulator)] = {
                "inputs": shares(right, exact(a, b)),
                **{
                    way: shares([*added(way, instruction, kind, accumulator, rounded_a, rounded_b)], right)
                    for way in ("exact", "hardware")
                },
            }
    return found


# On a GPU -------------------------------------------------------------------------------------------------------------


def packed(matrix: NDArray[Any]) -> NDArray[np.uint8]:
    """Lines of 32 bytes as wgmma reads them without a swizzle: 8 lines of 16 bytes, both halves, the next 8 lines."""
    lines = matrix.view(np.uint8).reshape(-1, 8, 2, 16)
    return np.ascontiguousarray(lines.swapaxes(1, 2)).reshape(-1)


def of_lanes(sums: NDArray[np.uint8], accumulator: str) -> Matrix:
    """The matrix (64, columns) in the accumulators of 128 threads (PTX ISA, "Register Fragments" of wgmma)."""
    dtype = np.float16 if accumulator == "f16" else np.float32
    # warp, row of 8, lane of 4, column of 8, half of 16 rows, element
    axes = sums.view(dtype).reshape(4, 8, 4, COLUMNS // 8, 2, 2)
    return axes.transpose(0, 4, 1, 3, 2, 5).reshape(ROWS, COLUMNS).astype(np.float64)


def measured(gpu: Any, kind: str, accumulator: str, a: Matrix, b: Matrix) -> Iterator[Matrix]:
    """The sums at each of MEASURED_LENGTHS, by one wgmma after the other. gpu: a GpuProcess."""
    from support.forms.warpgroups import SHARED_BYTES, WarpgroupProduct

    form: Any = WarpgroupProduct(COLUMNS, accumulator, kind, kind, span=0, choice="adverse")  # as hardware adds
    dtype = DTYPES[kind]
    memory, parts = np.zeros(SHARED_BYTES, np.uint8), np.zeros(16 * 128, np.uint8)
    sums = np.zeros(ROWS * COLUMNS * (2 if accumulator == "f16" else 4), np.uint8)
    depth = depth_of(kind)
    for k in range(0, MEASURED_LENGTHS[-1], depth):
        for start, lines in ((0, a[:, k : k + depth]), (SHARED_BYTES // 4, b[k : k + depth].T)):
            tile = packed(np.ascontiguousarray(lines).astype(dtype))
            memory[start : start + tile.size] = tile
        gpu.submit(form.launch((memory, sums, parts)))
        sums = gpu.result()[1]
        if k + depth in MEASURED_LENGTHS:
            yield of_lanes(sums, accumulator)


def measurements(gpu: Any) -> dict[str, dict[str, list[float]]]:
    """By data and row of wgmma: the shares at each of MEASURED_LENGTHS."""
    found: dict[str, dict[str, list[float]]] = {}
    for data in DATA:
        found[data] = {}
        for instruction, kind, accumulator in KINDS:
            if instruction != "wgmma":
                continue
            _, _, a, b = operands(data, kind)
            sums = [*measured(gpu, kind, accumulator, a, b)]
            found[data][name_of(instruction, kind, accumulator)] = shares(sums, exact(a, b, MEASURED_LENGTHS))
    return found


# The page -------------------------------------------------------------------------------------------------------------


def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORD.read_text())
    return found


def _cell(value: float | None) -> str:
    return "" if value is None else "0" if value == 0 else f"{value:.2g}" if value >= 1e-3 else f"{value:.1e}"


def page() -> list[str]:
    """The tables of docs/precision.md."""
    record = _record()
    lines = [
        "| type | least number | least normal one | largest | epsilon | above the largest |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("fp64", "fp32", "tf32", "bf16", "fp16", "e5m2", "e4m3"):
        form = FORMATS[name]
        sizes = (f"{size:.3g}" for size in (form.least_subnormal, form.least_normal, form.most, form.epsilon))
        lines.append(f"| {name} | {' | '.join(sizes)} | {'NaN' if form.specials == 'NaN' else 'infinity'} |")
    for data, title in DATA.items():
        gpu = record.get("measured")
        heads = [f"k = {k:,}: {way}" for k in SHOWN for way in ("exact", "hardware")]
        heads += [f"k = {MEASURED_LENGTHS[-1]:,}: {gpu['gpu']}"] if gpu else []
        lines += ["", f"Dot products of {title}:", "", f"| sums | by the inputs | {' | '.join(heads)} |"]
        lines.append("|---" * (2 + len(heads)) + "|")
        for name, row in record["emulated"][data].items():
            places = [LENGTHS.index(k) for k in SHOWN]
            cells = [row["inputs"][places[1]], *(row[way][at] for at in places for way in ("exact", "hardware"))]
            cells += [gpu["errors"][data].get(name, [None])[-1]] if gpu else []
            lines.append(f"| {name} | {' | '.join(map(_cell, cells))} |")
    by = f", and {record['measured']['gpu']}, {record['measured']['date'][:10]}" if record.get("measured") else ""
    return [*lines, "", f"The emulator's two ways to add{by}. To reproduce: `{record['command']}`"]


def draw(path: Path) -> None:
    """Draw the chart of docs/precision.md."""
    record = _record()
    growths = [Growth(DATA[data], LENGTHS, rows) for data, rows in record["emulated"].items()]
    save(sums_by_arithmetic(growths), path)


def main() -> None:
    """Write the record; measurements of an earlier one stay if there is no --gpu."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gpu", action="store_true", help="also measure on GPU 0")
    options = parser.parse_args()
    record: dict[str, Any] = {"command": COMMAND, "lengths": LENGTHS, "emulated": emulated()}
    if options.gpu:
        from support.gpu_process import GpuProcess
        from tilewright.backends.gpu import backend

        gpu = GpuProcess()
        about = {"gpu": backend(0).hardware.name, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        record["measured"] = {**about, "lengths": MEASURED_LENGTHS, "errors": measurements(gpu)}
        gpu.stop()
    elif RECORD.exists() and (earlier := _record().get("measured")):
        record["measured"] = earlier
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
