"""The names of kernels in C++, from those in PTX. Source: Itanium C++ ABI, "External Names (a.k.a. Mangling)"."""

import re
from collections import Counter
from collections.abc import Sequence

_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "f": "float", "d": "double", "n": "__int128", "o": "unsigned __int128",
}  # fmt: skip
_QUALIFIED = {"P": "{}*", "R": "{}&", "O": "{}&&", "K": "const {}", "V": "volatile {}"}
_LONGEST = 4096
"""Characters of a name; longer ones are not read."""
_INTEGERS = "".join(code for code in _BUILTIN if code not in "vfd")


class _NotUnderstood(Exception):
    """A name has a part that is not read here."""


def in_cpp(name: str) -> str:
    """A function's name with namespaces and template arguments, without parameters; unchanged if it is not of C++."""
    if not name.startswith("_Z") or len(name) > _LONGEST:
        return name
    try:
        return _Mangled(name[2:]).name()
    except (_NotUnderstood, IndexError, RecursionError):
        return name


def listed(entries: Sequence[str]) -> list[str]:
    """The names to show for entries, in C++ where they then differ."""
    names = [in_cpp(entry) for entry in entries]
    times = Counter(names)
    return [name if times[name] == 1 else entry for name, entry in zip(names, entries, strict=True)]


class _Mangled:
    """A reader of a mangled name; raises _NotUnderstood or an IndexError for what it does not know."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._known: list[str] = []  # what a substitution may stand for, in order

    def name(self) -> str:
        """A name at the present place."""
        return self._nested() if self._skips("N") else self._simple()

    def _learn(self, name: str) -> None:
        """Keep what a substitution may stand for."""
        if len(name) > 2 * _LONGEST:
            raise _NotUnderstood("abbreviations that grow without end")
        self._known.append(name)

    def _skips(self, text: str) -> bool:
        """Whether a text comes next; it is then read."""
        found = self._text.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _next(self) -> str:
        return self._text[self._at]

    def _simple(self) -> str:
        name = f"std::{self._source_name()}" if self._skips("St") else self._source_name()
        if not self._text.startswith("I", self._at):
            return name
        self._learn(name)
        return name + self._template_arguments()

    def _nested(self) -> str:
        while self._next() in "rVK":
            self._at += 1
        name, is_new = "", False
        while not self._skips("E"):
            if is_new:
                self._learn(name)
            is_new = self._next() != "S"
            if not is_new:
                name = self._substitution()
            elif self._next() == "I":
                name += self._template_arguments()
            else:
                name = "::".join(filter(None, [name, self._source_name()]))
        return name

    def _substitution(self) -> str:
        if self._skips("St"):
            return "std"
        match = re.compile(r"S([0-9A-Z]*)_").match(self._text, self._at)
        if match is None:
            raise _NotUnderstood("an abbreviation of the standard library")
        self._at = match.end()
        return self._known[int(match[1], 36) + 1 if match[1] else 0]

    def _template_arguments(self) -> str:
        """The arguments between I and E, or J and E, with commas."""
        self._at += 1
        arguments = []
        while not self._skips("E"):
            if self._next() == "J":  # of a pack
                arguments.append(self._template_arguments()[1:-1])
            else:
                arguments.append(self._literal() if self._skips("L") else self._type())
            if sum(map(len, arguments)) > _LONGEST:
                raise _NotUnderstood("abbreviations that grow without end")
        return f"<{', '.join(filter(None, arguments))}>"

    def _literal(self) -> str:
        code, kind = self._next(), self._type()
        match = re.compile(r"(n?)(\d{1,20})E").match(self._text, self._at)
        if match is None or code in "fd":
            raise _NotUnderstood("no integer")
        self._at = match.end()
        number = match[2] if not match[1] else f"-{match[2]}"
        if code == "b":
            return "true" if number == "1" else "false"
        return number if code in _INTEGERS else f"({kind}){number}"

    def _type(self) -> str:
        code = self._next()
        if code in _BUILTIN:
            self._at += 1
            return _BUILTIN[code]
        if code in _QUALIFIED:
            self._at += 1
            name = _QUALIFIED[code].format(self._type())
        elif code == "S" and not self._text.startswith("St", self._at):
            name = self._substitution()
            if not self._text.startswith("I", self._at):
                return name
            name += self._template_arguments()
        else:
            name = self.name()
        self._learn(name)
        return name

    def _source_name(self) -> str:
        match = re.compile(r"[1-9]\d{0,3}").match(self._text, self._at)
        if match is None:
            raise _NotUnderstood("no name")
        end = match.end() + int(match[0])
        name = self._text[match.end() : end]
        if len(name) < int(match[0]) or name.startswith("_GLOBAL__N"):
            raise _NotUnderstood("a name that cannot be written")
        self._at = end
        return name
