"""Compile the kernels of the corpus and write one archive of PTX for each compiler.

    python tests/emulate/others/compile.py                     # what is newer than its PTX
    python tests/emulate/others/compile.py nvcc cub            # of these compilers
    python tests/emulate/others/compile.py --all --output DIR  # everything, into another folder

The folders' `requirements.txt` list the compilers. If one is not installed, its archive stays as it is.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Protocol

REPOSITORY = Path(__file__).parents[3]
sys.path[:1] = [str(REPOSITORY / "tests"), str(REPOSITORY / "src")]

from emulate.others.corpus import FOLDER, Archive, Case, all_cases, archive  # noqa: E402


class Compiler(Protocol):
    """A module that turns sources into PTX."""

    def version(self) -> str:
        """The compiler's version; raises ImportError, saying what is missing, if it is not installed."""

    def compile_ptx(self, case: Case, define: str | None) -> str:
        """The PTX of a kernel or, with a define, of its faulty twin; line information and no absolute paths."""


COMPILERS = {
    "nvcc": "emulate.others.cuda_compiler",
    "cutlass": "emulate.others.cuda_compiler",
    "cub": "emulate.others.cuda_compiler",
}
"""By folder, the module that is its Compiler."""


def build(name: str, *, everything: bool) -> Archive:
    """The archive of a compiler, in which what is newer than its PTX is compiled again."""
    compiler: Compiler = importlib.import_module(COMPILERS[name])
    old, version = archive(name), compiler.version()
    digests, texts = {}, {}
    for case in all_cases():
        if case.compiler != name:
            continue
        for define in case.variants():
            member, digest = case.member(define), case.digest(define)
            if everything or old.digests.get(member) != digest or old.version != version:
                print(f"{name}: {member}", flush=True)
                texts[member] = compiler.compile_ptx(case, define)
            else:
                texts[member] = old.texts[member]
            digests[member] = digest
    return Archive(version, digests, texts)


def main() -> None:
    """Write the archives that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("compilers", nargs="*", help=f"of {', '.join(COMPILERS)}; all by default")
    parser.add_argument("--all", action="store_true", help="compile also what is not newer than its PTX")
    parser.add_argument("--output", type=Path, default=FOLDER / "ptx", help="folder of the archives")
    options = parser.parse_args()
    for name in options.compilers or COMPILERS:
        try:
            made = build(name, everything=options.all)
        except ImportError as error:
            print(f"{name} stays as it is: {error}")
            made = archive(name)
        made.write(options.output / f"{name}.tar.xz")


if __name__ == "__main__":
    main()
