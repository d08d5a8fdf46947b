"""From PTX text to data.

The grammar is the part of PTX that compilers emit for one translation unit: module variables, entries, functions,
nested scopes (inline assembly opens them), registers, labels and `.loc` lines.
"""

import re

from tilewright.emulator.ptx.availability import FIRST_VERSION, LAST_VERSION, TARGETS
from tilewright.emulator.ptx.body import BodyParser
from tilewright.emulator.ptx.expansion import Expansion
from tilewright.emulator.ptx.lexical import (
    VARIABLE,
    alignment,
    excerpt,
    line_of,
    matching_brace,
    short_names,
    skip_blank,
    split_list,
    syntax_error,
    variable_of,
)
from tilewright.emulator.ptx.syntax import TYPE_BITS, Entry, Function, FunctionParameter, Module, Parameter
from tilewright.rounding import round_up

_FILE = re.compile(r'^[ \t]*\.file\s+(\d{1,9})\s+"([^"\n]*)"', re.M)
_VERSION_AND_TARGET = re.compile(
    r"\.version\s+(?P<major>\d{1,3})\.(?P<minor>\d{1,3})(?:\s+|//[^\n]*|/\*[\s\S]*?\*/)*\.target\s+(?P<target>[\w.-]+)"
)
_PATH = re.compile(r"[^\n]+\.ptx")
_CUDA = re.compile(r"^[ \t]*#[ \t]*include\b|\bextern\s+\"C\"|\b__(?:global|device|shared)__\b|^[ \t]*template\b", re.M)
COMPILED = "the PTX that `nvcc -ptx -lineinfo` or nvrtcGetPTX makes"
"""The expected input, for messages about text that is not PTX."""
_HEADER = re.compile(
    r"\.version\s+[\d.]+|\.target\s+[\w.-]+(?:\s*,\s*[\w.-]+)*|\.address_size\s+\d+|\.file\b[^\n]*|\.pragma\b[^\n;]*;?"
)
_SECTION = re.compile(r"\.section\s+[^{]*\{[^}]*\}")
_FUNCTION = re.compile(r"(?:\.(?:visible|extern|weak)\s*)*\.(entry|func)\b")
_DEVICE_FUNCTION = re.compile(
    r"\.func\b\s*(?:\((?P<results>[^()]*)\)\s*)?(?P<name>[\w$]+)\s*(?:\((?P<parameters>[^()]*)\)\s*)?(?:\.\w+\s*)*\{"
)
_FORMAL = re.compile(
    r"\s*\.(?P<space>reg|param)\s*(?:\.align\s+\d+\s*)?\.(?P<type>\w+)\s+(?:\.ptr\b\s*(?:\.\w+\s*|\d+\s+)*)?"
    r"(?P<name>[%\w$]+)\s*(?:\[\d*\])?\s*$"
)
_PARAMETER = re.compile(
    r"\s*\.param\s*(?:\.align\s+(?P<align>\d{1,9})\s*)?\.(?P<type>\w+)\s+(?:\.ptr\b(?:\s*\.\w+)*(?:\s+\d+)?\s+)?"
    r"(?P<name>[\w$]+)\s*(?:\[(?P<count>\d{1,9})\])?\s*$"
)
_DIRECTIVE = re.compile(r"\.(\w+)((?:[ \t]+\d{1,9}(?:\s*,\s*\d{1,9}){0,2})?)", re.A)
PARAMETER_BYTES = 32764
"""The largest parameter space of a kernel (PTX ISA, "Kernel Function Parameter Attributes")."""


def source_files(text: str) -> dict[str, str]:
    """The paths of a module's source files, by the names that locations have for them."""
    paths = {int(number): path for number, path in _FILE.findall(text)}
    return {name: paths[number] for number, name in short_names(paths).items()}


def parse(text: str) -> Module:
    """Parse a PTX module.

    Raises:
        PtxSyntaxError: naming the line of the text.
    """
    header = _header(text)
    version = int(header["major"]), int(header["minor"])
    module = Module(
        version, header["target"], files=short_names({int(number): path for number, path in _FILE.findall(text)})
    )
    for function in _DEVICE_FUNCTION.finditer(text):
        results, parameters = (_formals(text, function, group) for group in ("results", "parameters"))
        module.functions[function["name"]] = Function(function["name"], results, parameters, function.end() - 1)
    position, expansion = skip_blank(text, 0), Expansion(module, text)
    while position < len(text):
        if match := _HEADER.match(text, position) or _SECTION.match(text, position):
            position = match.end()
        elif match := VARIABLE.match(text, position):
            _declare_module_variable(module, match, line_of(text, position))
            position = match.end()
        elif match := _FUNCTION.match(text, position):
            position = _parse_function(module, text, match, expansion)
        else:
            raise syntax_error(text, position, f"unexpected {excerpt(text, position)!r} at module level")
        position = skip_blank(text, position)
    return module


