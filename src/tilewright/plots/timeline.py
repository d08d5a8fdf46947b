"""The picture of a time line: what is loaded, multiplied and stored when, and who waits."""

from matplotlib.figure import Figure

from tilewright.model.timeline import Kind, Span, Timeline
from tilewright.plots.style import BLUE, GRAY, GREEN, INK, ORANGE, RED, SMALL, TEXT, figure, styled

COLORS: dict[Kind | str, str] = {"load": BLUE, "multiply": GREEN, "store": ORANGE, "wait": GRAY, "idle": RED}


@styled()
def of_cta(line: Timeline, title: str, cta: int = 0) -> Figure:
    """The spans of one CTA: loads by slot, then by warps, and at last the gaps of the tensor cores."""
    rows = _rows([span for span in line.joined() if span.cta == cta])
    names = [*rows, "tensor cores idle"]
    picture, (axes,) = figure(9.6, 1.0 + 0.26 * len(names))
    for row, spans in enumerate(rows.values()):
        for span in spans:
            axes.broken_barh([(span.begin, span.end - span.begin)], (row + 0.12, 0.76), color=COLORS[span.kind], lw=0)
    gaps = [(begin, end - begin) for begin, end in line.gaps(cta)]
    axes.broken_barh(gaps, (len(rows) + 0.12, 0.76), color=COLORS["idle"], lw=0)
    axes.set_yticks([row + 0.5 for row in range(len(names))], names, fontsize=SMALL)
    axes.set_ylim(len(names), 0)
    axes.set_xlim(0, line.end)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("clocks", fontsize=TEXT, color=INK)
    for kind, color in COLORS.items():
        axes.barh(0, 0, color=color, label=kind)
    picture.legend(loc="outside lower right", ncols=len(COLORS), fontsize=SMALL)
    share = line.busy(cta=cta) / line.end if line.end else 0.0
    axes.set_title(f"{title}\ntensor cores busy {share:.1%} of {line.end:,.0f} clocks", loc="left")
    return picture


def _rows(spans: list[Span]) -> dict[str, list[Span]]:
    """Slots first, then what warps do and wait for; of those that wait alike, one is enough."""
    found: dict[str, list[Span]] = {}
    names = sorted({span.row for span in spans}, key=_order)
    for name in names:
        own = sorted((span for span in spans if span.row == name), key=lambda span: span.begin)
        if own[0].kind == "wait" and int(name.split()[-1]) % 4:
            continue
        found[f"{name} waits" if own[0].kind == "wait" else name] = own
    return found


def _order(name: str) -> tuple[int, int, str]:
    words = name.replace(":", "").split()
    return (words[0] != "slot", int(words[1]), name)
