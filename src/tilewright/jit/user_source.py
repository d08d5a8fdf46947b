"""CUDA C++ of a user, compiled by NVRTC to PTX for the emulator, and kept in the cache.

NVRTC compiles device code alone. Headers of the CUDA toolkit come from CUDA_HOME, from NVIDIA's Python packages or from
where the toolkit is usually installed; of the standard library, only what CCCL has is there (<cuda/std/...>). Those of
CUTLASS come from the package nvidia-cutlass, unless a folder with them is named.
"""

import functools
import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tilewright.errors import ArgumentValueError
from tilewright.hardware import HOPPER
from tilewright.jit import compile as compiler
from tilewright.jit.cache import ENTRY_FORMAT, default_cache
from tilewright.jit.compile import CompilationError, CompiledKernel
from tilewright.jit.entries import METADATA_FIELDS
from tilewright.jit.source import cuda_code

OPTIONS = ("-std=c++17", "-default-device", "-lineinfo", "--ptxas-options=-v", "--no-cache")
HOST_HEADERS = ("cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "vector_types.h")
"""Headers whose contents NVRTC has built in; they are empty where no toolkit has them."""

MOST_ERRORS = 3
"""The errors that a message shows; CompilationError.log has all."""

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?:([<\"])([^>\"\n]+)[>\"]|(\S.*))", re.MULTILINE)
_EXPRESSION = re.compile(r"[<>:]")
_MISSING = re.compile(r'cannot open source file "([^"]+)"')


@dataclass(frozen=True)
class UserSource:
    """A CUDA C++ source.

    name: its file, in messages and line information.
    folders: where headers are looked for.
    definitions: macros, NAME=VALUE.
    options: further options of NVRTC, which come in the place of those here of the same name.
    """

    name: str
    text: str
    folders: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

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
            CompilationError: with NVRTC's own messages.
            CompilerMissing: without NVRTC.
        """
        named = [option[2:] for option in self.options if option.startswith("-I")]
        folders = [*self.folders, *toolkit_folders()]
        options = (
            f"--gpu-architecture={HOPPER}",
            *(option for option in OPTIONS if _name(option) not in map(_name, self.options)),
            *self.options,
            *(f"-I{folder}" for folder in folders),
            *(f"-D{definition}" for definition in self.definitions),
        )

        def make() -> CompiledKernel:
            start = time.perf_counter()
            headers = {} if toolkit_folders() else dict.fromkeys(HOST_HEADERS, "")
            made = compiler.translate(self.text, self.name, headers, options, instantiation)
            if not made.ptx:
                said = f"{self.name} does not compile:\n{_first_errors(made.log)}{_advice(made.log)}"
                raise CompilationError(said, made.log)
            name = made.lowered or Path(self.name).stem
            return compiler.compiled_kernel(name, HOPPER, made, time.perf_counter() - start)

        included = self._included([*named, *folders])
        if included is None:
            return make()
        place = os.path.abspath(self.name)  # the PTX has it
        ingredients = [ENTRY_FORMAT, METADATA_FIELDS, place, self.text, options, instantiation, included]

        def key() -> str:
            return hashlib.sha256(json.dumps([*ingredients, compiler.nvrtc_version()]).encode()).hexdigest()

        return default_cache().get_or_make(key, make)

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
                if name not in HOST_HEADERS and not any(map(os.path.isfile, places)):
                    return None  # a file of this name may come to be there
                for path in (os.path.join(folder, name) for folder in own):
                    if path not in found and os.path.isfile(path):
                        body = Path(path).read_text(encoding="utf-8", errors="replace")
                        found[path] = hashlib.sha256(body.encode()).hexdigest()
                        pending.append((os.path.dirname(path), body))
        return [sorted(found.items()), [(folder, os.stat(folder).st_mtime_ns) for folder in toolkit]]


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


@functools.cache
def toolkit_folders() -> tuple[str, ...]:
    """The folders with the headers of a CUDA toolkit, those of CUDA_HOME first, and of CUTLASS, if there are any."""
    from cuda.pathfinder import find_nvidia_header_directory

    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = [str(Path(home, "include", part)) for home in homes for part in ("", "cccl")]
    for library in ("cudart", "cccl"):
        if folder := find_nvidia_header_directory(library):
            found += [folder, *([str(Path(folder).parent)] if Path(folder).name == "cccl" else [])]
    cutlass = find_spec("cutlass_library")  # the package nvidia-cutlass; this does not import it
    found += [
        str(Path(folder, "source", "include")) for folder in (cutlass and cutlass.submodule_search_locations) or ()
    ]
    return tuple(dict.fromkeys(os.path.normpath(folder) for folder in found if os.path.isdir(folder)))


def _first_errors(log: str) -> str:
    """The first errors of a log, without the candidates that the compiler has considered; then how many there are."""
    paragraphs = re.sub(r"^.*: note #.*\n(?:  .*\n)*", "", log, flags=re.MULTILINE).split("\n\n")
    *errors, number = paragraphs if len(paragraphs) > 1 else [*paragraphs, ""]
    return "\n\n".join([*errors[:MOST_ERRORS], *(["..."] if len(errors) > MOST_ERRORS else []), number]).strip()


def _advice(log: str) -> str:
    """What to do about a header that is missing."""
    missing = sorted(set(_MISSING.findall(log)))
    if not missing:
        return ""
    return (
        f"\n{', '.join(missing)} cannot be found.\n"
        "NVRTC compiles device code alone: put host code and its headers between #ifndef __CUDACC_RTC__ and #endif, or "
        "move the kernels to a file of their own.\n"
        "Name the folders of other headers with include; those of CUDA come from CUDA_HOME, or from\n"
        "pip install nvidia-cuda-runtime nvidia-cuda-cccl, and those of CUTLASS from pip install nvidia-cutlass."
    )
