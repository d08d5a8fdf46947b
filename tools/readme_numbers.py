"""Rewrites the tables between the markers of README.md, docs/emulator.md and docs/ladder/*.md from results/*.json.

It draws the ladder's chart as well, where its words and numbers are no longer those of the record.

python tools/readme_numbers.py [--check], which only says whether they agree
"""

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import ladder_numbers

ROOT = Path(__file__).parents[1]
CHART = "docs/ladder/pictures/measured.svg"
_WORDS = re.compile(r"<text[^>]*>([^<]*)</text>")
BEGIN, END = "<!-- numbers:begin -->\n", "<!-- numbers:end -->"


def throughput() -> list[str]:
    """The best Config of each shape against cuBLAS."""
    record = json.loads((ROOT / "results" / "wgmma_vs_cublas.json").read_text())
    confidences: list[float] = []
    lines = [
        "| m, n, k | best Config of `--configs all` | burst | settled (power limit) |",
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
            confidences.append(ratio["confidence"])
            cells.append(
                f"**{ratio['median']:.3f}** [{ratio['low']:.3f}, {ratio['high']:.3f}] {rates[0]:.0f} : {rates[1]:.0f}"
            )
        cluster = f", cluster {config['cluster_m']}x{config['cluster_n']}"
        text = f"{config['tile_m']}x{config['tile_n']}, {config['stages']} stages{cluster}, {config['epilogue']}"
        lines.append(f"| {product['m']}, {product['n']}, {product['k']} | {text} | {' | '.join(cells)} |")
    about = (
        f"bf16, layout nt, random normal data, {record['gpu']}, {record['date'][:10]}. Ratio to cuBLAS in the same "
        f"run: median and interval of paired cycles, of {min(confidences):.2%} confidence or more; TFLOP/s of ours and "
        "of cuBLAS."
    )
    return [about, "", *lines, "", f"Again: `{record['command']}`"]


def peers() -> list[str]:
    """The planner's choice beside other libraries, of the products that were measured to the end."""
    record = json.loads((ROOT / "results" / "peers.json").read_text())
    products = [product for product in record["products"] if not product["interrupted"]]
    names = {entry["contender"]: entry.get("version", "the planner's choice") for entry in products[0]["contenders"]}
    lines = ["| times cuBLAS, burst / settled | " + " | ".join(name for name in names if name != "cublas") + " |"]
    lines.append("|---" * len(names) + "|")
    for product in products:
        cells = [
            " / ".join(f"{entry[protocol]['ratio']['median']:.3f}" for protocol in record["protocols"])
            for name in names
            for entry in product["contenders"]
            if name == entry["contender"] != "cublas"
        ]
        lines.append(f"| {product['m']}, {product['n']}, {product['k']} | {' | '.join(cells)} |")
    versions = ", ".join(f"{name}: {version}" for name, version in names.items())
    cut = ""
    for product in (product for product in record["products"] if product["interrupted"]):
        bursts = {entry["contender"]: entry["burst"]["ratio"]["median"] for entry in product["contenders"]}
        shape = f"{product['m']}, {product['n']}, {product['k']}"
        cut += f" {shape} was ended before its settled cycles were complete; its burst: "
        cut += ", ".join(f"{name} {ratio:.3f}" for name, ratio in bursts.items() if name != "cublas") + "."
    about = (
        "bf16, layout nt, random normal data. All that `tilewright bench` knows, in one run, each library tuned as it "
        "tunes itself (cuBLASLt: the best of the algorithms that it proposes; Triton: torch.compile with max-autotune; "
        "QuACK: its own search), and no Config of ours searched for. "
        f"{versions}; {record['gpu']}, {record['date'][:10]}:"
    )
    return [about, "", *lines, "", f"Again, with intervals, watts and clocks: `{record['command']}`.{cut}"]


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
    for kind, part in record["parts"].items():
        explained = part["outcomes"].get("explained", 0)
        equal = f"{part['equal']:,}" + (f", {explained} explained below" if explained else "")
        lines.append(f"| {kind} | {part['tried']:,} | {equal} |")
    score = json.loads((ROOT / "results" / "mutation_score.json").read_text())["total"]
    return [
        *lines,
        "",
        f"{record['gpu']}, {record['date'][:10]}; approximations and sums within a bound, all else bit for bit. "
        "counters: kernels whose totals are Nsight Compute's, as said below.",
        "",
        f"Of {score['generated']} mutants of the kernels the emulator reports {score['reported']}, and "
        f"{score['equivalent']} are argued to break no rule.",
    ]


def main() -> int:
    """Rewrite or check; 1 where --check finds a difference."""
    documents = {
        "README.md": (BEGIN, END, [*throughput(), "", *peers(), "", *host_time(), "", *verification()]),
        "docs/emulator.md": (BEGIN, END, proof()),
        **ladder_numbers.documents(),
    }
    changed = [name for name, (begin, end, lines) in documents.items() if _rewrite(name, begin, end, lines)]
    if _redraw(CHART):
        changed.append(CHART)
    if "--check" not in sys.argv:
        return 0
    for name in changed:
        print(f"{name} does not say what results/ say", file=sys.stderr)
    return int(bool(changed))


def _redraw(name: str) -> bool:
    """Whether the chart's words and numbers are not those of the records; it is drawn anew unless --check asks only."""
    path = ROOT / name
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / path.name
        ladder_numbers.draw(drawn)
        texts = [_WORDS.findall(each.read_text(encoding="utf-8")) if each.exists() else [] for each in (path, drawn)]
        if texts[0] != texts[1] and "--check" not in sys.argv:
            shutil.copyfile(drawn, path)
    return texts[0] != texts[1]


def _rewrite(name: str, begin: str, end: str, lines: list[str]) -> bool:
    """Whether what stands between two lines of a document is not this; it is rewritten unless --check asks only."""
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
