"""The page of what each kernel takes: element types, layouts and GPUs, as the kernels themselves answer."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

from tilewright import dtypes
from tilewright.checking.product import Product, whole_tiles
from tilewright.hardware import GPUS, Hardware, standing_for
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder import LADDER
from tilewright.kernels.registry import KERNELS
from website.documents import ROOT

ARCHITECTURES = ("sm_70", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
"""Of the tables' rows: one of each generation that NVRTC compiles for, or did."""
LAYOUTS = ("nt", "nn", "tn", "tt")


def page() -> str:
    """The text of the page."""
    record = json.loads((ROOT / "results/gpu_verification.json").read_text(encoding="utf-8"))
    return "\n".join([*_lines(record), ""])


def _lines(record: dict[str, Any]) -> Iterator[str]:
    yield from (
        "# What each kernel takes",
        "",
        "The kernels' own rules fill these tables: each was asked about products of every element type and layout.",
        f"The last column counts the generated products that were compared with float64 on a GPU, an {record['gpu']} "
        f"({record['date'][:10]}, results/gpu_verification.json).",
        "Without any, the kernel was verified in the emulator only, as all are on every other architecture.",
        f"Known GPUs of these architectures: {'; '.join(_gpus())}.",
        "Of the layout, one letter is for A and one for B; `t` means that it is stored transposed.",
        "",
        "## Production kernels",
        "",
        "The planner chooses among these.",
        "",
        *_table(KERNELS, record),
        "",
        "## Kernels of the ladder",
        "",
        "They run only if you name them with `kernel=`, and take whole tiles.",
        "",
        *_table({name: rung.kernel for name, rung in LADDER.items() if name not in KERNELS}, record),
    )


def _gpus() -> Iterator[str]:
    for arch in ARCHITECTURES:
        if names := [name for name, gpu in GPUS.items() if gpu.arch == arch]:
            yield f"{arch} {', '.join(names)}"


def _table(kernels: Any, record: dict[str, Any]) -> Iterator[str]:
    yield "| kernel | architectures | a and b | layouts | verified on a GPU |"
    yield "|---|---|---|---|---|"
    for kernel in kernels.values():
        for (types, layouts), architectures in _answers(kernel).items():
            verified = record["cases"].get(kernel.name, 0) if GPUS[record["gpu"]].arch in architectures else 0
            cells = f"`{kernel.name}`", ", ".join(architectures), types, layouts, str(verified or "emulator only")
            yield f"| {' | '.join(cells)} |"


def _answers(kernel: Kernel) -> dict[tuple[str, str], list[str]]:
    """The element types and layouts that a kernel takes, with the architectures on which it takes just these."""
    found: dict[tuple[str, str], list[str]] = {}
    for arch in ARCHITECTURES:
        taken = list(_taken(kernel, standing_for(arch)))
        if taken:
            types = dict.fromkeys(str(dtype) for dtype, _ in taken)
            layouts = dict.fromkeys(layout for _, layout in taken)
            found.setdefault((", ".join(types), " ".join(layouts)), []).append(arch)
    return found


def _taken(kernel: Kernel, hardware: Hardware) -> Iterator[tuple[dtypes.DType, str]]:
    shape, *_ = whole_tiles(kernel) or [(16, 128, 64 if kernel.name != "copy" else 0)]
    for dtype, layout in product(dtypes.SUPPORTED, LAYOUTS):
        products = (Product(*shape, dtype, out_dtype, layout) for out_dtype in dtypes.SUPPORTED)
        if any(kernel.refuses(each.problem, hardware) is None for each in products):
            yield dtype, layout
