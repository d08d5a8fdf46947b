"""The page of what each kernel takes: element types, layouts and GPUs, as the kernels themselves answer."""

import json
from collections.abc import Iterator, Mapping, Sequence
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
_FIRST = ("bf16", "fp16", "fp32")
"""The element types of records that name none: those that there were."""
LAYOUTS = ("nt", "nn", "tn", "tt")


def page() -> str:
    """The text of the page."""
    record = json.loads((ROOT / "results/gpu_verification.json").read_text(encoding="utf-8"))
    return "\n".join([*lines(record), ""])


def lines(record: dict[str, Any]) -> Iterator[str]:
    """The lines of the page, with the counts of a record of a GPU run."""
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


def _table(kernels: Mapping[str, Kernel], record: dict[str, Any]) -> Iterator[str]:
    yield "| kernel | architectures | a and b | layouts | verified on a GPU |"
    yield "|---|---|---|---|---|"
    for kernel in kernels.values():
        rows: dict[tuple[str, ...], list[str]] = {}
        for dtype, architectures, layouts in _answers(kernel):
            cases = record["cases"].get(kernel.name, 0)
            if GPUS[record["gpu"]].arch not in architectures or dtype not in _verified(kernel, record):
                cases = 0
            key = (", ".join(architectures), " ".join(layouts), str(cases or "emulator only"))
            rows.setdefault(key, []).append(dtype)
        for (where, layouts_text, verified), names in rows.items():
            yield f"| `{kernel.name}` | {where} | {', '.join(names)} | {layouts_text} | {verified} |"


def _verified(kernel: Kernel, record: dict[str, Any]) -> Sequence[str]:
    return record["dtypes"].get(kernel.name, ()) if "dtypes" in record else _FIRST


def _answers(kernel: Kernel) -> Iterator[tuple[str, list[str], list[str]]]:
    """The element types that a kernel takes, each with its architectures and layouts."""
    for dtype in dtypes.SUPPORTED:
        taken = {arch: list(_taken(kernel, dtype, standing_for(arch))) for arch in ARCHITECTURES}
        for layouts in dict.fromkeys(tuple(found) for found in taken.values() if found):
            yield dtype.name, [arch for arch, found in taken.items() if tuple(found) == layouts], list(layouts)


def _taken(kernel: Kernel, dtype: dtypes.DType, hardware: Hardware) -> Iterator[str]:
    shape, *_ = whole_tiles(kernel) or [(16, 128, 64 if kernel.name != "copy" else 0)]
    for layout in LAYOUTS:
        products = (Product(*shape, dtype, out_dtype, layout) for out_dtype in dtypes.SUPPORTED)
        if any(kernel.refuses(each.problem, hardware) is None for each in products):
            yield layout
