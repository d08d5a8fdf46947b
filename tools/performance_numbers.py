"""The comparisons with peers, results/*.json, as the tables and charts of docs/performance.md.

readme_numbers.py writes them. A record of `tilewright bench` is shown if most of its products have tilewright's own
choice, not if it is a sweep of Configs or a self-check; results/proof.json comes first.
"""

import itertools
import json
import sys
from functools import cache, partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import decoder_numbers

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tilewright.bench.charts import plot  # noqa: E402
from tilewright.bench.contenders import OURS, SERIAL, contenders_named, is_ours  # noqa: E402
from tilewright.bench.record import session_lines  # noqa: E402
from tilewright.bench.session import Settings  # noqa: E402
from tilewright.bench.standing import (  # noqa: E402
    BEST_PEER,
    CLEARLY_SLOWER,
    Standing,
    best_peer,
    by_weight,
    in_most,
    is_by_rows,
    ratio_to,
    standings,
    timed,
    title,
)
from tilewright.bench.suites import load  # noqa: E402
from tilewright.cli.bench.options import ProtocolOptions  # noqa: E402
from tilewright.measure.statistics import Interval  # noqa: E402
from tilewright.rounding import three_digits  # noqa: E402

PAGE = "docs/performance.md"
PROOF, LIMIT_SECONDS = "results/proof.json", 540
MOST_NAMED = 8
"""The most products of a record that are named as not measured yet."""
MOST_LOST = 25
"""The most products that are named where others are quicker."""
BY_ROWS = ("few-rows", "batches")
"""The suites whose products the README has by their rows."""
SETTLING_SECONDS = 1.0
"""Shorter settled slices than this still feel the contender ahead (docs/performance-log.md, 2026-11-28)."""
PROTOCOLS = ProtocolOptions(rounds=6, cycles=3, slice_seconds=1.0, idle_seconds=0.2)


def command() -> str:
    """The command whose repetition makes the proof."""
    durations = (
        f"--rounds {PROTOCOLS.rounds} --cycles {PROTOCOLS.cycles} --slice {PROTOCOLS.slice_seconds} "
        f"--idle {PROTOCOLS.idle_seconds}"
    )
    return f"tilewright bench proof --against best {durations} --resume {PROOF} --time-limit {LIMIT_SECONDS}"


def proof_seconds() -> tuple[float, float]:
    """About how long the whole proof takes with these settings, and how much of that is tuning."""
    suite = load("proof")
    contenders = tuple(contenders_named(suite.contenders))
    settings = Settings(contenders, PROTOCOLS.wanted(), "cublas", against="best")
    tuning = sum(contender.tuning_seconds for contender in contenders)
    return len(suite.shapes) * settings.seconds(), len(suite.shapes) * tuning


@cache
def records(folder: Path = ROOT / "results") -> dict[str, dict[str, Any]]:
    """The records that the page shows, by the stem of their file."""
    found = {}
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.name != Path(PROOF).name, path.name)):
        record = json.loads(path.read_text(encoding="utf-8"))
        products = record.get("products") if isinstance(record, dict) else None
        if products and any(OURS in in_most(products, protocol) for protocol in record.get("protocols", ())):
            found[path.stem] = record
    return found


def page() -> list[str]:
    """The generated part of the page."""
    whole, tuning = proof_seconds()
    lines = [
        f"By these settings the whole proof takes about {whole / 60:.0f} minutes of GPU time, of which tuning takes "
        f"about {tuning / 60:.0f} until its times are known.",
        "The command prints a better estimate as soon as it has measured a product.",
        "",
        "```bash",
        f"{command()}  # again and again, until nothing is left",
        f"tilewright bench {PROOF} --plot proof.png",
        "```",
    ]
    if Path(PROOF).stem not in records():
        lines += ["", "The proof has not been made yet: below is what was compared before."]
    lines += ["", *losses()]
    for stem, record in records().items():
        lines += ["", f"## {_heading(stem, record)}", "", *_about(stem, record), "", *_summary(record), ""]
        shown = "Shares of a streaming read, by weight" if is_by_rows(record) else "Ratios to the best peer, by product"
        lines += [f"![{shown}]({_chart(stem).removeprefix('docs/')})", ""]
        lines += [*_tables(record), "", f"To reproduce: `{record['command']}`"]
    return lines + decoder_numbers.sections()


