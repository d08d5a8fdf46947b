"""A product cut by a kernel's Config, which several topics ask about: options, and what follows from them."""

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tilewright.cli.model.common import Chip
from tilewright.cli.options import DTypeName, OwnLayoutOption
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
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

    constants: what the kernel compiles in. solved: the problem as the kernel solves it, which may be the transposed
    one. levels: the traffic of each level of memory.
    """

    chip: "Known"
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
        return f"{extents} in {self.problem.a.dtype.name} by {self.kernel.name}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        problem = self.problem
        return {
            "chip": self.chip.name, "kernel": self.kernel.name, "config": dataclasses.asdict(self.config),
            "m": problem.m, "n": problem.n, "k": problem.k, "dtype": problem.a.dtype.name,
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
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            help="Fields of its Config, such as tile_m=128,tile_n=192; others as the planner would choose.",
            show_default=False,
        ),
    ] = None
    dtype: Annotated[
        DTypeName | None, typer.Option("--dtype", help="Element type; by default the first that the kernel takes.")
    ] = None
    layout: OwnLayoutOption = None
    chip: Chip = "H200"

    def of(self, m: int, n: int, k: int) -> Cut:
        """The product, cut; raises an ArgumentValueError for extents below 1, and for what the kernel does not take."""
        from tilewright.model.chips import chip_named
        from tilewright.model.tiling.levels import levels
        from tilewright.rounding import natural

        for name, extent in (("m", m), ("n", n), ("k", k)):
            natural(name, extent, least=1)
        chip = chip_named(self.chip, "--chip")
        kernel, problem = self._taken(chip.gpu, (m, n, k))
        config = changed(kernel, kernel.best(problem, chip.gpu), self.config)
        constants = kernel.check(config, problem, chip.gpu)
        blocking, solved = kernel.blocking(constants), kernel.oriented(config, problem)
        found = levels(solved.m, solved.n, k, blocking, problem.a.dtype.nbytes, problem.out.dtype.nbytes)
        return Cut(chip, kernel, config, constants, problem, solved, blocking, found)

    def _taken(self, gpu: "Hardware", shape: tuple[int, int, int]) -> "tuple[Kernel, Problem]":
        """The kernel that is named, or the first of the planner's that takes the product; and the product."""
        from tilewright.checking.product import NotTaken, first_accepted
        from tilewright.kernels.registry import KERNELS, kernel_named

        dtype, layout = self.dtype.value if self.dtype else None, self.layout.value if self.layout else None
        if self.kernel is not None:
            kernel = kernel_named(self.kernel, "--kernel")
            try:
                return kernel, first_accepted(kernel, gpu, [shape], dtype, layout).problem
            except NotTaken as error:
                raise ArgumentValueError(f"{error}: use another one, or leave --kernel out") from None
        units = {unit for unit, _, _ in gpu.rates}
        for kernel in KERNELS.values():
            with suppress(NotTaken):
                if kernel.unit in units:
                    return kernel, first_accepted(kernel, gpu, [shape], dtype, layout).problem
        raise ArgumentValueError(
            f"no kernel of the planner takes this product on {gpu.name}: name a rung of the ladder with --kernel, or "
            "use another --chip, --dtype or --layout"
        )


def changed(kernel: "Kernel", config: Any, text: str | None) -> Any:
    """The Config with the fields of "tile_m=128,tile_n=192"; an ArgumentValueError names field and values."""
    from tilewright.kernels.kernel import fields_of

    fields = fields_of(kernel.config_type)
    values: dict[str, Any] = {}
    for part in text.split(",") if text else ():
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in fields:
            known = ", ".join(fields) or "it has no fields, so leave --config out"
            raise ArgumentValueError(f"--config={part!r} is no field of {type(config).__name__}: use {known}")
        field = fields[name]
        allowed = {str(each).lower(): each for each in field.values}
        if allowed.get(value.lower()) is not None:
            values[name] = allowed[value.lower()]
        elif field.type is int and value.isdecimal() and len(value) < 10:
            values[name] = int(value)
        else:
            allow = "a natural number" if field.type is int else " or ".join(allowed)
            raise ArgumentValueError(f"--config={part!r} is no value of {name}: give {allow}")
    return dataclasses.replace(config, **values)