def _header(text: str) -> re.Match[str]:
    """Parse .version and .target, with which PTX starts; refuse other text and targets that are not modeled."""
    start = skip_blank(text, 0)
    header = _VERSION_AND_TARGET.match(text, start)
    if header is None:
        unexpected = f"unexpected {excerpt(text, start)!r} where PTX has .version and .target"
        raise syntax_error(text, start, f"{unexpected}{_instead(text)}")
    if not FIRST_VERSION <= int(header["major"]) <= LAST_VERSION:
        known = f"{FIRST_VERSION}.0 to {LAST_VERSION}.x"
        raise syntax_error(text, start, f".version {header['major']}.{header['minor']} is unknown: use one of {known}")
    if header["target"] not in TARGETS:
        line = header.start("target")
        raise syntax_error(
            text, line, f".target {header['target']} is unknown: compile for one of {', '.join(TARGETS)}"
        )
    needed = TARGETS[header["target"]]
    if (int(header["major"]), int(header["minor"])) < needed:
        raise syntax_error(
            text, header.start("target"),
            f".target {header['target']} needs .version {needed[0]}.{needed[1]} or later, this module says "
            f"{header['major']}.{header['minor']}",
        )  # fmt: skip
    return header


def _instead(text: str) -> str:
    """The likely nature of a text without a header, and what to give instead."""
    if _PATH.fullmatch(text):
        return ": this looks like a file's path, and the text is wanted, as Path(...).read_text() gives it"
    return f": this looks like CUDA C++, so compile it: give {COMPILED} of it" if _CUDA.search(text) else ""


def _parse_function(module: Module, text: str, header: re.Match[str], expansion: Expansion) -> int:
    """Parse an entry, or step over a function; returns the position after it."""
    start = text.find("{", header.end())
    end = text.find(";", header.end())
    if header[1] == "func" and (start < 0 or 0 <= end < start):  # only a declaration
        return end + 1
    if start < 0:
        raise syntax_error(text, header.start(), "a function without a body")
    if header[1] == "func":
        return matching_brace(text, start) + 1
    signature = re.compile(r"\s*([\w$]+)\s*(?:\(([^)]*)\))?([^{]*)").match(text, header.end())
    if signature is None:
        raise syntax_error(text, header.start(), "an entry without a name")
    if signature[1] in module.entries:
        raise syntax_error(text, header.start(), f"the entry {signature[1]} is defined twice")
    entry = Entry(signature[1], _parse_parameters(text, signature), constants=module.constants)
    for name, numbers in _DIRECTIVE.findall(signature[3]):
        if numbers or name == "explicitcluster":
            entry.directives[name] = tuple(int(number) for number in re.findall(r"\d+", numbers))
    module.entries[entry.name] = entry
    return BodyParser(module, entry, text, start, expansion).parse()


def _formals(text: str, header: re.Match[str], group: str) -> tuple[FunctionParameter, ...]:
    """The parameters or the results of a function."""
    formals = []
    for declaration in split_list(header[group] or ""):
        match = _FORMAL.match(declaration)
        if match is None or match["type"] not in TYPE_BITS:
            raise syntax_error(text, header.start(), f"unknown parameter declaration {declaration!r}")
        formals.append(FunctionParameter(match["name"], match["space"] == "reg", match["type"]))
    return tuple(formals)


def _parse_parameters(text: str, signature: re.Match[str]) -> list[Parameter]:
    parameters: list[Parameter] = []
    offset = 0
    for declaration in split_list(signature[2] or ""):
        match = _PARAMETER.match(declaration)
        if match is None or TYPE_BITS.get(match["type"], 0) < 8:
            raise syntax_error(text, signature.start(), f"unknown parameter declaration {declaration!r}")
        width = TYPE_BITS[match["type"]] // 8
        size = width * int(match["count"] or 1)
        line = line_of(text, signature.start())
        offset = round_up(offset, alignment(match["align"], width, line))
        parameters.append(Parameter(match["name"], offset, size, match["type"]))
        offset += size
    if offset > PARAMETER_BYTES:
        raise syntax_error(
            text, signature.start(), f"the parameters have {offset} bytes; the limit is {PARAMETER_BYTES}"
        )
    return parameters


def _declare_module_variable(module: Module, match: re.Match[str], line: int) -> None:
    variable = variable_of(match, line)
    if match["space"] in ("global", "const"):
        module.variables[variable.name] = variable
        if match["space"] == "const":
            module.constants[variable.name] = variable
    elif variable.size:
        module.shared[variable.name] = variable
    else:
        module.dynamic_shared[variable.name] = variable
