"""Reference pages of the commands, made from what `--help` shows."""

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import typer

from tilewright.cli import app
from website.documents import title_of

_BESIDES = ("index.md", "changelog.md", "contributing.md", "source")
"""The pages that show many commands, and are no place to read about one."""
_CODE_OR_SIGN = re.compile(r"(?P<code>`[^`]+`|(?<![\w-])--[a-z][\w-]*|\b[A-Z]+(?:_[A-Z]+)+\b)|[\\`*_\[\]|<>&]")
_EXAMPLES = "\b\nExamples:\n"
"""What separates the description of a command from its examples."""


def pages(documents: Mapping[PurePosixPath, str]) -> dict[PurePosixPath, str]:
    """The text of each command's page by its path; the first is the list of all commands.

    documents: the other pages, to which a command's page leads if they show the command.
    """
    program: Any = typer.main.get_command(app)
    index = PurePosixPath("commands/index.md")
    found = {index: ""}
    lines = ["# Commands", "", "Every command prints facts and tables for people, or with `--json` one object.", ""]
    for name, path, command in _commands(program, "tilewright", index.parent):
        found[path] = "\n".join(_page(name, path, command, documents))
        depth = "    " * (len(path.relative_to(index.parent).parts) - 1 - (path.name == "index.md"))
        lines.append(f"{depth}- [{name}]({path.relative_to(index.parent)}): {_summary(command)}")
    found[index] = "\n".join(lines) + "\n"
    return found


def _commands(group: Any, prefix: str, folder: PurePosixPath) -> Iterator[tuple[str, PurePosixPath, Any]]:
    """Each command with its name and its page, groups before what is in them."""
    for name, command in group.commands.items():
        words, file = f"{prefix} {name}", name.replace(" ", "-")
        if hasattr(command, "commands"):
            yield words, folder / file / "index.md", command
            yield from _commands(command, words, folder / file)
        else:
            yield words, folder / f"{file}.md", command


def _page(name: str, path: PurePosixPath, command: Any, documents: Mapping[PurePosixPath, str]) -> Iterator[str]:
    context = command.context_class(command, info_name=name)
    description, _, examples = (command.help or "").partition(_EXAMPLES)
    yield from (f"# {name}", "", escaped(description.strip()), "")
    yield from ("```text", f"{name} {' '.join(command.collect_usage_pieces(context))}", "```", "")
    if examples:
        yield from ("## Examples", "", "```bash", *(line.strip() for line in examples.splitlines()), "```", "")
    for kind in ("argument", "option"):
        records = [each.get_help_record(context) for each in command.params if each.param_type_name == kind]
        if told := [record for record in records if record]:
            yield from (f"## {kind.capitalize()}s", "")
            for words, text in told:
                yield from (f"`{words}`", f":   {escaped(text)}", "")
    if topics := getattr(command, "commands", {}):
        yield from ("## Topics", "")
        yield from (f"- [{name} {topic}]({topic}.md): {_summary(inner)}" for topic, inner in topics.items())
        yield ""
    shown = re.compile(rf"\b{name}\b(?! (?:{'|'.join(topics) or '$'}))")
    if showing := [each for each in documents if each.parts[0] not in _BESIDES and shown.search(documents[each])]:
        yield from ("## Where it is used", "")
        up = "../" * (len(path.parts) - 1)
        yield from (f"- [{title_of(documents[each])}]({up}{each})" for each in showing)


def _summary(command: Any) -> str:
    """The first paragraph of a command's help, in one line."""
    return escaped(" ".join((command.help or "").partition("\n\n")[0].split()))


def escaped(text: str) -> str:
    """Plain text as Markdown that shows it unchanged, with options, variables and what is quoted by ` as code."""
    return _CODE_OR_SIGN.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    if match["code"]:
        return match[0] if match[0].startswith("`") else f"`{match[0]}`"
    return html.escape(match[0], quote=False) if match[0] in "<>&" else f"\\{match[0]}"