def losses() -> list[str]:
    """The products that others multiply quicker: those with the least ratios, each by its newest record."""
    newest: dict[tuple[str, str, str], tuple[str, str, Interval, str]] = {}
    for stem, record in sorted(records().items(), key=lambda each: each[1]["date"]):
        for protocol, product in itertools.product(record["protocols"], record["products"]):
            ratio, peer = ratio_to(product, protocol, OURS, BEST_PEER), best_peer(product, protocol)
            key = record["gpu"], protocol, title(product)
            failed = {each["contender"] for each in product["contenders"] if each.get("status") == "failed"}
            if key in newest and newest[key][3] in failed:
                continue  # without the best peer, no newer record stands for an older one
            if ratio is not None and peer is not None and not product["interrupted"]:
                newest[key] = record["date"][:10], stem, ratio, peer
    lost = {key: each for key, each in newest.items() if each[2].high < CLEARLY_SLOWER}
    worst = sorted(lost.items(), key=lambda each: each[1][2].median)[:MOST_LOST]
    lines = [
        "## Where others are quicker",
        "",
        f"The records below have {len(newest):,} products, each counted once for a GPU and a protocol, by its newest "
        f"record. Of {len(lost)}, the whole interval of the ratio to the best peer is below {CLEARLY_SLOWER}.",
        f"These are the {len(worst)} with the least ratios:",
        "",
        "| product | GPU, protocol | times the best peer | peer | record |",
        "|---|---|---|---|---|",
    ]
    for (gpu, protocol, name), (date, stem, ratio, peer) in worst:
        lines.append(f"| {name} | {_short(gpu)}, {protocol} | {_ratio(ratio)} | {peer} | `{stem}`, {date} |")
    return lines


def _short(gpu: str) -> str:
    return gpu.removeprefix("NVIDIA ").split()[0]


def summary() -> list[str]:
    """The first record in a few sentences."""
    record = next(iter(records().values()))
    found = [each for each in standings(record) if each.to == BEST_PEER]
    if not found:
        return []
    peers = sorted({name for product in record["products"] for name in _peers(product)})
    lines = [
        f"Each of {len(found[0].ratios)} products is compared with the best of {', '.join(peers[:-1])} and {peers[-1]} "
        f"in the same run, each tuned for it ({record['gpu']}, {record['date'][:10]}).",
        "A cell has the geometric mean of the ratios to that peer, and the worst ratio.",
        "",
        f"| times the best peer | {' | '.join(record['protocols'])} |",
        "|---" * (1 + len(record["protocols"])) + "|",
    ]
    for name in dict.fromkeys(each.ours for each in found):
        cells = [f"{_ratio(each.mean)}, {each.worst[1].median:.3f} at worst" for each in found if each.ours == name]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    more = "[docs/performance.md](docs/performance.md) has every product, with charts."
    return [*lines, "", *_uncounted(record), more]


def rows_summary() -> list[str]:
    """The records of few rows in a table each: the means over weights at each number of rows."""
    lines: list[str] = []
    for stem, record in records().items():
        read = is_by_rows(record)
        if not read and record.get("suite") not in BY_ROWS:
            continue
        products = [each for each in record["products"] if not each["interrupted"]]
        rows = sorted({each["m"] for each in products})
        best = {best_peer(each, protocol) for each in products for protocol in record["protocols"]}
        peer = best.pop() if len(best) == 1 else "the best peer"
        layouts = " and ".join(sorted({each["layout"] for each in products}, reverse=True))
        counts = sorted({sum(each["m"] == m for each in products) for m in rows})
        lines += [
            f"Products of {rows[0]} to {rows[-1]} rows{' beside a streaming read of their weights' * read}:",
            f"a cell has {'the share of its speed and ' * read}the ratio to {peer} in the same run, {layouts}, "
            f"geometric means over {' to '.join(map(str, counts[:1] + counts[1:][-1:]))} weights ({record['gpu']}, "
            f"{record['date'][:10]}; `results/{stem}.json`).",
            "",
            f"| rows | {' | '.join(map(str, rows))} |",
            "|---" * (len(rows) + 1) + "|",
        ]
        for name, protocol in _ours(record):
            found = [each for each in products if name in timed(each, protocol)]
            means = [_row_mean([each for each in found if each["m"] == m], protocol, name) for m in rows]
            lines.append(f"| {name}, {protocol} | {' | '.join(means)} |")
        lines.append("")
    return lines


