"""Contenders: tilewright's own kernels and the libraries that are installed.

Each peer runs at its best setting, and all sum in fp32. A contender whose name begins with `tilewright` is ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any, TypeAlias

from tilewright.api import plan
from tilewright.backends.gpu import GpuBackend, backend
from tilewright.backends.gpu_launch import GpuExecutable
from tilewright.bench.contender import Absent, Contender, Prepared
from tilewright.bench.inputs import Inputs, Launch
from tilewright.bench.peers import Cublas, CublasLt, Quack, Triton
from tilewright.bench.scaled_peers import DeepGemm, Torch
from tilewright.bench.stream_read import StreamRead, StreamReadConfig
from tilewright.errors import ArgumentValueError
from tilewright.jit.cache import build
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.pool import CompilerPool
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.parameters import Arguments, LaunchShape
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS
from tilewright.planner.choose import choose
from tilewright.planner.tuning import tune
from tilewright.planner.tuning.stand import GpuStand

OURS = "tilewright"

EPILOGUE = "epilogue"
"""What `about` has of a contender that does more than multiply, so that its cost over the plain product is shown."""

SERIAL = ":serial"
"""The end of the names of our contenders whose launches do not overlap."""

READ = "read"
"""The contender that reads the weights and multiplies nothing."""


class Tilewright(Contender):
    """A Plan: the planner's choice without what was tuned on this machine, or that of a given kernel or Config.

    serial: whether each launch begins when the one ahead has ended, without programmatic dependent launch.
    """

    def __init__(
        self,
        kernel: str = "auto",
        config: Any = None,
        name: str | None = None,
        *,
        batch_invariant: bool = False,
        serial: bool = False,
    ):
        self.kernel, self.config, self.batch_invariant, self.serial = kernel, config, batch_invariant, serial
        plain = OURS if kernel == "auto" and config is None else f"{OURS}:{described(kernel, config)}"
        self.name = name or plain + (SERIAL if serial else "")

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Plan for the first set; the others have the same layout and alignment."""
        try:
            problem = inputs.problem._replace(batch_invariant=self.batch_invariant)
            chosen = choose(problem, inputs.hardware, kernel=self.kernel, config=self.config, measured=False)
            how: dict[str, Any] = {"backend": _serial_gpu(inputs.device)} if self.serial else {}
            kernel, config, reason = chosen.kernel, chosen.config, chosen.reason
            how |= {"batch_invariant": self.batch_invariant, **options(inputs)}
            return planned(products(inputs), kernel, config, reason, **how)
        except (NotImplementedError, ValueError) as refusal:
            raise Absent(str(refusal)) from None


class TilewrightTuned(Contender):
    """A Plan with the Config that tilewright's own tuner finds for these inputs; it is not kept in the user's table."""

    name = f"{OURS}:tuned"
    tuning_seconds = 10

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Tune, and plan for the first set. The choice is a kernel's name and the fields of its Config."""
        if choice is None:
            try:
                with CompilerPool() as pool, GpuStand(inputs.problem, backend(inputs.device)) as stand:
                    found = tune(inputs.problem, stand, pool).entry
            except NotImplementedError as refusal:
                raise Absent(str(refusal)) from None
            choice = {"kernel": found.kernel, "config": dict(found.config)}
        kernel = KERNELS[choice["kernel"]]
        config = kernel.config_type(**choice["config"])
        made = planned(products(inputs), kernel, config, "tuned for this product", **options(inputs))
        return replace(made, choice=choice)


