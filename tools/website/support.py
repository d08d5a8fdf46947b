"""The page of what each kernel takes: element types, scales, layouts and GPUs, as the kernels themselves answer."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.checking.support import ARCHITECTURES, support
from tilewright.hardware import GPUS
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder import LADDER
from tilewright.kernels.registry import KERNELS
from website.documents import ROOT


def page() -> str:
    """The text of the page."""
    record = json.loads((ROOT / "results/gpu_verification.json").read_text(encoding="utf-8"))
    return "\n".join([*lines(record), ""])


def lines(record: dict[str, Any]) -> Iterator[str]:
    """The lines of the page, with the counts of a record of a GPU run."""
    yield from (
        "# What each kernel takes",
        "",
        "The kernels' own rules fill these tables: each was asked about products of all element types, scales and "
        "layouts.",
        "`tilewright kernels` prints them, and takes the types and the GPU that you care about.",
        f"The last column counts the generated products that were compared with float64 on a GPU, an {record['gpu']} "
        f"({record['date'][:10]}, results/gpu_verification.json).",
        "Without any, the kernel was verified in the emulator only, as all are on every other architecture.",
        f"Known GPUs of these architectures: {'; '.join(_gpus())}.",
        "Of the layout, one letter is for A and one for B; `t` means that it is stored transposed.",
        "What the production kernels do not take as it is, they may take with a copy, of which `plan.reason` tells.",
        "Scales are those of a recipe ([low precision](low-precision.md)); `fast` behind it means that "
        "`fast_accumulation=True` is needed, and `zero_a` that rows of A may have zero points.",
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
    yield "| kernel | architectures | a and b | scales | layouts | verified on a GPU |"
    yield "|---|---|---|---|---|---|"
    for kernel in kernels.values():
        for row in support(kernel, record):
            cells = (
                f"`{row.kernel}`", ", ".join(row.architectures), row.types_text, ", ".join(row.scales),
                " ".join(row.layouts), str(row.cases or "emulator only"),
            )  # fmt: skip
            yield f"| {' | '.join(cells)} |"
