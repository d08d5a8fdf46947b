"""What climbing the ladder found: one record a rung, as a table, a bar chart or JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.cli.output import console, paragraph
from tilewright.cli.product import Product

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.dtypes import DType
    from tilewright.kernels.ladder import Rung
    from tilewright.kernels.ladder.rung import Published
    from tilewright.model.traffic import Traffic


@dataclass(slots=True)
class Climbed:
    """One rung: verified and measured or counted, or skipped for a reason.

    config: what it runs with; None where it is skipped. ignored: options of the command that the rung does not have.
    verified: also False where it failed to run. time_us, tflops, speed_of_light_share, cublas_ratio and gain are of
    GPUs; gain is the speed against the rung before it (`tilewright.kernels.ladder.gains`). traffic, explanation and
    counters are of the emulator. `measured` has every protocol's samples, intervals and sensors.
    """

    rung: "Rung"
    m: int
    n: int
    k: int
    dtype: "DType"
    config: Any = None
    ignored: list[str] = field(default_factory=list)
    verified: bool | None = None
    relative_error: float | None = None
    skipped: str = ""
    time_us: float | None = None
    tflops: float | None = None
    speed_of_light_share: float | None = None
    cublas_ratio: float | None = None
    gain: float | None = None
    measured: dict[str, Any] = field(default_factory=dict)
    traffic: "Traffic | None" = None
    explanation: str = ""
    counters: dict[str, Any] = field(default_factory=dict)

    @property
    def product(self) -> Product:
        """What is multiplied."""
        return Product(self.m, self.n, self.k, self.dtype, self.dtype, self.rung.layout)

    @property
    def published(self) -> "Published | None":
        """The figure that was published for this shape; None where there is none."""
        return next((each for each in self.rung.published if each.shape == (self.m, self.n, self.k)), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; figures that this backend does not have are left out."""
        rung, traffic = self.rung, self.traffic
        record: dict[str, Any] = {
            "name": rung.name,
            "title": rung.title,
            "road": rung.road,
            "idea": rung.idea,
            "published": [asdict(figure) for figure in rung.published],
            "side_step": rung.side_step,
            "layout": rung.layout,
            "data": rung.data,
            "dtype": self.dtype.name,
            "verified": self.verified,
        }
        names = (
            "m", "n", "k", "ignored", "relative_error", "skipped", "time_us", "tflops",
            "speed_of_light_share", "cublas_ratio", "gain", "measured", "explanation", "counters",
        )  # fmt: skip
        values = {name: getattr(self, name) for name in names}
        values["config"] = asdict(self.config) if self.config else None
        record |= {name: value for name, value in values.items() if value not in (None, "", {}, [])}
        if traffic is not None:
            derived = ("sectors_per_load", "conflicts_per_request", "l2_bytes", "smem_bytes", "flops_per_l2_byte")
            record |= {name: getattr(traffic, name) for name in (*derived, "rereads")}
        return record


def show(climbed: Sequence[Climbed], measured: bool) -> None:
    """The table for people: what was measured, or what was counted; then what was skipped, and whether all is right."""
    ran = [each for each in climbed if each.tflops is not None or each.traffic is not None]
    if ran:
        console().print(_measured_table(ran) if measured else _counted_table(ran), soft_wrap=False)
    console().print()
    for reason, names in _left_out(climbed):
        paragraph(f"Left out: {names}: {reason}", 0)
    for written in dict.fromkeys(written for each in ran for written in each.ignored):
        names = ", ".join(each.rung.name for each in ran if written in each.ignored)
        paragraph(f"Without {written}, which they do not have: {names}", 0)
    if sparse := [each.rung.name for each in ran if each.rung.data == "2:4"]:
        paragraph(f"Of an A that is 2:4 sparse, two of four neighbours along k being zero: {', '.join(sparse)}", 0)
    verdicts = {each.rung.name: each.verified for each in climbed if each.verified is not None}
    wrong = [name for name, verified in verdicts.items() if not verified]
    if wrong:
        console().print(f"[red]WRONG or failed: {', '.join(wrong)}[/red]")
    elif verdicts:
        products = "The product is" if len(verdicts) == 1 else f"All {len(verdicts)} products are"
        console().print(f"{products} right, by float64.")
    if ran and not measured:
        console().print(_LEGEND, style="dim", soft_wrap=False)


def why_none_ran(climbed: Sequence[Climbed]) -> str:
    """Why none of these rungs ran."""
    return "no rung ran:" + "".join(f"\n  {names}: {reason}" for reason, names in _left_out(climbed))