def _uncounted(record: dict[str, Any]) -> list[str]:
    """The products that were cut, with what they had until then."""
    lines = []
    for product in (each for each in record["products"] if each["interrupted"]):
        ratios = {protocol: ratio_to(product, protocol, OURS, BEST_PEER) for protocol in record["protocols"]}
        known = ", ".join(f"{protocol} {ratio.median:.3f}" for protocol, ratio in ratios.items() if ratio is not None)
        lines.append(f"Not counted, since its run was interrupted: {title(product)}, with {known or 'no ratio'}.")
    return lines


def charts() -> dict[str, partial[bool]]:
    """By file, the function that draws it into a path."""
    return {_chart(stem): partial(plot.draw, record) for stem, record in records().items()}


def _chart(stem: str) -> str:
    return f"docs/pictures/{stem}.svg"


def _heading(stem: str, record: dict[str, Any]) -> str:
    return f"The suite `{record['suite']}`" if record.get("suite") else f"The record `{stem}`"


def _about(stem: str, record: dict[str, Any]) -> list[str]:
    versions = {
        entry["contender"]: entry["version"]
        for product in record["products"]
        for entry in (*product["contenders"], *product.get("heat", ()))
        if entry.get("version")
    }
    lines = [
        f"{record['gpu']}, {record['data']} data, {record['date'][:10]}; the data is in `results/{stem}.json`.",
        f"Versions: {'; '.join(f'{name}: {version}' for name, version in sorted(versions.items()))}.",
    ]
    lines += [f"{line[0].upper()}{line[1:]}." for line in session_lines(record)]
    turn = record["protocols"].get("settled", {}).get("slice_seconds", SETTLING_SECONDS)
    if turn < SETTLING_SECONDS:
        lines.append(f"Settled ratios may be off by 6%: they are of slices of {turn} s, and boards settle more slowly.")
    if left := record.get("left", ()):
        named = ", ".join(left) if len(left) <= MOST_NAMED else f"{len(left)} of {len(record['shapes'])} products"
        lines.append(f"Not measured yet: {named}.")
    return lines


def _summary(record: dict[str, Any]) -> list[str]:
    found = [each for each in standings(record) if len(each.ratios) > 1]
    if not found:
        return ["Too few products are complete for a mean."]
    rows = [
        f"| {each.protocol} | {each.ours} / {each.to} | {len(each.ratios)} | {_ratio(each.mean)} | {_worst(each)} "
        f"| {each.slower} |"
        for each in found
    ]
    heads = f"| | times | products | geometric mean | worst | below {CLEARLY_SLOWER} |"
    return [heads, "|---|---|---|---|---|---|", *rows]


def _worst(standing: Standing) -> str:
    product, ratio = standing.worst
    return f"{_ratio(ratio)} {title(product)}"


def _tables(record: dict[str, Any]) -> list[str]:
    """The tables of the products: by rows where the weights were read as well, of pairs where launches were serial."""
    if is_by_rows(record):
        return _by_rows(record)
    return _chains(record) if _serial(record) else _products(record)


def _by_rows(record: dict[str, Any]) -> list[str]:
    """For each of ours, a row of each weight and a column for each number of rows."""
    lines = ["Each cell has us, the share of a streaming read of the weights, and the ratio to the best peer."]
    for name, protocol in _ours(record):
        measured = [each for each in record["products"] if name in timed(each, protocol)]
        rows = sorted({each["m"] for each in measured})
        lines += ["", f"{name}, {protocol}:", "", f"| weight | {' | '.join(f'm = {m}' for m in rows)} |"]
        lines.append("|---" * (len(rows) + 1) + "|")
        for weight, found in by_weight(measured).items():
            cells = [_row_cell(found[m], protocol, name) if m in found else "" for m in rows]
            lines.append(f"| {weight} | {' | '.join(cells)} |")
        means = [_row_mean([each for each in measured if each["m"] == m], protocol, name) for m in rows]
        lines.append(f"| geometric mean | {' | '.join(means)} |")
    return lines


