"""The repository's documents as pages of the site, with links that hold there.

The documents stay as they are read in the repository: a page is its document, whose links to other documents become
links to their pages, and whose links to other files become links to pages that show these files.
"""

import os
import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]

HOME = {"README.md": "index.md", "AGENTS.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""The pages of documents that do not lie in docs/."""

_CODE_OR_LINK = re.compile(r"^ *```.*?^ *```|`+[^`]+`+|\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)", re.M | re.S)
_LANGUAGES = {".py": "python", ".cuh": "cuda", ".json": "json", ".toml": "toml"}


def page_of(path: PurePosixPath) -> PurePosixPath:
    """The page of a file of the repository; a README is the first page of its folder, a source is shown by a page."""
    if str(path) in HOME:
        return PurePosixPath(HOME[str(path)])
    if path.suffix == ".md" and path.parts[0] == "docs":
        inside = path.relative_to("docs")
        return inside.with_name("index.md") if inside.name == "README.md" else inside
    return PurePosixPath("source") / f"{path}.md"


def pages(root: Path = ROOT) -> dict[PurePosixPath, str]:
    """The text of every page by its path: all documents, and the files that they link to.

    Raises a FileNotFoundError for a link to a file that is not there.
    """
    documents = [root / name for name in HOME] + sorted((root / "docs").rglob("*.md"))
    found: dict[PurePosixPath, str] = {}
    linked: set[PurePosixPath] = set()
    for document in documents:
        path = PurePosixPath(document.relative_to(root))
        found[page_of(path)] = _with_links(document.read_text(encoding="utf-8"), path, linked)
    for path in sorted(linked):
        if page_of(path) not in found:
            found[page_of(path)] = _listing(path, (root / path).read_text(encoding="utf-8"))
    return found


def title_of(text: str) -> str:
    """The heading that a page begins with."""
    return text.partition("\n")[0].removeprefix("# ")


def _with_links(text: str, path: PurePosixPath, linked: set[PurePosixPath]) -> str:
    """The text of the document at `path` with links between pages; adds the files that it links to."""
    here = page_of(path).parent

    def between_pages(match: re.Match[str]) -> str:
        if match["target"] is None:
            return match[0]
        target = PurePosixPath(os.path.normpath(path.parent / match["target"]))
        if target.suffix in (".svg", ".png"):
            return match[0]
        linked.add(target)
        return f"]({os.path.relpath(page_of(target), here)}{match['anchor'] or ''})"

    return _CODE_OR_LINK.sub(between_pages, text)


def _listing(path: PurePosixPath, text: str) -> str:
    """A page that shows a file; the search does not look into it."""
    language = _LANGUAGES.get(path.suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path.name}\n\n`{path}`\n\n````{language}\n{text.rstrip()}\n````\n"
