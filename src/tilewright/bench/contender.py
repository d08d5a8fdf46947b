"""What a contender is: something that prepares launches of a product, to be verified and timed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from tilewright.bench.inputs import Ending, Inputs, Launch
from tilewright.dtypes import DType, fp32


class Absent(Exception):
    """A contender is not installed or does not take the product; the message says why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A contender that is ready to launch.

    launch: launches the product of a set.
    about: what a record says about the contender.
    release: frees its resources.
    accumulator: the type that it sums in.
    outs: the results of the sets, if the contender does not write into those of the inputs.
    choice: what its tuner chose, for JSON; None if it does not tune. `prepare` takes it to tune no second time.
    multiplies: whether there is a result to be verified.
    ending: what the results are, if they are not the product.
    """

    launch: Launch
    about: dict[str, Any] = field(default_factory=dict)
    release: Callable[[], None] = lambda: None
    accumulator: DType = fp32
    outs: Sequence[Any] | None = None
    choice: Any = None
    multiplies: bool = True
    ending: Ending | None = None


class Contender(ABC):
    """One way to multiply. Tables and records call it `name`.

    tuning_seconds: about how long its tuner takes for a product, for estimates; 0 without a tuner.
    """

    name: str
    tuning_seconds: ClassVar[float] = 0

    @abstractmethod
    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Compile and tune for these inputs; raises Absent if that is not possible here.

        choice: the `choice` of an earlier Prepared for inputs of the same Shape, with the same versions of libraries.
        """


def require_contiguous(inputs: Inputs) -> None:
    """Raise Absent for strided operands, which most libraries neither read nor copy."""
    if "s" in inputs.shape.layout:
        raise Absent(
            "it reads operands that are contiguous along a row or a column, and the layout is "
            f"{inputs.shape.layout}: use cublas, or torch for int8, whose calls copy such operands"
        )


def imported(module: str, package: str, install: str = "") -> Any:
    """A module of a package; Absent says how to install it, or why it cannot be imported.

    install: what pip must be given, if that is not the package's name.
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = getattr(error, "name", None) or ""
        if module.startswith(missing.partition(".")[0] or "?"):
            raise Absent(f"{package} is not installed: pip install {install or package}") from None
        raise Absent(f"{package} cannot be imported: {error}") from None
