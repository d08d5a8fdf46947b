"""The layers of a decoder with our products beside plain torch, results/decoder*.json, for docs/performance.md.

performance_numbers.py adds them to its page. `examples/decoder.py --json` prints such a record.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "results"
WAYS = ("torch", "tilewright")


def sections(folder: Path = FOLDER) -> list[str]:
    """A section of each record; none without records."""
    lines: list[str] = []
    for path in sorted(folder.glob("decoder*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        lines += [
            "",
            f"## {_heading(record['sizes'], record['kernel'])}",
            "",
            *_about(record, path),
            "",
            *_table(record),
        ]
        lines += ["", f"To reproduce: `{record['command']}`"]
    return lines


def _heading(sizes: dict[str, int], kernel: str) -> str:
    heads = f"{sizes['heads']} heads, {sizes['kv_heads']} of keys and values"
    by = "" if kernel == "auto" else f", by `{kernel}`"
    return (
        f"A decoder layer{by}: hidden size {sizes['hidden']}, {heads}, {sizes['intermediate']} columns of gate and up"
    )


def _about(record: dict[str, Any], path: Path) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return [
        f"{record['gpu']}, {record['dtype']}, random weights, bursts, {record['date'][:10]}; the data is in "
        f"`results/{path.name}`.",
        f"Versions: {versions}.",
        f"Each sequence has a past of {record['sizes']['context']} tokens and gets one more.",
        "Both ways are CUDA graphs, and weights come from memory.",
        "Cells have us a layer in torch, us with tilewright, and the ratio.",
    ]


def _table(record: dict[str, Any]) -> list[str]:
    """A row of each number of sequences: the products alone, a whole layer, and the layer's time for a token."""
    cases = [case for case in record["cases"] if "us" in case]
    names = list(cases[0]["us"]) if cases else []
    lines = [f"| rows | {' | '.join(names)} | layer, a token |", "|---" * (len(names) + 2) + "|"]
    for case in cases:
        cells = [_cell(case["us"][name], 1) for name in names]
        lines.append(f"| {case['rows']} | {' | '.join(cells)} | {_cell(case['us']['layer'], case['rows'])} |")
    return lines


def _cell(found: dict[str, Any], tokens: int) -> str:
    theirs, ours = (found[way]["median"] / tokens for way in WAYS)
    ratio = found["ratio"]
    return f"{theirs:.2f}, {ours:.2f}, **{ratio['median']:.3f}** [{ratio['low']:.3f}, {ratio['high']:.3f}]"
