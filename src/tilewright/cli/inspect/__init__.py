"""`tilewright inspect`: the compiled form of a kernel."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command, refuse
from tilewright.cli.options import Json, hardware_of, parse_shape, shape_of
from tilewright.cli.output import print_json
from tilewright.cli.targets import OF_A_FILE, FileOptions, ProductOptions
from tilewright.errors import ArgumentValueError
from tilewright.hardware import HOPPER
from tilewright.rounding import natural

if TYPE_CHECKING:
    from tilewright.checking.product import Product
    from tilewright.explaining.inspection import Inspection
    from tilewright.hardware import Hardware
    from tilewright.kernels.kernel import Kernel
    from tilewright.problem import Problem

DEFAULT_SHAPE = (4096, 4096, 4096)
"""The product where none is given; that of `copy` has no sum."""


@dataclass(frozen=True, slots=True)
class InspectedProduct(ProductOptions):
    """The product for which a kernel of tilewright is compiled."""

    problem: Annotated[
        str | None,
        typer.Option(
            "--problem",
            help="M,N,K of the product that chooses the Config, as M N K do.",
            show_default="4096,4096,4096; 4096,4096,0 for copy",
        ),
    ] = None

    def wanted(self, target: str) -> tuple[int, int, int] | None:
        """The shape, of which `target` is the first word if it is no kernel; None if none is given."""
        words = [*([target] if _is_shape(target) else []), *(self.shape or ())]
        if self.problem is None:
            return shape_of(words)
        if words:
            raise ArgumentValueError(f"--problem={self.problem} and M N K are two shapes: leave one out")
        return parse_shape(self.problem, "--problem")

    def made(self, target: str, hardware: "Hardware") -> "tuple[Kernel, Any, Product, Problem]":
        """The kernel of that name, or the planner's for M N K; its Config, its product, and what it solves of it."""
        from tilewright.checking.product import NotTaken, Product, first_accepted, suited
        from tilewright.cli.configs import changed
        from tilewright.hardware import standing_for
        from tilewright.kernels.registry import kernel_named
        from tilewright.planner.choose import choose

        shape, choices = self.wanted(target), self.choices()
        if shape is not None and 0 in shape[:2]:
            sizes = " ".join(map(str, shape))
            raise ArgumentValueError(
                f"M N K={sizes} leaves no elements of out, so nothing runs: give an M and an N of 1 or more"
            )
        if _is_shape(target) and shape is not None:
            elements, layout = choices.pop("elements") or self.elements(), choices.pop("layout") or "nt"
            product = Product.of(shape, elements, layout, **choices)
            chosen = choose(product.as_called, hardware)
            solved = chosen.copied.problem
            config = changed(chosen.kernel, solved, hardware, self.config, chosen.config)
            return chosen.kernel, config, product, solved
        kernel = kernel_named(target, "KERNEL", "a file (FILE.cu, ./FILE), M N K")
        shape = suited(DEFAULT_SHAPE, kernel) if shape is None else shape
        try:
            product = first_accepted(kernel, hardware, [shape], **choices)
        except NotTaken as refusal:
            with suppress(NotTaken):
                first_accepted(kernel, standing_for(HOPPER), [shape], **choices)
                raise ArgumentValueError(f"{refusal}; use --arch {HOPPER}, or a --gpu of it") from None
            raise
        problem = product.as_called
        first = kernel.configs(problem, hardware)[0]
        return kernel, changed(kernel, problem, hardware, self.config, first), product, problem


def _is_shape(target: str) -> bool:
    """Whether it is a shape, or the first number of one: no kernel's name begins with a digit."""
    return target[:1].isdecimal()


@dataclass(frozen=True, slots=True)
class InspectedFile(FileOptions):
    """How a kernel of a file is compiled, and how many threads a CTA of it has."""

    block: Annotated[
        int | None,
        typer.Option(
            "--block",
            help="Threads of a CTA, for the occupancy; by default those of __launch_bounds__.",
            min=1,
            rich_help_panel=OF_A_FILE,
        ),
    ] = None

    def inspected(self, target: str, arch: str) -> "tuple[Inspection, str]":
        """A kernel of a file, and its name in C++."""
        from tilewright.checking.doors.cuda import SUFFIXES, compiled
        from tilewright.checking.wording import COMMAND_LINE
        from tilewright.explaining.inspection import Inspection, sources_on_disk, threads_of
        from tilewright.hardware import LIMITS, standing_for
        from tilewright.jit.user_source import UserSource, is_expression
        from tilewright.model.occupancy import MOST_THREADS

        if self.block is not None:
            natural("--block", self.block, 1, MOST_THREADS)
        if not target.endswith(SUFFIXES):
            raise ArgumentValueError(f"{target} is not CUDA C++: name a file that ends with {', '.join(SUFFIXES)}")
        user = self.source(Path(target))
        user = UserSource(user.name, user.text, user.folders, user.definitions, architecture=arch)
        _, entry, title = compiled(user, self.entry, COMMAND_LINE)
        kernel = user.compiled(self.entry if self.entry and is_expression(self.entry) else "")._replace(name=entry)
        threads = self.block or threads_of(kernel)
        if (gpu := standing_for(arch)).capability in LIMITS:
            most = gpu.limits.smem_bytes - gpu.limits.reserved_smem_bytes - kernel.static_smem_bytes
            natural("--shared-bytes", self.shared_bytes, 0, most)
        return Inspection.of(kernel, sources_on_disk(kernel), threads, self.shared_bytes), title


