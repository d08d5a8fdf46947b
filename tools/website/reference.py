"""Reference pages of what Python programs import, for mkdocstrings to fill from signatures and docstrings."""

from importlib import import_module
from pathlib import PurePosixPath

PACKAGES = {
    "tilewright": "Products, Configs, checks and errors: `import tilewright as tw`.",
    "tilewright.emulator": "The emulator: devices that run PTX from any compiler, their counters and their errors.",
    "tilewright.bench": "Benchmarks of your own: contenders, inputs, protocols and records. They need torch and a GPU.",
    "tilewright.ladder": "The ladder, climbed from Python.",
}
"""The packages whose `__all__` is documented, with what they are for."""

_MEMBERS = {"tilewright.Plan": ("accumulator", "__call__"), "tilewright.RangePlan": ("__call__",)}
"""What users ask of classes whose other members serve the planner."""
_FOLDER = PurePosixPath("reference")


def pages() -> dict[PurePosixPath, str]:
    """The text of each package's page by its path; the first page lists the others."""
    index = "".join(f"- [`{name}`]({name}.md): {about}\n" for name, about in PACKAGES.items())
    found = {_FOLDER / "index.md": f"# Python reference\n\n{index}"}
    for package, about in PACKAGES.items():
        names = [name for name in import_module(package).__all__ if f"{package}.{name}" not in PACKAGES]
        entries = "\n".join(_entry(f"{package}.{name}") for name in sorted(names, key=_order))
        found[_FOLDER / f"{package}.md"] = f"# {package}\n\n{about}\n\n{entries}"
    return found


def _entry(name: str) -> str:
    members = "".join(f"        - {member}\n" for member in _MEMBERS.get(name, ()))
    return f"::: {name}\n" + (f"    options:\n      members:\n{members}" if members else "")


def _order(name: str) -> tuple[bool, str]:
    """Functions before classes."""
    return not name.islower(), name
