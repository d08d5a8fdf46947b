"""An extension of griffe that gives each argument in a docstring a paragraph of its own."""

import re
from typing import Any

import griffe

_ARGUMENTS = re.compile(r"^(?P<names>\w+(?:, \w+)*): (?=\S)")


class Arguments(griffe.Extension):
    """Docstrings here describe arguments as `names: text`, which Markdown would join to one paragraph."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was read."""
        if obj.docstring:
            obj.docstring.value = with_paragraphs(obj.docstring.value)


def with_paragraphs(docstring: str) -> str:
    """The docstring with each argument as a term and its description."""
    lines, inside = [], False
    for line in docstring.splitlines():
        if found := _ARGUMENTS.match(line):
            terms = ", ".join(f"`{name}`" for name in found["names"].split(", "))
            lines += ["", terms, f":   {line[found.end() :]}"]
            inside = True
        else:
            inside = inside and bool(line.strip())
            lines.append(f"    {line}" if inside else line)
    return "\n".join(lines)
