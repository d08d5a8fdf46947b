"""Rewrites the tables between the markers of README.md and docs/emulator.md from results/*.json.

python tools/readme_numbers.py [--check], which only says whether they agree
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- numbers:begin -->\n", "<!-- numbers:end -->"


def throughput() -> list[str]:
    """The best Config of each shape against cuBLAS."""
    record = json.loads((ROOT / "results" / "wgmma_vs_cublas.json").read_text())
    lines = [
        f"bf16, layout nt, random normal data, {record['gpu']}, {record['date'][:10]}. Ratio to cuBLAS in the same "
        "run: median and 95% interval of paired cycles; TFLOP/s of ours and of cuBLAS.",
        "",
        "| m, n, k | best Config | burst | settled (power limit) |",
        "|---|---|---|---|",
    ]
    for product in record["products"]:
        entries = {entry["contender"]: entry for entry in product["contenders"] if entry.get("settled")}
        cublas = entries.pop("cublas")
        best = max(entries.values(), key=lambda entry: entry["settled"]["ratio"]["median"])
        config = best["config"]
        cells = []
        for protocol in ("burst", "settled"):
            ratio, rates = best[protocol]["ratio"], [entry[protocol]["tflops"] for entry in (best, cublas)]
            cells.append(
                f"**{ratio['median']:.3f}** [{ratio['low']:.3f}, {ratio['high']:.3f}] {rates[0]:.0f} : {rates[1]:.0f}"
            )
        cluster = f", cluster {config['cluster_m']}x{config['cluster_n']}"
        text = f"{config['tile_m']}x{config['tile_n']}, {config['stages']} stages{cluster}, {config['epilogue']}"
        lines.append(f"| {product['m']}, {product['n']}, {product['k']} | {text} | {' | '.join(cells)} |")
    return [*lines, "", f"Again: `{record['command']}`"]


def host_time() -> list[str]:
    """What a call costs the host."""
    record = json.loads((ROOT / "results" / "host_time.json").read_text())
    lines = [
        "Host time of a call on torch tensors (64x64x64, so that the GPU keeps up), one process in a run "
        "of its own; hosts differ by a quarter, see docs/performance-log.md:",
        "",
    ]
    lines += ["| call | us |", "|---|---|"]
    lines += [f"| `{name}` | {found['median']:.1f} |" for name, found in record["microseconds"].items()]
    return [*lines, "", f"Again: `{record['command']}`"]


def verification() -> list[str]:
    """What the last GPU run proved."""
    record = json.loads((ROOT / "results" / "gpu_verification.json").read_text())
    counts = ", ".join(f"{count:,} for `{kernel}`" for kernel, count in record["cases"].items())
    return [f"Generated cases verified on {record['gpu']} ({record['date'][:10]}): {counts}. Again: `make test-gpu`"]


def proof() -> list[str]:
    """How the emulator compares with a GPU, and what it reports of planted faults."""
    record = json.loads((ROOT / "results" / "emulator_proof.json").read_text())
    lines = ["| compared | tried | equal |", "|---|---|---|"]
    lines += [f"| {kind} | {part['tried']:,} | {part['equal']:,} |" for kind, part in record["parts"].items()]
    score = json.loads((ROOT / "results" / "mutation_score.json").read_text())["total"]
    return [
        *lines,
        "",
        f"{record['gpu']}, {record['date'][:10]}; approximations and sums within a bound, all else bit for bit. "
        "counters: requests, sectors and wavefronts against Nsight Compute's.",
        "",
        f"Of {score['generated']} mutants of the kernels the emulator reports {score['reported']}, and "
        f"{score['equivalent']} are argued to break no rule.",
    ]


def main() -> int:
    """Rewrite or check; 1 where --check finds a difference."""
    changed = [
        _rewrite("README.md", (throughput, host_time, verification)),
        _rewrite("docs/emulator.md", (proof,)),
    ]
    return int("--check" in sys.argv and any(changed))


def _rewrite(name: str, parts: tuple[Callable[[], list[str]], ...]) -> bool:
    """Whether the tables of a document are not what the results say; they are rewritten unless --check asks only."""
    path = ROOT / name
    text = path.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    tables = "\n\n".join("\n".join(part()) for part in parts)
    expected = f"{before}{BEGIN}{tables}\n{END}{after}"
    if "--check" not in sys.argv:
        path.write_text(expected)
    return text != expected


if __name__ == "__main__":
    sys.exit(main())
