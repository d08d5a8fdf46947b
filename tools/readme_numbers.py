"""Rewrite what stands between the markers of README.md and of pages in docs/ from results/*.json.

The tool also redraws the charts whose words or numbers differ from the records.

python tools/readme_numbers.py [--check]; --check changes nothing and only reports differences.
"""

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import choosing_numbers  # puts src/ on the path
import ladder_numbers
import performance_numbers
import precision_numbers

from tilewright.kernels.registry import KERNELS

ROOT = Path(__file__).parents[1]
CHART = "docs/ladder/pictures/measured.svg"
_WORDS = re.compile(r"<text[^>]*>([^<]*)</text>")
BEGIN, END = "<!-- numbers:begin -->\n", "<!-- numbers:end -->"


def host_time() -> list[str]:
    """The host time of a call."""
    record = json.loads((ROOT / "results" / "host_time.json").read_text())
    lines = [
        "Host time of one call on torch tensors, in a process of its own.",
        "The product is 64x64x64, so the GPU keeps up.",
        "Other hosts differ by up to a quarter; see docs/performance-log.md.",
        "",
    ]
    lines += ["| call | us |", "|---|---|"]
    lines += [f"| `{name}` | {found['median']:.1f} |" for name, found in record["microseconds"].items()]
    return [*lines, "", f"To reproduce: `{record['command']}`"]


def invariance() -> list[str]:
    """What `batch_invariant=True` costs, product by product."""
    record = json.loads((ROOT / "results" / "batch_invariant.json").read_text())
    lines = [
        "What [`batch_invariant=True`](docs/batch-invariance.md) costs, in bursts, bf16, layout nt:",
        "",
        "| m, n, k | us | with `batch_invariant=True` | cuBLAS |",
        "|---|---|---|---|",
    ]
    for product in record["products"]:
        entries = {entry["contender"]: entry["burst"]["time_us"] for entry in product["contenders"]}
        free, invariant, cublas = (entries[name] for name in ("tilewright", "tilewright:invariant", "cublas"))
        share = f"{invariant:.1f} ({round(100 * (invariant / free - 1)):+d}%)"
        lines.append(f"| {product['m']}, {product['n']}, {product['k']} | {free:.1f} | {share} | {cublas:.1f} |")
    return [*lines, "", f"{record['gpu']}, {record['date'][:10]}. To reproduce: `{record['command']}`"]


def verification() -> list[str]:
    """The number of generated products that the last GPU run verified, by kernel."""
    record = json.loads((ROOT / "results" / "gpu_verification.json").read_text())
    counts: dict[str, int] = record["cases"]
    production = [f"{counts[kernel]:,} of `{kernel}`" for kernel in KERNELS if kernel in counts]
    rungs = [count for kernel, count in counts.items() if kernel not in KERNELS]
    each = f"{min(rungs):,}" if min(rungs) == max(rungs) else f"{min(rungs):,} to {max(rungs):,}"
    return [
        f"Generated products verified on {record['gpu']}, {record['date'][:10]}: {', '.join(production)}, and "
        f"{each} of each of the {len(rungs)} other ladder kernels.",
        "To reproduce: `make test-gpu`",
    ]


def proof() -> list[str]:
    """The comparison of the emulator with a GPU, and its score on planted faults."""
    record = json.loads((ROOT / "results" / "emulator_proof.json").read_text())
    lines = ["| compared | tried | equal |", "|---|---|---|"]
    for kind, part in record["parts"].items():
        explained = part["outcomes"].get("explained", 0)
        equal = f"{part['equal']:,}" + (f", {explained} explained below" if explained else "")
        lines.append(f"| {kind} | {part['tried']:,} | {equal} |")
    score = json.loads((ROOT / "results" / "mutation_score.json").read_text())["total"]
    return [
        *lines,
        "",
        f"{record['gpu']}, {record['date'][:10]}.",
        "Approximations agree within a bound, and so do the sums of `mma`, `wgmma` and `wmma`, which are exact here.",
        "All else agrees bit for bit, also `mma sums`, `wgmma sums` and `wmma sums`, in the arithmetic of an H200.",
        "The row `counters` compares totals of whole kernels with Nsight Compute, as described below.",
        "",
        f"The emulator reports {score['reported']} of {score['generated']} mutants of the kernels.",
        f"The other {score['equivalent']} break no rule; an argument is recorded for each.",
    ]


def readme() -> list[str]:
    """The numbers of the README."""
    peers = [*performance_numbers.summary(), "", *performance_numbers.rows_summary()]
    return [*peers, *invariance(), "", *host_time(), "", *verification()]


def main() -> int:
    """Rewrite or check; returns 1 if --check finds a difference."""
    documents = {
        "README.md": (BEGIN, END, readme()),
        choosing_numbers.PAGE: (BEGIN, END, choosing_numbers.page()),
        performance_numbers.PAGE: (BEGIN, END, performance_numbers.page()),
        "docs/emulator.md": (BEGIN, END, proof()),
        precision_numbers.PAGE: (BEGIN, END, precision_numbers.page()),
        **ladder_numbers.documents(),
    }
    changed = [name for name, (begin, end, lines) in documents.items() if _rewrite(name, begin, end, lines)]
    charts: dict[str, Callable[[Path], object]] = {
        CHART: ladder_numbers.draw,
        precision_numbers.CHART: precision_numbers.draw,
        **performance_numbers.charts(),
    }
    changed += [name for name, draw in charts.items() if _redraw(name, draw)]
    if "--check" not in sys.argv:
        return 0
    for name in changed:
        print(f"{name} does not say what results/ say", file=sys.stderr)
    return int(bool(changed))


def _redraw(name: str, draw: Callable[[Path], object]) -> bool:
    """Whether the chart differs from the records in words or numbers; draws it anew unless --check is given."""
    path = ROOT / name
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / path.name
        draw(drawn)
        texts = [_WORDS.findall(each.read_text(encoding="utf-8")) if each.exists() else [] for each in (path, drawn)]
        if texts[0] != texts[1] and "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            shutil.copyfile(drawn, path)
    return texts[0] != texts[1]


def _rewrite(name: str, begin: str, end: str, lines: list[str]) -> bool:
    """Whether the text between two lines of a document differs from this; rewrites it unless --check is given."""
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    expected = "".join([before, begin, *(f"{line}\n" for line in lines), end, after])
    if "--check" not in sys.argv:
        path.write_text(expected, encoding="utf-8")
    return text != expected


if __name__ == "__main__":
    sys.exit(main())
