"""The parts of a kernel: a CUDA header, its Config, the problems it takes, and the assembly of its launches."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from math import inf
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tilewright.dtypes import DType, fp32
from tilewright.errors import ArgumentValueError
from tilewright.hardware import Hardware, Unit
from tilewright.jit.source import Constant, CudaType, TranslationUnit, code_digest, translation_unit
from tilewright.kernels.config_fields import brief, fields_of
from tilewright.kernels.epilogue import EpilogueConstants
from tilewright.kernels.parameters import SAME_PARAMETERS, Arguments, KernelArguments, LaunchShape, TensorMapSpec
from tilewright.kernels.refusal import Refusal
from tilewright.model.prediction import Breakdown, Power, Prediction
from tilewright.problem import Problem

if TYPE_CHECKING:  # planning does without it
    from tilewright.model.tiling.levels import Block, Blocking

MAX_TILES = 2**31 - 1
"""The largest grid (CUDA programming guide, "Technical specifications"); kernels number tiles by 32 bits."""


class ConfigError(ArgumentValueError):
    """A Config that breaks a rule of its kernel, or does not fit the problem or the GPU; `fault` says what."""

    fault = ""

    @classmethod
    def of(cls, config: object, fault: str) -> "ConfigError":
        """The error that says what is wrong with a Config and what to do, and then which Config it is."""
        error = cls(f"config: {fault}; the Config is {brief(config)}")
        error.fault = fault
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The constants of a kernel: a Config's fields, facts of the Problem, and the sizes that follow.

    Each field becomes a constant of the translation unit's `struct Config`, an element type a `using`. A CTA of
    `threads` threads with `smem_bytes` of dynamic shared memory makes a (`tile_m`, `tile_n`) tile of out, `tile_k` of k
    at a time; a cluster makes `cluster_m` x `cluster_n` tiles, `split_k` of its CTAs each, and these each sum a part of
    k. `epilogue` is None where no sums are made.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    threads: int
    smem_bytes: int
    cluster_m: int = 1
    cluster_n: int = 1
    split_k: int = 1
    epilogue: EpilogueConstants | None

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.cluster_m * self.cluster_n * self.split_k

    def by_name(self) -> dict[str, Constant]:
        """The fields by name as CUDA knows them, including those of the epilogue."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "epilogue"}
        values = own | (self.epilogue.by_name() if self.epilogue else {})
        return {name: CudaType(value.cuda) if isinstance(value, DType) else value for name, value in values.items()}


class Launch(NamedTuple):
    """One launch of a kernel: the translation unit of its Constants, the number of CTAs, and their arguments.

    exchanged: whether the kernel computes out.T = b.T @ a.T, so that its a is the problem's b.
    """

    source: TranslationUnit
    shape: LaunchShape
    arguments: Arguments
    constants: Constants
    exchanged: bool = False


