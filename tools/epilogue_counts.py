"""Count the machine instructions that epilogues of wgmma add to those of the plain product, for each element of out.

The Config is the first of the kernel's list for 4096^3 on an H200. Instructions ahead of the wait for a tile's last
products run behind these; those after it are what an epilogue costs, though the other consumer's products run beside
them where two take tiles by turns. An SM issues four a clock. It needs no GPU, but nvdisasm.

example: python tools/epilogue_counts.py
"""

import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tilewright.checking.product import Product  # noqa: E402
from tilewright.dtypes import bf16  # noqa: E402
from tilewright.expression.grammar import parse  # noqa: E402
from tilewright.hardware import H200  # noqa: E402
from tilewright.jit.cache import build  # noqa: E402
from tilewright.jit.listing import instruction_mix, sass_listing  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.kernels.wgmma.config import WARPGROUP, WgmmaConfig  # noqa: E402
from tilewright.problem import OperandForm  # noqa: E402

CLASSES = {
    "fp32": ("FADD", "FMUL", "FFMA", "FMNMX", "FSEL", "FSETP", "FSET"),
    "MUFU": ("MUFU",),
    "convert": ("F2F", "F2FP", "I2F", "F2I", "HADD2"),
    "LDG": ("LDG",),
    "STG": ("STG", "RED", "ATOM", "ATOMG"),
    "shared": ("LDS", "STS", "LDL", "STL", "STSM", "SHFL", "MOVM"),
    "branch": ("ISETP", "PLOP3", "BRA", "BSSY", "BSYNC", "EXIT", "WARPSYNC"),
}
"""The first words of opcodes by class; all others are integers, addresses and moves."""

OTHERS = "integer"

WAIT = "WARPGROUP.DEPBAR"
"""Waits for wgmma; the last one of a tile comes ahead of its epilogue."""

FORMS = {
    "bias": OperandForm("bias", False, True),
    "scale": OperandForm("scale", True, False),
    "residual": OperandForm("residual", True, True),
}

EPILOGUES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("acc + bias", ()),
    ("gelu(acc)", ()),
    ("gelu(acc + bias)", ()),
    ("acc + residual", ()),
    ("gelu(acc + bias) * scale + residual", ()),
    ("gelu(acc + bias)", ("amax",)),
    ("gelu(acc + bias)", ("acc",)),
)
"""Each with its further outputs."""


class Counts(NamedTuple):
    """Instructions of a kernel: after its last wait for products by class, and all of them."""

    after: Counter[str]
    total: int


def main() -> None:
    """Print a Markdown table."""
    plain = counts(_listing(None, ()))
    classes = [*CLASSES, OTHERS]
    print(f"| epilogue | after the products | {' | '.join(classes)} | in all |")
    print("|---" * (len(classes) + 3) + "|")
    for text, outputs in EPILOGUES:
        found = counts(_listing(text, outputs))
        shares = [found.after[name] - plain.after[name] for name in classes]
        numbers = [sum(shares), *shares, found.total - plain.total]
        name = f"{text} -> {', '.join(outputs)}" if outputs else text
        print(f"| {name} | {' | '.join(f'{number / _elements():.2f}' for number in numbers)} |")


def counts(listing: str) -> Counts:
    """The instructions of a SASS listing; padding does not count."""
    after = _mix(listing[listing.rindex(WAIT) :])
    kinds = {word: name for name, words in CLASSES.items() for word in words}
    by_class: Counter[str] = Counter()
    for opcode, number in after.items():
        by_class[kinds.get(opcode.partition(".")[0], OTHERS)] += number
    return Counts(by_class, sum(_mix(listing).values()))


def _mix(listing: str) -> dict[str, int]:
    mix = instruction_mix(listing, "sass")
    mix.pop("NOP", None)
    return mix


def _product(text: str | None, outputs: tuple[str, ...]) -> Product:
    if text is None:
        return Product(4096, 4096, 4096, bf16, bf16)
    forms = tuple(form for name, form in FORMS.items() if name in text)
    expression = parse(text, [form.name for form in forms])._replace(outputs=outputs)
    return Product(4096, 4096, 4096, bf16, bf16, expression=expression, forms=forms)


def _listing(text: str | None, outputs: tuple[str, ...]) -> str:
    """The machine code of wgmma with the plain product's Config."""
    wgmma, problem = KERNELS["wgmma"], _product(text, outputs).problem
    return sass_listing(build(wgmma.assemble(_config(), problem, H200).source))


def _config() -> WgmmaConfig:
    config: WgmmaConfig = KERNELS["wgmma"].configs(_product(None, ()).problem, H200)[0]
    return config


def _elements() -> int:
    """Of out that a thread finishes in one tile."""
    config = _config()
    return config.tile_m * config.tile_n // (WARPGROUP * config.sharers)


if __name__ == "__main__":
    main()
