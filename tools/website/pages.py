"""All that Zensical reads: the pages with their pictures, the order of the pages, and the configuration."""

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from website import commands, documents, reference, support
from website.documents import ROOT, title_of

FOLDER = Path(__file__).parent
PROJECT = ("design.md", "memory-rules.md", "performance-log.md", "contributing.md", "changelog.md")
"""Pages for those who change tilewright."""
_LISTED = re.compile(r"^(?:\| |- )\[[^]]*\]\(([\w./-]+\.md)\)", re.MULTILINE)


def write(folder: Path) -> None:
    """Write a project for Zensical into an empty folder."""
    found = documents.pages()
    found |= commands.pages(found) | reference.pages() | {PurePosixPath("support.md"): support.page()}
    target = folder / "docs"
    for path, text in found.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, encoding="utf-8")
    shutil.copytree(
        ROOT / "docs", target, dirs_exist_ok=True, ignore=lambda _, names: [each for each in names if ".md" in each]
    )
    for name in ("site.css", "worker.js"):
        shutil.copy(FOLDER / name, target)
    settings = (FOLDER / "zensical.toml").read_text(encoding="utf-8")
    (folder / "zensical.toml").write_text(settings.replace("nav = []", f"nav = {_toml(navigation(found))}"))


def navigation(pages: Mapping[PurePosixPath, str]) -> list[Any]:
    """Every page but listings of sources in its place; raises a ValueError for one that its folder's index lacks."""
    named = {str(path) for path in pages}
    sections = {name: _in_order(name, pages) for name in ("ladder", "machine", "reference")}
    guides = sorted(
        name for name in named if "/" not in name and name not in (*PROJECT, "index.md", "emulator.md", "support.md")
    )
    return [
        {"Home": "index.md"},
        {"Guides": guides},
        {"Ladder": sections["ladder"]},
        {"Machine": sections["machine"]},
        {"Emulator": "emulator.md"},
        {"Reference": [
            "support.md",
            {"Python": sections["reference"]},
            {"Commands": _nested(PurePosixPath("commands"), pages)},
        ]},
        {"Project": list(PROJECT)},
    ]  # fmt: skip


def _in_order(folder: str, pages: Mapping[PurePosixPath, str]) -> list[str]:
    """The pages of a folder as tables and lists of its index begin with them."""
    index = PurePosixPath(folder, "index.md")
    linked = dict.fromkeys(f"{folder}/{target}" for target in _LISTED.findall(pages[index]))
    own = {str(path) for path in pages if path.parts[0] == folder} - {str(index)}
    if missing := own.difference(linked):
        raise ValueError(f"{index} lists no {', '.join(sorted(missing))}: begin a row of a table with a link to it")
    return [str(index), *(name for name in linked if name in own)]


def _nested(folder: PurePosixPath, pages: Mapping[PurePosixPath, str]) -> list[Any]:
    """The pages of a folder, and as sections its folders, in their order."""
    found: list[Any] = []
    for path, text in pages.items():
        if path.parent == folder:
            found.append(str(path))
        elif path.name == "index.md" and path.parent.parent == folder:
            found.append({title_of(text): _nested(path.parent, pages)})
    return found


def _toml(value: Any) -> str:
    """A value in one line of TOML; its strings are those of JSON."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