def _left_out(climbed: Sequence[Climbed]) -> list[tuple[str, str]]:
    """Each reason with the rungs that are skipped for it."""
    reasons = dict.fromkeys(each.skipped for each in climbed if each.skipped)
    return [(reason, ", ".join(each.rung.name for each in climbed if each.skipped == reason)) for reason in reasons]


_LEGEND = (
    "Sectors: of 32 bytes, 4 where the lanes of a warp read neighbouring floats. Conflicts: wavefronts that they "
    "add to a request to SMEM. L2 reads: how often each byte of A, B and out would cross between the SMs and L2 if L1 "
    "caught nothing."
)


def _table(*columns: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        words = name in ("rung", "what it means")
        table.add_column(name, justify="left" if words else "right", no_wrap=name == "rung")
    return table


def _counted_table(climbed: Sequence[Climbed]) -> "Table":
    table = _table("rung", "sectors\na load", "conflicts\na request", "L2\nreads", "what it means")
    for each, road in _by_road(climbed):
        if road:
            table.add_row(f"[dim]{road}[/dim]")
        if (traffic := each.traffic) is not None:
            table.add_row(
                each.rung.name,
                f"{traffic.sectors_per_load:.1f}" if traffic.loads else "",
                f"{traffic.conflicts_per_request:.2f}" if traffic.shared_requests else "",
                f"{traffic.rereads:.1f}x",
                each.explanation,
            )
    return table


def _measured_table(climbed: Sequence[Climbed]) -> "Table":
    table = _table("rung", "TFLOP/s", "speed of\nlight", "of\ncuBLAS", "gain", "published", "on")
    for each, road in _by_road(climbed):
        if road:
            table.add_row(f"[dim]{road}[/dim]")
        if each.tflops is not None:
            figure = each.published
            table.add_row(
                each.rung.name,
                f"{each.tflops:.3g}",
                "" if each.speed_of_light_share is None else f"{each.speed_of_light_share:.1%}",
                "" if each.cublas_ratio is None else f"{each.cublas_ratio:.3f}",
                "" if each.gain is None else f"{each.gain:.2f}x",
                figure.range if figure else "",
                figure.gpu if figure else "",
            )
    return table


def _by_road(climbed: Sequence[Climbed]) -> list[tuple[Climbed, str]]:
    """Each rung with its road's name where the road begins."""
    roads = [""] + [each.rung.road for each in climbed]
    return [
        (each, each.rung.road if each.rung.road != before else "") for each, before in zip(climbed, roads, strict=False)
    ]


def plot(climbed: Sequence[Climbed], path: Path, title: str) -> bool:
    """A bar chart: TFLOP/s beside the published figure where rungs were measured, else traffic with L2.

    Whether a rung ran, without which there is nothing to draw.
    """
    from matplotlib.figure import Figure

    shown = [each for each in climbed if each.tflops is not None or each.traffic is not None]
    if not shown:
        return False
    measured = shown[0].tflops is not None
    figure = Figure(figsize=(9, 1.2 + 0.32 * len(shown)), layout="constrained")
    axes = figure.subplots()
    places = range(len(shown))
    if measured:
        axes.barh(places, [each.tflops or 0 for each in shown], color=[_COLOURS[each.rung.road] for each in shown])
        marked = {place: each.published.tflops for place, each in enumerate(shown) if each.published}
        if marked:
            axes.plot([*marked.values()], [*marked], "k|", markersize=12, label="published (other GPUs)")
            axes.legend(loc="lower right", frameon=False)
        for place, each in zip(places, shown, strict=True):
            axes.annotate(f" {each.tflops:.3g}", (each.tflops or 0, place), va="center", fontsize=8)
        axes.set_xlabel("TFLOP/s")
    else:
        values = [each.traffic.rereads for each in shown if each.traffic is not None]
        axes.barh(places, values, color=[_COLOURS[each.rung.road] for each in shown])
        axes.set_xscale("log")
        for place, value in zip(places, values, strict=True):
            axes.annotate(f" {value:.1f}", (value, place), va="center", fontsize=8)
        axes.set_xlabel("times that A, B and out cross between the SMs and L2")
    axes.set_yticks(places, [each.rung.name for each in shown])
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left")
    figure.savefig(path, dpi=150)
    return True


_COLOURS = {"CUDA cores": "#7a8b99", "warp tensor cores": "#3b7ea1", "Hopper": "#76b900"}
