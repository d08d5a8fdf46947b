"""The amount of text that calls of device functions expand to, computed before parsing: each call copies a body."""

import re
from collections import Counter
from functools import cached_property

from tilewright.emulator.ptx.lexical import matching_brace
from tilewright.emulator.ptx.syntax import Module

_CALLEE = re.compile(r"\bcall(?:\.\w+)*\s+(?:\([^()]*\)\s*,\s*)?([%\w$]+)")
_LONG_STATEMENT = 64
"""Text counts as at least one statement for each stretch of this many characters."""


class Expansion:
    """The sizes of a module's functions in statements, with each call counted as the function that it calls."""

    def __init__(self, module: Module, text: str) -> None:
        self._module, self._text = module, text
        self._sizes: dict[str, int] = {}

    def size(self, name: str) -> int:
        """The statements of a function. A recursive function counts once; the parser refuses its calls."""
        path = {name: iter(self._callees[name])}
        while path and name not in self._sizes:
            caller, callees = next(reversed(path.items()))
            callee = next((each for each in callees if each not in self._sizes and each not in path), None)
            if callee is not None:
                path[callee] = iter(self._callees[callee])
                continue
            path.popitem()
            counts = self._callees[caller].items()
            self._sizes[caller] = self._own[caller] + sum(self._sizes.get(each, 0) * n for each, n in counts)
        return self._sizes[name]

    @cached_property
    def _bodies(self) -> dict[str, str]:
        functions = self._module.functions.values()
        return {each.name: self._text[each.start : matching_brace(self._text, each.start)] for each in functions}

    @cached_property
    def _own(self) -> dict[str, int]:
        return {name: max(body.count(";"), len(body) // _LONG_STATEMENT, 1) for name, body in self._bodies.items()}

    @cached_property
    def _callees(self) -> dict[str, Counter[str]]:
        """The functions that each function calls, and how often."""
        called = {name: Counter(_CALLEE.findall(body)) for name, body in self._bodies.items()}
        return {
            name: Counter({each: n for each, n in found.items() if each in called}) for name, found in called.items()
        }