class Kernel(ABC):
    """A family of CUDA kernels with one header and one Config.

    `unit` is the execution unit that multiplies, most types at least (`unit_of`). `rules` are conditions on the
    Constants, each with the reason. They are written so that Python and CUDA C++ read them alike (`and`, `or`, `not`,
    `%`, `*`, comparisons); `check` tests them, and they become the `static_assert`s of the translation unit.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    unit: ClassVar[Unit]
    config_type: ClassVar[type]
    header: ClassVar[str]
    rules: ClassVar[tuple[tuple[str, str], ...]]
    contends: ClassVar[bool] = False
    """Whether the model compares it with the next kernel that takes the problem, which else is never asked."""

    @property
    def digest(self) -> str:
        """What measurements of this kernel hold for: a digest of its CUDA code, its rules and its Config's fields."""
        parts = (code_digest(self.header), self.rules, tuple(fields_of(self.config_type)))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def unit_of(self, dtype: DType) -> Unit:
        """The execution unit that multiplies elements of a type."""
        return self.unit

    @abstractmethod
    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why this kernel does not take the problem on this GPU; None if it does."""

    @abstractmethod
    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[Any]:
        """The Configs worth considering for a problem that is not refused, the usual choice first."""

    def best(self, problem: Problem, hardware: Hardware) -> Any:
        """The usual choice: the first of `configs`."""
        return self.configs(problem, hardware)[0]

    def best_seconds(self, problem: Problem, hardware: Hardware) -> float:
        """The time of the usual choice by which kernels are ranked; infinite for one that the model does not know."""
        return self.ranked_seconds(self.best(problem, hardware), problem, hardware)

    def candidates(self, problem: Problem, hardware: Hardware, most: int) -> Sequence[Any]:
        """Configs that a tuner should measure, the usual choice first; `configs`, or more of the same."""
        return self.configs(problem, hardware)[:most]

    def variants(self, config: Any, problem: Problem, hardware: Hardware) -> Sequence[Any]:
        """Configs that differ in what the model does not see; a tuner measures them for the best candidates."""
        return ()

    def staged(self, config: Any, problem: Problem, hardware: Hardware) -> Any:
        """The Config with as many stages as `configs` would give its tile; itself if no stages follow from that."""
        return config

    def is_near_best(self, config: Any, problem: Problem, hardware: Hardware) -> bool:
        """Whether the model takes a Config, which was measured with other rows, to be nearly the quickest here."""
        return False

    def corrects(self, problem: Problem, hardware: Hardware) -> bool:
        """Whether launches that were measured correct the times by which its Configs are ranked for a problem."""
        return False

    def predict(self, config: Any, problem: Problem, hardware: Hardware, power: Power = "settled") -> Prediction | None:
        """The time that the model gives a Config; None for kernels that it does not know."""
        return None

    def breakdown(
        self, config: Any, problem: Problem, hardware: Hardware, power: Power = "settled"
    ) -> Breakdown | None:
        """The parts of that time, and its limits; None for kernels that the model does not know."""
        return None

    def ranked_seconds(self, config: Any, problem: Problem, hardware: Hardware) -> float:
        """The time by which a Config is ranked for a problem; infinite for one that the model does not know."""
        predicted = self.predict(config, problem, hardware, "recorded")
        return inf if predicted is None else predicted.seconds

    @abstractmethod
    def features(self, problem: Problem) -> Hashable:
        """The compiled-in features of a problem, all that `derive` sees: equal features give one translation unit.

        Of the number of rows, if there are several, they know at most which powers of two up to 8 divide it.
        """

    @abstractmethod
    def derive(self, config: Any, features: Any) -> Constants:
        """The Constants of a Config for problems with these features."""

    @abstractmethod
    def tile_count(self, constants: Any, problem: Problem) -> int:
        """The number of tiles of out, including batches and the padding to whole clusters."""

    @abstractmethod
    def launch_shape(self, constants: Any, problem: Problem, hardware: Hardware) -> LaunchShape:
        """The number of CTAs, and the threads and shared memory of each."""

    def ctas_of_sm(self, constants: Any) -> int:
        """How many CTAs have room on an SM at once, at least, which limits the registers of a thread."""
        return 1

    def oriented(self, config: Any, problem: Problem) -> Problem:
        """The problem as the kernel solves it with a Config: itself, or its transpose."""
        return problem

    def remark(self, config: Any) -> str:
        """What a user should know of a Config besides its values, in a few words; usually empty."""
        split_k = getattr(config, "split_k", 1)
        return f"has each tile summed by {split_k} CTAs" if split_k > 1 else ""

    def compiled(self, config: Any) -> Any:
        """The Config that is compiled for this one: it differs in what `launch_options` passes at run time."""
        return config

    def launch_options(self, config: Any) -> Mapping[str, Any]:
        """The fields of a Config that are arguments of a launch, as KernelArguments takes them."""
        return {}

    def accumulator(self, config: Any) -> DType:
        """The type in which products are added; it decides the error bound of a correct result."""
        return fp32

    def tensor_maps(self, constants: Any, problem: Problem) -> tuple[TensorMapSpec, ...]:
        """The tensor maps the kernel takes before its parameters; none unless it uses TMA."""
        return ()

    def preamble(self, constants: Any) -> str:
        """CUDA generated for these Constants, placed before the kernel's header; usually empty."""
        return ""

    def blocking(self, constants: Any) -> "Blocking":
        """The nested blocks of out that read each level of memory."""
        from tilewright.model.tiling.levels import Blocking

        cta = _block(constants.tile_m, constants.tile_n)
        cluster = _block(cta.m * constants.cluster_m, cta.n * constants.cluster_n)
        return Blocking(cta, cluster, self.warp_block(constants), self.thread_block(constants))

    def warp_block(self, constants: Any) -> "Block | None":
        """What of out is made from one reading of SMEM: 64 rows by a wgmma, or the block of a warp."""
        return _block(64, constants.tile_n) if self.unit == "wgmma" else _block_of(constants, "warp")

    def thread_block(self, constants: Any) -> "Block | None":
        """What of out is made from one reading of registers: 16 x 8 by an mma.sync, or the block of a thread."""
        return _block(16, 8) if self.unit == "mma" else _block_of(constants, "thread")

    def entry(self, config: Any, problem: Problem) -> str:
        """The entry point's name, which profilers show."""
        values = (getattr(config, name) for name in fields_of(self.config_type))
        words = (str(int(value)) if isinstance(value, int) else str(value) for value in values)
        return "_".join([self.name, problem.a.dtype.name, problem.layout, *words])

    def constants(self, config: Any, problem: Problem) -> Any:
        """The Constants of a Config for a problem."""
        return self.derive(config, self.features(self.oriented(config, problem)))

    def check(self, config: Any, problem: Problem, hardware: Hardware) -> Any:
        """The Constants of a Config that obeys every rule; otherwise a ConfigError naming field, rule and remedy."""
        self._check_types(config)
        problem = self.oriented(config, problem)
        constants = self.derive(config, self.features(problem))
        self._check_rules(config, constants)
        self._check_limits(config, constants, problem, hardware)
        return constants

    def _check_limits(self, config: Any, constants: Constants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """The shape of the launch, which obeys every limit of the GPU; otherwise a ConfigError."""
        if constants.smem_bytes > hardware.smem_bytes:
            raise ConfigError.of(
                config,
                f"it needs {constants.smem_bytes} bytes of shared memory and {hardware.name} has "
                f"{hardware.smem_bytes} per block: take fewer stages or a smaller tile",
            )
        if constants.cluster > hardware.sm_count:
            raise ConfigError.of(
                config,
                f"it launches clusters of {constants.cluster} CTAs, each on an SM of its own, and {hardware.name} has "
                f"{hardware.sm_count}: take smaller clusters",
            )
        if constants.cluster > 1 and hardware.capability < 90:
            sizes = (name for name in ("cluster_m", "cluster_n", "split_k") if getattr(constants, name) > 1)
            raise ConfigError.of(
                config,
                f"it launches clusters of {constants.cluster} CTAs, which need sm_90, and {hardware.its_arch}: take "
                + ", ".join(f"{name}=1" for name in sizes),
            )
        if constants.split_k > 1 and problem.batch_invariant:
            raise ConfigError.of(
                config,
                "it splits k, and with batch_invariant=True all rows are summed in one order whatever their number: "
                "take split_k=1",
            )
        tiles = self.tile_count(constants, problem)
        if tiles > MAX_TILES:
            raise ConfigError.of(
                config,
                f"it cuts {problem} into {tiles} tiles and at most {MAX_TILES} are counted: take larger tiles, or "
                "split the product",
            )
        return self.launch_shape(constants, problem, hardware)

    def _check_rules(self, config: Any, constants: Constants) -> None:
        values = constants.by_name()
        for rule, reason in self.rules:
            if not eval(_code_of(rule), {"__builtins__": {}}, values):
                named = ", ".join(f"{name}={values[name]}" for name in _names(rule, values))
                raise ConfigError.of(config, f"it breaks the rule `{rule}` of kernel {self.name!r} ({named}): {reason}")

    def _check_types(self, config: Any) -> None:
        if not isinstance(config, self.config_type):
            remedy = f"pass tilewright.{self.config_type.__name__}(...) or another kernel="
            if not fields_of(self.config_type):
                remedy = "it leaves nothing to choose, so leave config out, or pass another kernel="
            raise ConfigError.of(config, f"it is not what kernel {self.name!r} takes: {remedy}")
        for name, field in fields_of(self.config_type).items():
            value = getattr(config, name)
            if type(value) is not field.type:  # True does not count as an int
                raise ConfigError.of(
                    config,
                    f"it has {name}={value!r} of type {type(value).__name__}, and {name} is of type "
                    f"{field.type.__name__}: convert it",
                )

    def assemble(self, config: Any, problem: Problem, hardware: Hardware, like: Launch | None = None) -> Launch:
        """The launch that solves the problem with a Config; raises a ConfigError if the Config breaks a rule.

        Rules are checked when a translation unit is written, which is kept; only `check` checks the types of fields.
        like: a launch with this Config of a problem that has the same features, if there was one.
        """
        asked, problem = problem, self.oriented(config, problem)
        constants, source = (like.constants, like.source) if like else self._written(config, problem)
        shape = self._check_limits(config, constants, problem, hardware)
        maps = self.tensor_maps(constants, problem)
        arguments = KernelArguments(maps, problem, **self.launch_options(config))
        return Launch(source, shape, arguments, constants, exchanged=problem is not asked)

    def resized(self, config: Any, problem: Problem, hardware: Hardware, like: Launch) -> Launch:
        """The launch with a Config for a problem with the features of another one, from which it differs in m alone.

        like: the other's, with this Config. Both have two rows or more; scales of blocks of a may lie apart otherwise.
        Raises a ConfigError as `assemble` does; limits of fewer rows are those of more.
        """
        arguments = like.arguments
        assert isinstance(arguments, KernelArguments)
        before, has_more = arguments.problem, problem.m > arguments.problem.m
        if like.exchanged:
            problem, has_more = before.with_rows(problem.m, exchanged=True), problem.m > before.n
        if has_more:
            shape = self._check_limits(config, like.constants, problem, hardware)
        else:
            shape = self.launch_shape(like.constants, problem, hardware)
        return Launch(like.source, shape, arguments.resized(problem), like.constants, like.exchanged)

    def _written(self, config: Any, problem: Problem) -> tuple[Constants, TranslationUnit]:
        """The Constants of a Config for a problem as it is solved, and their translation unit."""
        key = (self, self.compiled(config), self.features(problem))
        if (written := _WRITTEN.get(key)) is None:
            constants = self.derive(config, key[-1])
            self._check_rules(config, constants)
            mapped = [spec.operand for spec in self.tensor_maps(constants, problem)]
            written = _WRITTEN[key] = constants, self._write(self.entry(key[1], problem), constants, mapped)
        return written

    def _write(self, entry: str, constants: Constants, mapped: Sequence[str]) -> TranslationUnit:
        """The translation unit of Constants that obey every rule; it takes tensor maps of the operands `mapped`."""
        epilogue = constants.epilogue
        parameters = epilogue.parameters if epilogue else "GemmParameters"
        return translation_unit(
            entry=entry,
            kernel_header=self.header,
            kernel_template=f"{self.name}_kernel",
            constants=constants.by_name(),
            static_asserts=[*self.rules, SAME_PARAMETERS, *(epilogue.static_asserts if epilogue else ())],
            parameters=[*(("TensorMap", f"map_{name}") for name in mapped), (parameters, "parameters")],
            launch_bounds=(constants.threads, self.ctas_of_sm(constants)),
            preamble=self.preamble(constants),
            definitions=epilogue.definitions if epilogue else "",
        )


def _block(m: int, n: int) -> "Block":
    from tilewright.model.tiling.levels import Block

    return Block(m, n)


def _block_of(constants: Any, part: str) -> "Block | None":
    """The block that Constants have for a warp or a thread; None if there is none."""
    m, n = (getattr(constants, f"{part}_{extent}", 0) for extent in "mn")
    return _block(m, n) if m and n else None


_WRITTEN: dict[tuple[Kernel, Any, Any], tuple[Constants, TranslationUnit]] = {}
"""The Constants and the translation unit of each kernel, Config and features, kept like the compiled units."""


@cache
def _code_of(rule: str) -> CodeType:
    """A rule as compiled Python: our own text, never the user's."""
    return compile(rule, "<rule>", "eval")


def _names(rule: str, constants: Mapping[str, object]) -> list[str]:
    words = "".join(ch if ch.isalnum() or ch == "_" else " " for ch in rule).split()
    return list(dict.fromkeys(word for word in words if word in constants))
