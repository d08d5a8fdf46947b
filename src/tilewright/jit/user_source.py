"""CUDA C++ of a user, compiled by NVRTC to PTX for the emulator, and kept in the cache.

NVRTC compiles device code alone; `headers.py` says where the headers are.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import ArgumentValueError
from tilewright.hardware import HOPPER
from tilewright.jit import compile as compiler
from tilewright.jit.cache import ENTRY_FORMAT, default_cache
from tilewright.jit.compile import CompilationError, CompiledKernel
from tilewright.jit.entries import METADATA_FIELDS
from tilewright.jit.headers import DEVICE_ALONE, OWN, advice, toolkit_folders
from tilewright.jit.source import cuda_code

OPTIONS = ("-std=c++17", "-default-device", "-lineinfo", "--ptxas-options=-v", "--no-cache")
MOST_ERRORS = 3
"""The errors that a message shows; CompilationError.log has all."""

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?:([<\"])([^>\"\n]+)[>\"]|(\S.*))", re.MULTILINE)
_EXPRESSION = re.compile(r"[<>:]")
_MISSING = re.compile(r'cannot open source file "([^"]+)"')
_HOST = re.compile(r'(?:identifier|has no member) "(cuda[A-Z]\w*|cout|cerr|vector|string|chrono)" ?(?:is undefined)?')
"""Errors about names that only host code has."""
_TEMPLATE = re.compile(r"\btemplate\s*<")
_ATTRIBUTE = re.compile(r"\b__\w+__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")


@dataclass(frozen=True)
class UserSource:
    """A CUDA C++ source.

    name: its file, in messages and line information.
    folders: where headers are looked for.
    definitions: macros, NAME=VALUE.
    options: further options of NVRTC, which come in the place of those here of the same name.
    architecture: the GPU that it is compiled for.
    """

    name: str
    text: str
    folders: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    architecture: str = HOPPER

    @classmethod
    def read(cls, path: Path, folders: Sequence[str] = (), definitions: Sequence[str] = ()) -> "UserSource":
        """The source in a file, whose own folder is looked into as well; raises an ArgumentValueError."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise ArgumentValueError(f"{path} cannot be read: {reason}; name a CUDA C++ file") from error
        return cls(str(path), text, (*folders, str(path.parent)), tuple(definitions))

    def compiled(self, instantiation: str = "") -> CompiledKernel:
        """The module, with `name` the entry's if an instantiation is named, such as "scale<float, 4>".

        Raises:
            ArgumentValueError: for characters that are no Unicode.
            CompilationError: with NVRTC's own messages.
            CompilerMissing: without NVRTC.
        """
        named = [option[2:] for option in self.options if option.startswith("-I")]
        folders = [*self.folders, *toolkit_folders(), OWN]
        options = (
            f"--gpu-architecture={self.architecture}",
            *(option for option in OPTIONS if _name(option) not in map(_name, self.options)),
            *self.options,
            *(f"-I{folder}" for folder in folders),
            *(f"-D{definition}" for definition in self.definitions),
        )
        try:
            "".join([self.name, self.text, instantiation, *options]).encode()
        except UnicodeEncodeError as error:
            raise ArgumentValueError(
                f"{error.object[error.start]!r} is no character, and stands in the source, its path, the entry, or the "
                "definitions or folders: leave it out"
            ) from error

        def make() -> CompiledKernel:
            start = time.perf_counter()
            made = compiler.translate(self.text, self.name, {}, options, instantiation)
            if not made.ptx:
                missing = dict.fromkeys(_MISSING.findall(made.log))
                said = f"{self.name} does not compile:\n{_first_errors(made.log)}{advice([*missing], self.text)}"
                if host := _HOST.search(made.log):
                    said += f"\n{host[1]} is of the host: {DEVICE_ALONE}; entry names the kernel if there are several"
                raise CompilationError(said, made.log)
            name = made.lowered or Path(self.name).stem
            return compiler.compiled_kernel(name, self.architecture, made, time.perf_counter() - start)

        included = self._included([*named, *folders])
        if included is None:
            return make()
        place = os.path.abspath(self.name)  # the PTX has it
        ingredients = [ENTRY_FORMAT, METADATA_FIELDS, place, self.text, options, instantiation, included]

        def key() -> str:
            return hashlib.sha256(json.dumps([*ingredients, compiler.nvrtc_version()]).encode()).hexdigest()

        return default_cache().get_or_make(key, make)

    @property
    def templates(self) -> list[str]:
        """An instantiation of each kernel that is a template, as an example: "scan<128>"."""
        found = []
        for head in re.split(r"[;{}]", _ATTRIBUTE.sub("", cuda_code(self.text))):
            before, _, after = head.partition("__global__")
            named = re.findall(r"\w+", after.rpartition("(")[0])
            if named and (start := _TEMPLATE.search(before)):
                declared, closed, between = before[start.end() :].rpartition(">")
                if closed and "<" not in between:
                    parameters = [each for each in declared.split(",") if "=" not in each and "..." not in each]
                    found.append(f"{named[-1]}<{', '.join(map(_example, parameters))}>")
        return found

    def _included(self, folders: Sequence[str]) -> list[object] | None:
        """All files that this may include, whatever conditions say, by path and digest; None if one is unknown.

        Toolkits do not change file by file: theirs count by folder.
        """
        if any(_names_headers(option) for option in self.options):
            return None
        toolkit = toolkit_folders()
        found: dict[str, str] = {}
        pending = [(os.path.dirname(self.name), self.text)]
        while pending:
            here, text = pending.pop()
            if "__has_include" in text:
                return None
            for quote, name, macro in _INCLUDE.findall(_spliced(text)):
                if macro:
                    # as CUTLASS writes: CUDA_STD_HEADER(cassert)
                    inside = re.search(r"\((\w+)\)", macro)
                    if not inside or not any(os.path.isfile(f"{folder}/cuda/std/{inside[1]}") for folder in toolkit):
                        return None
                    continue
                own = [folder for folder in ([here] * (quote == '"') + [*folders]) if folder not in toolkit]
                places = [os.path.join(folder, name) for folder in (*own, *toolkit)]
                if not any(map(os.path.isfile, places)):
                    return None  # a file of this name may come to be there
                for path in (os.path.join(folder, name) for folder in own):
                    if path not in found and os.path.isfile(path):
                        try:
                            body = Path(path).read_text(encoding="utf-8", errors="replace")
                        except OSError:  # NVRTC says so
                            return None
                        found[path] = hashlib.sha256(body.encode()).hexdigest()
                        pending.append((os.path.dirname(path), body))
        return [sorted(found.items()), [(folder, os.stat(folder).st_mtime_ns) for folder in toolkit]]


