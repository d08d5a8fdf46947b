"""What a kernel family is: a CUDA header, its Config, the problems it takes, and how its arguments are packed."""

import ctypes
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeAlias, get_args, get_type_hints

from tilewright.dtypes import DType, fp32
from tilewright.errors import ArgumentValueError
from tilewright.hardware import Hardware
from tilewright.jit.source import CudaType, TranslationUnit, translation_unit
from tilewright.kernels.parameters import GemmParameters, KernelArguments, LaunchShape, TensorMapSpec
from tilewright.model.speed_of_light import Unit
from tilewright.problem import ACTIVATIONS, Problem

Constants: TypeAlias = dict[str, "bool | int | CudaType"]
"""What is compiled in, by name: the Config's fields, what it takes from the Problem, and values derived from both."""


_SAME_PARAMETERS = (
    "sizeof(GemmParameters) == parameter_bytes",
    "parameters.py and parameters.cuh must agree",
)


MAX_TILES = 2**31 - 1
"""The largest grid (CUDA programming guide, "Technical specifications"); kernels number tiles by 32 bits."""


class ConfigError(ArgumentValueError):
    """A Config that breaks a rule of its kernel, or does not fit the problem or the GPU."""


class AvoidableRefusal(str):
    """A refusal that another layout of the operands would avoid; the planner says it once."""


class Kernel(ABC):
    """One family of kernels.

    `execution_unit` is what it multiplies with, as the model knows it. `rules` are conditions on the constants, each
    with the reason; they are written so that Python and CUDA C++ read them alike (`and`, `or`, `not`, `%`, `*`,
    comparisons), are checked in `check` and become the `static_assert`s of the translation unit.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    execution_unit: ClassVar[Unit]
    config_type: ClassVar[type]
    header: ClassVar[str]
    rules: ClassVar[tuple[tuple[str, str], ...]]

    @abstractmethod
    def rejects(self, problem: Problem, hardware: Hardware) -> str | None:
        """Why this kernel does not take the problem on this GPU; None where it does."""

    @abstractmethod
    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[Any]:
        """The Configs worth considering for a problem that is not rejected, the usual choice first."""

    @abstractmethod
    def constants(self, config: Any, problem: Problem) -> Constants:
        """Everything the translation unit's `struct Config` holds."""

    @abstractmethod
    def tile_count(self, config: Any, problem: Problem) -> int:
        """Tiles of out, batches included, and what pads them to whole clusters."""

    @abstractmethod
    def launch_shape(self, config: Any, problem: Problem, hardware: Hardware) -> LaunchShape:
        """How many CTAs run, and with how many threads and how much shared memory."""

    def accumulator(self, config: Any) -> DType:
        """What products are added in, which decides how far a right result may be from the exact one."""
        return fp32

    def tensor_maps(self, config: Any, problem: Problem) -> tuple[TensorMapSpec, ...]:
        """The tensor maps the kernel takes before its parameters; none unless it uses TMA."""
        return ()

    def preamble(self, constants: Constants) -> str:
        """CUDA generated for one Config, placed before the kernel's header; usually empty."""
        return ""

    def arguments(self, config: Any, problem: Problem) -> KernelArguments:
        """How a launch packs its arguments."""
        return KernelArguments(self.tensor_maps(config, problem), problem)

    def check(self, config: Any, problem: Problem, hardware: Hardware) -> Constants:
        """The constants of a Config that obeys every rule; otherwise a ConfigError naming field, rule and remedy."""
        if not isinstance(config, self.config_type):
            remedy = f"pass tilewright.{self.config_type.__name__}(...) or another kernel="
            if not fields_of(self.config_type):
                remedy = "it leaves nothing to choose, so leave config out, or pass another kernel="
            raise ConfigError(f"config={config!r} is not what kernel {self.name!r} takes: {remedy}")
        for name, field in fields_of(self.config_type).items():
            value = getattr(config, name)
            if type(value) is not field.type:  # True is no int here
                raise ConfigError(
                    f"config={config!r} of kernel {self.name!r} has {name}={value!r} of type {type(value).__name__}, "
                    f"and {name} is of type {field.type.__name__}: convert it"
                )
        constants = self.constants(config, problem)
        for rule, reason in self.rules:
            if not eval(rule, {"__builtins__": {}}, constants):  # our own text, never the user's
                values = ", ".join(f"{name}={constants[name]}" for name in _names(rule, constants))
                raise ConfigError(
                    f"config={config!r} of kernel {self.name!r} breaks the rule `{rule}` ({values}): {reason}"
                )
        if int(constants["smem_bytes"]) > hardware.smem_bytes:  # type: ignore[arg-type]
            raise ConfigError(
                f"config={config!r} needs {constants['smem_bytes']} bytes of shared memory and {hardware.name} has "
                f"{hardware.smem_bytes} per block: take fewer stages or a smaller tile"
            )
        cluster = int(constants.get("cluster_m", 1)) * int(constants.get("cluster_n", 1))  # type: ignore[arg-type]
        if cluster > hardware.sm_count:
            raise ConfigError(
                f"config={config!r} launches clusters of {cluster} CTAs, each on an SM of its own, and {hardware.name} "
                f"has {hardware.sm_count}: take smaller clusters"
            )
        tiles = self.tile_count(config, problem)
        if tiles > MAX_TILES:
            raise ConfigError(
                f"config={config!r} cuts {problem} into {tiles} tiles and at most {MAX_TILES} are counted: take larger "
                f"tiles, or split the batch"
            )
        return constants

    def unit(self, config: Any, problem: Problem, hardware: Hardware) -> TranslationUnit:
        """The translation unit of a checked Config."""
        constants = self.check(config, problem, hardware)
        maps = [("TensorMap", f"map_{spec.operand}") for spec in self.tensor_maps(config, problem)]
        return translation_unit(
            entry=self.entry(config, problem),
            kernel_header=self.header,
            kernel_template=f"{self.name}_kernel",
            constants={**constants, "parameter_bytes": ctypes.sizeof(GemmParameters)},
            static_asserts=[*self.rules, _SAME_PARAMETERS],
            parameters=[*maps, ("GemmParameters", "parameters")],
            launch_bounds=(int(constants["threads"]), 1),  # type: ignore[arg-type]
            preamble=self.preamble(constants),
        )

    def entry(self, config: Any, problem: Problem) -> str:
        """The entry point's name, which profilers show."""
        fields = (getattr(config, f.name) for f in dataclasses.fields(config))
        values = (str(int(value)) if isinstance(value, int) else str(value) for value in fields)
        return "_".join([self.name, problem.a.dtype.name, problem.layout, *values])