class StreamingRead(Contender):
    """A read of the same weights, as quick as memory gives them: what few rows of activations can hope for."""

    name = READ

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Take the Config that is the quickest here."""
        read, problem, gpu = StreamRead(), inputs.problem, backend(inputs.device)
        if refusal := read.refuses(problem, inputs.hardware):
            raise Absent(str(refusal))

        def launcher(config: StreamReadConfig) -> Launch:
            unit, shape, arguments, *_ = read.assemble(config, problem, inputs.hardware)
            executable = gpu.prepare(build(unit, inputs.hardware.arch), shape, arguments)

            def launch(number: int) -> None:
                a, b, out = (array.data_ptr() for array in inputs.sets[number])
                executable([a, b, 0, 0, out], 1.0, 0.0, inputs.torch.cuda.current_stream().cuda_stream)

            return launch

        launches = {config: launcher(config) for config in read.configs(problem, inputs.hardware)}
        seconds = {}
        for config, launch in launches.items():
            work = inputs.work(launch)
            work.run(len(inputs.sets))
            seconds[config] = work.run(2 * len(inputs.sets))
        quickest = min(seconds, key=seconds.__getitem__)
        return Prepared(launches[quickest], {"config": asdict(quickest)}, multiplies=False)


class SerialGpu(GpuBackend):
    """A GPU on which no grid begins before the one ahead of it in the stream has ended."""

    def prepare(self, compiled: CompiledKernel, shape: LaunchShape, arguments: Arguments) -> GpuExecutable:
        """The launch, without the attribute of a programmatic dependent one."""
        return super().prepare(compiled, shape._replace(dependent=False), arguments)


_serial_gpu = cache(SerialGpu)


Call: TypeAlias = tuple[Any, Any, dict[str, Any]]
"""a, b and the arrays that a Plan takes by name."""


def products(inputs: Inputs) -> list[Call]:
    """The calls that multiply the sets."""
    return [(a, b, {"out": out, **inputs.scales}) for a, b, out in inputs.sets]


def options(inputs: Inputs) -> dict[str, Any]:
    """What `plan` must know of the elements of the sets besides their types."""
    recipe, fast = inputs.elements.recipe, inputs.elements.fast_accumulation
    return {"recipe": recipe, "fast_accumulation": fast} if recipe is not None or fast else {}


def planned(calls: Sequence[Call], kernel: Kernel, config: Any, reason: str, **options: Any) -> Prepared:
    """A Plan of the first call, launched with each; `options` are those of `plan` that are no arrays."""
    a, b, arrays = calls[0]
    made = plan(a, b, **arrays, kernel=kernel.name, config=config, **options)

    def launch(number: int) -> None:
        a, b, arrays = calls[number]
        made(a, b, **arrays)

    about = {"kernel": kernel.name, "config": asdict(config), "reason": reason}
    return Prepared(launch, about, accumulator=made.accumulator)


def described(kernel: str, config: Any) -> str:
    """A kernel's name and the Config fields that differ from the defaults; a single field is always shown."""
    if config is None:
        return kernel
    usual, fields = asdict(type(config)()), asdict(config)
    shown = {name: value for name, value in fields.items() if value != usual[name] or len(fields) == 1}
    return ",".join([kernel, *(f"{name}={value}" for name, value in shown.items())] if shown else [kernel, "usual"])


INVARIANT = f"{OURS}:invariant"
"""The contender whose rows do not depend on the batch."""

EVERY_PEER: dict[str, Callable[[], Contender]] = {
    peer.name: peer for peer in (Cublas, CublasLt, Triton, Quack, Torch, DeepGemm)
}
PEERS = tuple(name for name in EVERY_PEER if name not in (Torch.name, DeepGemm.name))
"""The peers that multiply bf16, fp16 or fp32."""
PEERS_OF_8_BITS = tuple(name for name in EVERY_PEER if name != Quack.name)
"""Those that multiply fp8 or int8."""

_OWN: dict[str, Callable[[], Contender]] = {
    OURS: Tilewright,
    TilewrightTuned.name: TilewrightTuned,
    INVARIANT: lambda: Tilewright(name=INVARIANT, batch_invariant=True),
    READ: StreamingRead,
}

NAMES = (
    f"{', '.join((*_OWN, *EVERY_PEER))}, or {OURS}: with one of {', '.join(EVERY_KERNEL)}, "
    f"and {OURS}{SERIAL} or {OURS}:KERNEL{SERIAL}"
)
"""The names of all contenders, for messages."""


def is_ours(name: str) -> bool:
    """Whether a contender of this name multiplies with a kernel of tilewright."""
    return name.partition(":")[0] == OURS


def is_peer(name: str) -> bool:
    """Whether a contender of this name multiplies with another library."""
    return not is_ours(name) and name != READ


def is_known(name: str) -> bool:
    """Whether there is a contender of this name; `tilewright:KERNEL` is a plan of that kernel, `:serial` ends both."""
    return name in _OWN or name in EVERY_PEER or _kernel_in(name) is not None


def contenders_named(names: Sequence[str]) -> list[Contender]:
    """The contenders of these names. A ValueError lists all names."""
    return [_contender(name) for name in dict.fromkeys(names)]


def _contender(name: str) -> Contender:
    if (made := _OWN.get(name) or EVERY_PEER.get(name)) is not None:
        return made()
    if (kernel := _kernel_in(name)) is None:
        raise ArgumentValueError(f"contender {name!r} does not exist: use {NAMES}")
    return Tilewright(kernel, serial=name.endswith(SERIAL))


def _kernel_in(name: str) -> str | None:
    """The kernel of `tilewright:KERNEL` and "auto" of `tilewright`, each maybe with `:serial`; None in other names."""
    plain = name.removesuffix(SERIAL)
    kernel = plain.removeprefix(f"{OURS}:")
    return "auto" if plain == OURS else kernel if kernel != plain and kernel in EVERY_KERNEL else None