def _example(parameter: str) -> str:
    """A template argument for a parameter."""
    kind = parameter.split()[:1]
    return {"typename": "float", "class": "float", "bool": "true"}.get("".join(kind), "128")


def _names_headers(option: str) -> bool:
    """Whether an option may bring headers in another way than -IFOLDER does."""
    if not option.startswith("-") or option == "-I":
        return True  # the value of an option before it, or an option whose value follows
    return _name(option).startswith(("include", "pre-include", "isystem", "idirafter"))


def _spliced(text: str) -> str:
    """A source in which each directive is one line that begins with #, as the preprocessor sees it."""
    return cuda_code(re.sub(r"\\\r?\n", "", text)).replace("%:", "#")


def _name(option: str) -> str:
    """The name of an option, however many dashes it is written with."""
    return option.lstrip("-").partition("=")[0]


def is_expression(entry: str) -> bool:
    """Whether an entry is named as in C++, as an instantiation or in a namespace."""
    return bool(_EXPRESSION.search(entry))


def _first_errors(log: str) -> str:
    """The first errors of a log, without the candidates that the compiler has considered; then how many there are."""
    paragraphs = re.sub(r"^.*: note #.*\n(?:  .*\n)*", "", log, flags=re.MULTILINE).split("\n\n")
    *errors, number = paragraphs if len(paragraphs) > 1 else [*paragraphs, ""]
    return "\n\n".join([*errors[:MOST_ERRORS], *(["..."] if len(errors) > MOST_ERRORS else []), number]).strip()
