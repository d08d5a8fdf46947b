"""A product cut by a kernel's Config, which several topics ask about: options, and what follows from them."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tilewright.cli.configs import ConfigOption, changed
from tilewright.cli.model.common import Chip
from tilewright.cli.options import FactorName, OwnLayoutOption
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.dtypes import DType
    from tilewright.hardware import Hardware
    from tilewright.kernels.kernel import Kernel
    from tilewright.model.chips import Chip as Known
    from tilewright.model.tiling.levels import Blocking, Level
    from tilewright.problem import Problem

M = Annotated[int, typer.Argument(help="Rows of A and of the result.", show_default=False)]
N = Annotated[int, typer.Argument(help="Columns of B and of the result.", show_default=False)]
K = Annotated[int, typer.Argument(help="Columns of A, rows of B.", show_default=False)]


class Cut(NamedTuple):
    """A product cut by a kernel.

    wanted: the type that was asked for, which is another than the product's where no kernel takes it. constants: what
    the kernel compiles in. solved: the problem as the kernel solves it, which may be the transposed
    one. levels: the traffic of each level of memory.
    """

    chip: "Known"
    wanted: "DType"
    kernel: "Kernel"
    config: Any
    constants: Any
    problem: "Problem"
    solved: "Problem"
    blocking: "Blocking"
    levels: "list[Level]"

    @property
    def title(self) -> str:
        """The product and the kernel in words."""
        extents = f"{self.problem.m} x {self.problem.n} x {self.problem.k}"
        a, out = self.problem.a.dtype, self.problem.out.dtype
        kinds = a.name if a is out else f"{a.name} to {out.name}"
        return f"{extents} in {kinds} by {self.kernel.name}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        problem = self.problem
        return {
            "chip": self.chip.name, "kernel": self.kernel.name, "config": dataclasses.asdict(self.config),
            "m": problem.m, "n": problem.n, "k": problem.k,
            "dtype": problem.a.dtype.name, "out_dtype": problem.out.dtype.name,
            "swapped": self.solved is not problem, "levels": [level.as_dict() for level in self.levels],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class CutOptions:
    """The kernel, its Config and the GPU."""

    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel", help="A kernel, or a rung of the ladder.", show_default="the planner's first on the GPU"
        ),
    ] = None
    config: ConfigOption = None
    dtype: Annotated[
        FactorName | None,
        typer.Option(
            "--dtype",
            help="Element type of A and B; the result has the usual one of such products. By default the first "
            "that the kernel takes of bf16, fp16, fp32.",
        ),
    ] = None
    layout: OwnLayoutOption = None
    chip: Chip = "H200"

    def of(self, m: int, n: int, k: int) -> Cut:
        """The product, cut; raises an ArgumentValueError for extents below 1, and for what the kernel does not take."""
        from tilewright.dtypes import parse
        from tilewright.model.chips import chip_of
        from tilewright.model.tiling.levels import levels
        from tilewright.rounding import MOST_COUNTED, natural

        for name, extent in (("m", m), ("n", n), ("k", k)):
            natural(name, extent, 1, MOST_COUNTED)
        chip = chip_of(self.chip)
        gpu = self._compiled_for(chip.gpu)
        kernel, problem = self._taken(gpu, (m, n, k))
        config = changed(kernel, problem, gpu, self.config)
        constants = kernel.check(config, problem, gpu)
        blocking, solved = kernel.blocking(constants), kernel.oriented(config, problem)
        found = levels(solved.m, solved.n, k, blocking, problem.a.dtype.nbytes, problem.out.dtype.nbytes)
        wanted = parse(self.dtype or ("bf16" if self.kernel is None else problem.a.dtype), "--dtype")
        return Cut(chip, wanted, kernel, config, constants, problem, solved, blocking, found)

    def _compiled_for(self, gpu: "Hardware") -> "Hardware":
        """The GPU with an architecture that kernels have: an older one gets the oldest, for a rung that shows it.

        Raises an ArgumentValueError for an older one and another kernel.
        """
        from tilewright.hardware import LEAST_CAPABILITY

        if gpu.capability >= LEAST_CAPABILITY:
            return gpu
        from tilewright.kernels.ladder.kernel import LadderKernel
        from tilewright.kernels.registry import EVERY_KERNEL

        shown = [
            name for name, each in EVERY_KERNEL.items() if isinstance(each, LadderKernel) and each.shows == gpu.arch
        ]
        if self.kernel not in shown:
            remedy = "".join(f", or --kernel {name}, which shows its tensor cores" for name in shown)
            raise ArgumentValueError(
                f"--chip={gpu.name} is {gpu.arch}, and tilewright's kernels need sm_{LEAST_CAPABILITY}: use A100 or a "
                f"later GPU{remedy}"
            )
        return gpu._replace(arch=f"sm_{LEAST_CAPABILITY}")

    def _taken(self, gpu: "Hardware", shape: tuple[int, int, int]) -> "tuple[Kernel, Problem]":
        """The kernel that is named, or the first of the planner's that takes the product; and the product."""
        from tilewright.checking.product import NotTaken, first_accepted
        from tilewright.dtypes import parse
        from tilewright.kernels.registry import EVERY_KERNEL, KERNELS, kernel_named
        from tilewright.measure.elements import Elements
        from tilewright.model.chips import chip_of

        dtype, layout = self.dtype.value if self.dtype else None, self.layout.value if self.layout else None
        elements = None if dtype is None else Elements.of(parse(dtype, "--dtype"))
        refusals: dict[str, str] = {}

        def problem_of(kernel: "Kernel") -> "Problem | None":
            try:
                found = first_accepted(kernel, gpu, [shape], elements, layout).problem
            except NotTaken as error:
                refusals[kernel.name] = error.refusal
                return None
            kind = found.a.dtype
            of_kind = kernel.unit_of(kind)
            if any((unit, each) == (of_kind, kind) for unit, each, _ in gpu.rates):
                return found
            refusals[kernel.name] = f"{kernel.name} multiplies {kind} by {of_kind}, whose rate there is unknown"
            return None

        named = () if self.kernel is None else (kernel_named(self.kernel, "--kernel"),)
        for kernel in named or KERNELS.values():
            if (problem := problem_of(kernel)) is not None:
                if not named:
                    _note(gpu, dtype or "bf16", kernel, problem, refusals)
                return kernel, problem
        reason = "; ".join(refusals.values())
        runs = chip_of(self.chip).gpu.arch == gpu.arch  # an older one runs none, and its rung is not to be replaced
        others = [name for name, kernel in EVERY_KERNEL.items() if runs and problem_of(kernel) is not None]
        who = f"--kernel={self.kernel} does not take" if named else "no kernel of the planner takes"
        remedy = f"--kernel {', '.join(others)}" if others else "another --chip, --dtype or --layout"
        raise ArgumentValueError(f"{who} this product on {gpu.name}: {reason}; use {remedy}")


def _note(gpu: "Hardware", wanted: str, kernel: "Kernel", problem: "Problem", refusals: dict[str, str]) -> None:
    """Say on stderr what is taken and why, if it is not a kernel for the unit that multiplies the wanted type best."""
    from tilewright.dtypes import parse
    from tilewright.kernels.registry import KERNELS

    best = gpu.peak_unit(parse(wanted, "--dtype"))
    if kernel.unit_of(problem.a.dtype) == best:
        return
    reasons = [reason for name, reason in refusals.items() if KERNELS[name].unit_of(problem.a.dtype) == best]
    reason = "; ".join(reasons) or "no kernel here uses it"
    what = f"{kernel.name} is taken, in {problem.a.dtype}"
    typer.echo(f"tilewright: {gpu.name} multiplies {wanted} best by {best}, but {reason}: {what}", err=True)