def epilogue_constants(problem: Problem) -> Constants:
    """The constants that cuda/kernels/epilogue.cuh reads."""
    out = problem.out
    pair_bytes = 2 * out.dtype.nbytes
    return {
        "Output": CudaType(out.dtype.cuda),
        "Addend": CudaType((problem.c or out).dtype.cuda),
        "Bias": CudaType((problem.bias or out).dtype.cuda),
        "has_c": problem.c is not None,
        "has_bias": problem.bias is not None,
        "activation": 1 + ACTIVATIONS.index(problem.activation) if problem.activation else 0,
        "store_elements": 2 if out.vector_bytes("column") >= pair_bytes else 1,
    }


@dataclass(frozen=True, slots=True)
class Field:
    """What a field of a Config may be: of a type, and one of `values` where they are listed."""

    type: type
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return " or ".join(map(repr, self.values)) or f"of type {self.type.__name__}"


@cache
def fields_of(config_type: type) -> dict[str, Field]:
    """The fields of a Config by name."""
    return {name: _field(hint) for name, hint in get_type_hints(config_type).items()}


def _field(hint: Any) -> Field:
    values = (False, True) if hint is bool else get_args(hint)
    return Field(type(values[0]) if values else hint, values)


def _names(rule: str, constants: Mapping[str, object]) -> list[str]:
    words = "".join(ch if ch.isalnum() or ch == "_" else " " for ch in rule).split()
    return list(dict.fromkeys(word for word in words if word in constants))
