"""The page of a report: an Explanation, its pictures and what was run, in one file that needs no network."""

from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilewright.errors import UnavailableError
from tilewright.explaining.explanation import Explanation
from tilewright.explaining.report import sections
from tilewright.explaining.report.pictures import Shown, pictures, swizzles
from tilewright.explaining.screen import rival_of, us
from tilewright.hardware import with_article

CONTENTS = {
    "plan": "Plan and time", "roofline": "Roofline", "waves": "Waves", "tile": "Tile", "swizzle": "Swizzle",
    "fragments": "Fragments", "timeline": "Time line", "raster": "Order of tiles", "counters": "Counters",
    "measured": "Measured",
}  # fmt: skip


def require_packages() -> None:
    """Raise an UnavailableError that names the remedy if what draws or fills the page is missing."""
    missing = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        raise UnavailableError(
            f"a report needs {' and '.join(missing)}, not installed here: pip install {' '.join(missing)}"
        )


def page(explanation: Explanation, records: Sequence[Path], version: str) -> str:
    """The page as text; records: files of `tilewright ladder --json` and `tilewright bench --output`.
    version: tilewright's own.

    Raises an UnavailableError without matplotlib or jinja2, and an ArgumentValueError for a file that is no record.
    """
    require_packages()
    from jinja2 import Environment
    from markupsafe import Markup

    shown, found = Shown.of(explanation), explanation.as_dict()
    folder = files("tilewright.explaining.report")
    text = {
        name: folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "style.css", "controls.js")
    }
    modes = swizzles()
    drawn: dict[str, Any] = dict(pictures(explanation, shown))
    contents = {anchor: name for anchor, name in CONTENTS.items() if anchor != "raster" or "raster" in drawn}
    place = (
        "" if explanation.present else f" The {explanation.gpu} is not here: all of this is arithmetic and emulation."
    )
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text["page.html"])
    rendered: str = template.render(
        title=f"{explanation.problem} on {with_article(explanation.gpu)}",
        subtitle=f"{explanation.reason}.{place}",
        contents=list(contents.items()),
        style=Markup(text["style.css"]),
        script=Markup(text["controls.js"]),
        kernel=explanation.kernel,
        decision=explanation.decision,
        config=[(name, str(value)) for name, value in found["config"].items()],
        parts=[(name, us(value)) for name, value in found.get("parts_us", {}).items()],
        limits=[(name, us(value)) for name, value in found.get("limits_us", {}).items()],
        rivals=[rival_of(rival, found) for rival in found["rivals"]],
        remedies=[(each["change"], us(each["time_us"]), f"{each['gain']:.0%}") for each in found["remedies"]],
        swizzles=modes,
        chosen_swizzle=len(modes) - 1,
        fragments=sections.fragments(shown),
        timeline=sections.timeline(shown),
        counters=sections.counters(shown),
        measured=sections.measured(records),
        commands=sections.COMMANDS,
        version=version,
        **drawn,
    )
    return rendered