@command
def inspect(
    kernel: Annotated[
        str,
        typer.Argument(
            help="The name of a kernel (wgmma, mma, simt, gemv, copy) or of a rung of the ladder (wgmma_basic...), a "
            "file of CUDA C++, or M N K alone for the kernel that the planner chooses.",
            show_default=False,
        ),
    ],
    product: InspectedProduct,
    file: InspectedFile,
    arch: Annotated[
        str | None,
        typer.Option(
            "--arch",
            help="The architecture: sm_90a; for gemv also sm_90, sm_100, sm_120 and all later ones that NVRTC knows; "
            "for mma, simt and copy also sm_80 to sm_89. No such GPU is needed.",
            show_default=HOPPER,
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu", help="The GPU, such as A100 or H20, in place of --arch; it need not be here.", show_default=False
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Print PTX and machine code side by side, by lines of the source.")
    ] = False,
    ptx: Annotated[bool, typer.Option("--ptx", help="Print the PTX.")] = False,
    sass: Annotated[bool, typer.Option("--sass", help="Print the machine code (needs nvdisasm).")] = False,
    source: Annotated[bool, typer.Option("--source", help="Print the source that NVRTC compiles.")] = False,
    as_json: Json = False,
) -> None:
    """Compile a kernel and show what became of it: registers, spills, occupancy, loops, accesses and remarks.

    A remark says where the code is not what the source means: a loop that is not unrolled, narrow loads, spills,
    local memory, serialized wgmma, fp64 by accident, divisions in the innermost loop. Loops of the machine code
    need nvdisasm: pip install "tilewright\\[inspect]".

    Several of --lines, --source, --ptx and --sass are printed one after the other.

    \b
    Examples:
      tilewright inspect wgmma
      tilewright inspect 4096 4096 4096 --dtype fp16
      tilewright inspect coalesced --lines
      tilewright inspect sum.cu -D TILE=64 --ptx
      tilewright inspect wgmma 64 4096 4096 --config split_k=4,cluster_m=2
      tilewright inspect mma --problem 300,200,100 --dtype fp16 --sass
      tilewright inspect simt --arch sm_80 --ptx
      tilewright inspect 16 28672 8192 --gpu H20
      tilewright inspect wgmma --dtype fp8_e4m3 --recipe 1x128_128x128 --lines
      tilewright inspect wgmma --epilogue "gelu(acc + bias)" --operand bias=n --source
      tilewright inspect wgmma_basic --json
    """
    from tilewright.cli.inspect.show import show, show_lines
    from tilewright.jit.listing import ptx_listing, sass_listing

    hardware = _hardware(arch, gpu)
    if set("./") & set(kernel):
        refuse(product, "a product, and a kernel of a file has none", "leave such options out")
        found, title = file.inspected(kernel, hardware.arch)
        text = Path(kernel).read_text(encoding="utf-8")
        about: dict[str, Any] = {"kernel": title, "entry": found.compiled.name, "file": kernel}
    else:
        refuse(file, f"a kernel of a file, and {kernel!r} is none", "name FILE.cu")
        found, text, about = _of_ours(product, kernel, hardware)
    listings = {}
    if source:
        listings["source"] = text
    if ptx:
        listings["ptx"] = ptx_listing(found.compiled)
    if sass:
        listings["sass"] = sass_listing(found.compiled)
    if as_json:
        beside = {"lines": [line.as_dict() for line in found.lines]} if lines else {}
        print_json({**found.as_dict(), **about, **beside, **listings})
        return
    if lines:
        show_lines(found)
    for name, listing in listings.items():
        if len(listings) > 1:
            typer.echo(f"// {name}")
        typer.echo(listing)
    if not (lines or listings):
        show(found, about)


def _hardware(arch: str | None, gpu: str | None) -> "Hardware":
    """The GPU that is named, or one of the architecture."""
    if gpu is None:
        return hardware_of(arch or HOPPER)
    if arch is not None:
        raise ArgumentValueError(f"--gpu={gpu} and --arch={arch} both say what to compile for: leave one out")
    from tilewright.dtypes import fp32
    from tilewright.explaining.explained import gpu_of, require_kernel

    found, _ = gpu_of(gpu, dtype=fp32)
    require_kernel(found, fp32)  # kernels themselves refuse other types
    return found


def _of_ours(options: InspectedProduct, target: str, hardware: "Hardware") -> "tuple[Inspection, str, dict[str, Any]]":
    """A kernel of tilewright, its translation unit, and what it was compiled for."""
    from tilewright.explaining.inspection import Inspection, sources_of
    from tilewright.jit.cache import build

    kernel, config, product, problem = options.made(target, hardware)
    unit, launch, *_ = kernel.assemble(config, problem, hardware)
    compiled = build(unit, hardware.arch)
    about = {
        "kernel": kernel.name,
        "entry": compiled.name,
        "config": asdict(config),
        "gpu": hardware.name,
        "m": product.m,
        "n": product.n,
        "k": product.k,
        "dtype": product.dtype.name,
        "product": str(product),
        "layout": product.layout,
        "grid": launch.grid,
        "cluster": launch.cluster,
        "spare_smem_bytes": launch.spare_bytes,
    }
    smem_bytes = launch.smem_bytes + launch.spare_bytes
    return Inspection.of(compiled, sources_of(unit), launch.block, smem_bytes), unit.text, about
