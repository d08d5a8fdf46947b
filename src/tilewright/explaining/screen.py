"""One screen of text about a product, from the record of its Explanation."""

from collections.abc import Iterator, Mapping
from textwrap import shorten, wrap
from typing import Any

from tilewright.hardware import with_article
from tilewright.rounding import size_text, three_digits

WIDTH, LABEL = 100, 11
"""Columns of a line, and of the names before it."""

LEAST = 0.005
"""Microseconds: less is 0.00 on the screen."""

FOLLOWING = ("stages", "group_m", "epilogue", "overlap", "wait_depth", "prefetch", "threads")
"""Fields of Configs that the model does not see, or that follow from others."""


def text(record: Mapping[str, Any]) -> str:
    """The screen: at most 45 lines."""
    place = "" if record["present"] else ", which is not here"
    of_sum = "" if record["epilogue"] == "acc" else f", {shorten(record['epilogue'], 60, placeholder='...')},"
    lines = [f"{record['product']}{of_sum} on {with_article(record['gpu'])}{place}", ""]
    lines += _labelled("plan", [": ".join(filter(None, (record["kernel"], _config(record["config"]))))])
    lines += _labelled("because", record["decision"])
    lines += _labelled("time", _time(record))
    lines += _labelled("tiles", _tiles(record))
    lines += _labelled("bytes", _bytes(record), whole=True)
    lines += _labelled(
        "next best", [_rival(rival, record) for rival in record["rivals"]] or ["none that the model knows"]
    )
    lines += _labelled("would help", _remedies(record))
    return "\n".join(lines)


def _labelled(label: str, texts: list[str], *, whole: bool = False) -> Iterator[str]:
    """Texts beside a label, each wrapped unless it is to stay whole."""
    for text in texts:
        broken = [text] if whole else wrap(text, WIDTH - LABEL, break_on_hyphens=False, subsequent_indent="  ")
        for line in broken:
            yield f"{label:{LABEL}}{line}"
            label = ""


def us(value: float) -> str:
    """Microseconds with three digits or so."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.1f}" if value >= 99.95 else f"{value:.2f}"


def _rate(value: float) -> str:
    return three_digits(value) if value < 999.5 else f"{value:,.0f}"


def _time(record: Mapping[str, Any]) -> list[str]:
    light = f"{us(record['speed_of_light_us'])} us by {record['speed_of_light_bound']}"
    if "predicted_time_us" not in record:
        return [f"the model does not know {record['kernel']}; the speed of light is {light}"]
    seconds, burst = record["predicted_time_us"], record["burst_time_us"]
    share = record["speed_of_light_us"] / seconds
    said = [
        f"{us(seconds)} us at the power limit, {us(burst)} us right after idle; "
        f"{_rate(record['predicted_tflops'])} TFLOP/s, {share:.0%} of the speed of light ({light})",
        ", ".join(f"{name} {us(value)}" for name, value in record["parts_us"].items()) + " us",
    ]
    names = list(record["limits_us"])
    first, *others = names
    limit = f"{first}, alone {us(record['limits_us'][first])} us"
    if others:
        limit += f"; the next is {others[0]}, {us(record['limits_us'][others[0]])} us"
    around = {"launch": "launch, prologue and epilogue", "copies": "copies of operands"}.get(record["bound"])
    return [*said, f"bound by {around}; its loop is bound by {limit}" if around else f"bound by {limit}"]


def _tiles(record: Mapping[str, Any]) -> list[str]:
    tiles = record["tiles"]
    waves = f"{tiles['waves']:,} wave{'s' * (tiles['waves'] > 1)}"
    split_k = record["config"].get("split_k", 1)
    of_each = f", {split_k} CTAs each," if split_k > 1 else ""
    count = f"{tiles['ctas'] // split_k:,} of {tiles['tile_m']}x{tiles['tile_n']}{of_each}"
    return [
        f"{count} in {waves} of {tiles['slots']:,} CTAs: {1 - tiles['busy']:.1%} of the places are empty, and "
        f"{1 - tiles['edges']:.1%} of the tiles is outside"
    ]


def _bytes(record: Mapping[str, Any]) -> list[str]:
    lines = [f"{'level':6}{'read':>10}{'written':>10}{'FLOP per byte':>15}   by"]
    for level in record["levels"]:
        block = f"{level['reader']} that makes {level['block'][0]}x{level['block'][1]}"
        lines.append(f"{level['name']:6}{_sizes(level)}{level['intensity']:>15,.4g}   {block}")
    if "ahead" in record:
        lines.append(f"{'ahead':6}{_sizes(record['ahead'])}{'-':>15}   what each call makes in a workspace first")
    return lines


def _sizes(traffic: Mapping[str, Any]) -> str:
    """The bytes that are read and written, in the columns of the table."""
    return "".join(f"{size_text(traffic[name]):>10}" for name in ("read_bytes", "written_bytes"))


def _config(config: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())


def _rival(rival: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    name, behind, why = rival_of(rival, record)
    return f"{name}: {behind} us, {why}" if "; " in why else f"{name}: {why}"


def rival_of(rival: Mapping[str, Any], record: Mapping[str, Any]) -> tuple[str, str, str]:
    """A Config by what tells it from the chosen one, its us more, and why."""
    config, chosen = rival["config"], record["config"]
    same = rival["kernel"] == record["kernel"]
    told = [
        f"{name}={value}"
        for name, value in config.items()
        if name not in (*FOLLOWING, "tile_m", "tile_n") and same and chosen.get(name) != value
    ]
    tile = f"{config['tile_m']}x{config['tile_n']}"
    name = ", ".join([tile if same else f"{rival['kernel']} {tile}", *told])
    behind = rival["behind_us"]
    if abs(behind) < LEAST:
        return name, "+0", "as quick"
    if behind < 0:
        return name, f"-{us(-behind)}", f"ranked {us(-behind)} us quicker"
    return name, f"+{us(behind)}", f"{_grown(rival['grew_us'], behind)}; its loop is bound by {rival['limit']}"


def _grown(parts: Mapping[str, float], behind: float) -> str:
    """The two parts of a difference that grew most, the one that shrank most, and all others together."""
    ranked = sorted(parts.items(), key=lambda part: -part[1])
    told = [*(part for part in ranked[:2] if part[1] >= LEAST), *(part for part in ranked[-1:] if part[1] <= -LEAST)]
    told.append(("all else", behind - sum(value for _, value in told)))
    said = (f"{name} {'-' if value < 0 else '+'}{us(abs(value))}" for name, value in told if abs(value) >= LEAST)
    return ", ".join(said)


def _remedies(record: Mapping[str, Any]) -> list[str]:
    found = [
        f"{remedy['change']}: {us(remedy['time_us'])} us for the same work, {remedy['gain']:.0%} less"
        for remedy in record["remedies"]
    ]
    rows, m = record["free_rows"], record["m"]
    if rows > m:
        found.append(f"up to {rows:,} rows take about as long as {m:,}")
    if "predicted_time_us" in record and not found:
        return ["nothing that the model knows"]
    return found or [f"the model does not know {record['kernel']}"]