def _row_cell(product: dict[str, Any], protocol: str, name: str) -> str:
    found, ratio = timed(product, protocol)[name], ratio_to(product, protocol, name, BEST_PEER)
    parts = [f"{found['time_us']:.1f}"]
    parts += [f"{found['read_share']:.2f}"] if "read_share" in found else []
    return ", ".join(parts + ([] if ratio is None else [f"**{ratio.median:.2f}**"]))


def _row_mean(products: list[dict[str, Any]], protocol: str, name: str) -> str:
    shares = [share for each in products if (share := timed(each, protocol)[name].get("read_share"))]
    ratios = [ratio.median for each in products if (ratio := ratio_to(each, protocol, name, BEST_PEER))]
    parts = [f"{geometric_mean(shares):.2f}"] if shares else []
    return ", ".join(parts + ([f"**{geometric_mean(ratios):.2f}**"] if ratios else []))


def _serial(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Those of ours that were also measured with launches that do not overlap, with each protocol."""
    every = _ours(record)
    return [(name, protocol) for name, protocol in every if (f"{name}{SERIAL}", protocol) in every]


def _chains(record: dict[str, Any]) -> list[str]:
    """A row of each product: ours with launches that overlap and without, and what that saves."""
    pairs = _serial(record)
    heads = " | ".join(f"{name}, {protocol} | one after the other | less" for name, protocol in pairs)
    lines = ["Each product is launched many times in a row.", "Times are in us a launch; the differences are of pairs."]
    lines += ["", f"| product | {heads} |", "|---" * (1 + 3 * len(pairs)) + "|"]
    saved: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    for product in record["products"]:
        cells = []
        for name, protocol in pairs:
            found = timed(product, protocol)
            both = [found[each]["samples_us"] for each in (name, f"{name}{SERIAL}") if each in found]
            less = [alone - beside for beside, alone in zip(*both, strict=True)] if len(both) == 2 else []
            cells += [f"{median(each):.2f}" for each in (*both, less)] if less else ["", "", ""]
            saved[name, protocol] += [median(less)] if less else []
        lines.append(f"| {title(product)}{_remark(product)} | {' | '.join(cells)} |")
    for (name, protocol), each in saved.items():
        lines += [
            "",
            f"{name}, {protocol}: {median(each):.2f} us less a launch in the median, {min(each):.2f} at least.",
        ]
    return lines


def _ours(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Those of ours that most products have, with each protocol."""
    every = record["products"]
    return [(name, each) for each in record["protocols"] for name in in_most(every, each) if is_ours(name)]


def _products(record: dict[str, Any]) -> list[str]:
    """A row of each product: ours, with the ratio to the best peer and both rates."""
    columns = _ours(record)
    rows = [
        f"| {title(product)}{_remark(product)} | " + " | ".join(_cell(product, *column) for column in columns) + " |"
        for product in record["products"]
    ]
    heads = " | ".join(f"{name}, {protocol}" for name, protocol in columns)
    about = "Each cell has the ratio to the best peer, its interval, and both rates in TFLOP/s, ours first."
    return [about, "", f"| product | {heads} |", "|---" * (len(columns) + 1) + "|", *rows]


def _remark(product: dict[str, Any]) -> str:
    remarks = [product.get("label", ""), "interrupted" if product["interrupted"] else ""]
    return "".join(f", {remark}" for remark in remarks if remark)


def _cell(product: dict[str, Any], name: str, protocol: str) -> str:
    ratio, peer = ratio_to(product, protocol, name, BEST_PEER), best_peer(product, protocol)
    if ratio is None or peer is None:
        return ""
    found = timed(product, protocol)
    rates = (three_digits(found[each]["tflops"]) for each in (name, peer))
    return f"{_ratio(ratio)} {' : '.join(rates)} {peer}"


def _peers(product: dict[str, Any]) -> list[str]:
    entries = (*product["contenders"], *product.get("heat", ()))
    return [entry["contender"] for entry in entries if entry["status"] == "right" and not is_ours(entry["contender"])]


def _ratio(ratio: Interval) -> str:
    return f"**{ratio.median:.3f}** {_interval(ratio)}"


def _interval(ratio: Interval) -> str:
    return f"[{ratio.low:.3f}, {ratio.high:.3f}]"
