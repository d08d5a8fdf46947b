"""Contenders: tilewright's own kernels and the libraries that are installed.

Each peer runs at its best setting, and all sum in fp32.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import version
from typing import Any, ClassVar

from tilewright.api import plan
from tilewright.bench.inputs import Inputs, Launch
from tilewright.dtypes import DType, fp32
from tilewright.errors import ArgumentValueError
from tilewright.kernels.registry import EVERY_KERNEL

OURS = "tilewright"


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
    """

    launch: Launch
    about: dict[str, Any] = field(default_factory=dict)
    release: Callable[[], None] = lambda: None
    accumulator: DType = fp32
    outs: Sequence[Any] | None = None


class Contender(ABC):
    """One way to multiply. Tables and records call it `name`."""

    name: str

    @abstractmethod
    def prepare(self, inputs: Inputs) -> Prepared:
        """Compile and tune for these inputs; raises Absent if that is not possible here."""


class Tilewright(Contender):
    """A Plan: the planner's choice, or that of a given kernel or Config."""

    def __init__(self, kernel: str = "auto", config: Any = None, name: str | None = None):
        self.kernel, self.config = kernel, config
        self.name = name or (OURS if kernel == "auto" and config is None else f"{OURS}:{described(kernel, config)}")

    def prepare(self, inputs: Inputs) -> Prepared:
        """Plan for the first set; the others have the same layout and alignment."""
        a, b, out = inputs.sets[0]
        try:
            planned = plan(a, b, out=out, kernel=self.kernel, config=self.config)
        except (NotImplementedError, ValueError) as refusal:
            raise Absent(str(refusal)) from None
        assert planned.kernel is not None
        assert planned.config is not None

        def launch(number: int) -> None:
            a, b, out = inputs.sets[number]
            planned(a, b, out=out)

        about = {"kernel": planned.kernel.name, "config": asdict(planned.config), "reason": planned.reason}
        return Prepared(launch, about, accumulator=planned.accumulator)


def described(kernel: str, config: Any) -> str:
    """A kernel's name and the Config fields that differ from the defaults; a single field is always shown."""
    if config is None:
        return kernel
    usual, fields = asdict(type(config)()), asdict(config)
    shown = {name: value for name, value in fields.items() if value != usual[name] or len(fields) == 1}
    return ",".join([kernel, *(f"{name}={value}" for name, value in shown.items())] if shown else [kernel, "usual"])


class Cublas(Contender):
    """cuBLAS, called through torch."""

    name = "cublas"

    def prepare(self, inputs: Inputs) -> Prepared:
        """Prepare nothing: cuBLAS chooses by its own heuristics."""
        torch = inputs.torch

        def launch(number: int) -> None:
            a, b, out = inputs.sets[number]
            torch.matmul(a, b, out=out)

        return Prepared(launch, {"version": f"torch {torch.__version__}, CUDA {torch.version.cuda}"})


class CublasLt(Contender):
    """cuBLASLt through nvmath-python, with the fastest of up to 64 algorithms."""

    name = "cublaslt"
    algorithms: ClassVar[int] = 64

    def prepare(self, inputs: Inputs) -> Prepared:
        """Tune on the first set; each set gets its own object with the winning algorithm."""
        advanced = _imported("nvmath.linalg.advanced", "nvmath-python")
        in_fp32 = advanced.MatmulReductionScheme.COMPUTE_TYPE
        preferences = advanced.MatmulPlanPreferences(limit=self.algorithms, reduction_scheme_mask=in_fp32)
        planned: list[Any] = []
        with ExitStack() as until_planned:
            for a, b, out in inputs.sets:
                # beta = 0: out is written and not read.
                multiply = advanced.Matmul(a, b, out, beta=0.0, options=advanced.MatmulOptions(inplace=True))
                until_planned.callback(multiply.free)
                if planned:
                    multiply.plan(algorithms=planned[0].algorithms)
                else:
                    multiply.plan(preferences=preferences)
                    multiply.autotune(iterations=10, prune=1)
                planned.append(multiply)
            given_up = until_planned.pop_all()

        def launch(number: int) -> None:
            planned[number].execute()

        def release() -> None:
            with given_up:
                for multiply in planned:
                    multiply.execute()  # free waits for the last execution, and cannot wait for one in a graph

        return Prepared(launch, {"version": f"nvmath-python {version('nvmath-python')}"}, release)


class Triton(Contender):
    """Triton's templates, tuned by torch.compile, without ATen, which would be cuBLAS again."""

    name = "triton"

    def prepare(self, inputs: Inputs) -> Prepared:
        """Compile and tune on the first set."""
        triton = _imported("triton", "triton")
        torch, settings = inputs.torch, _imported("torch._inductor.config", "torch")
        torch._dynamo.reset()  # the number of shapes that a function is compiled for is limited

        def multiply(a: Any, b: Any) -> Any:
            return torch.mm(a, b)  # with out= the compiler would copy the result there

        compiled = torch.compile(multiply, fullgraph=True, dynamic=False, mode="max-autotune-no-cudagraphs")

        outs = [torch.empty_like(out) for _, _, out in inputs.sets]

        def launch(number: int) -> None:
            a, b, _ = inputs.sets[number]
            outs[number] = None  # the allocator returns the same memory, which verify has filled with NaN
            outs[number] = compiled(a, b)

        wanted = {
            "max_autotune_gemm_backends": "TRITON",
            "triton.enable_persistent_tma_matmul": True,  # one more template to choose from
            "autotune_num_choices_displayed": 0,
        }
        known = settings.get_config_copy()  # releases differ in what can be set
        with settings.patch({name: value for name, value in wanted.items() if name in known}):
            launch(0)
        return Prepared(launch, {"version": f"triton {triton.__version__}, torch {torch.__version__}"}, outs=outs)


class Quack(Contender):
    """QuACK's CuTe DSL kernels, tuned by their own tuner."""

    name = "quack"

    def prepare(self, inputs: Inputs) -> Prepared:
        """Compile and tune on the first set."""
        multiply = _imported("quack.gemm_interface", "quack-kernels").gemm

        def launch(number: int) -> None:
            a, b, out = inputs.sets[number]
            multiply(a, b, out=out, tuned=True)

        launch(0)
        return Prepared(launch, {"version": f"quack-kernels {version('quack-kernels')}"})


def _imported(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        missing = getattr(error, "name", None) or ""
        if module.startswith(missing.partition(".")[0] or "?"):
            raise Absent(f"{package} is not installed: pip install {package}") from None
        raise Absent(f"{package} cannot be imported: {error}") from None


PEERS: dict[str, Callable[[], Contender]] = {peer.name: peer for peer in (Cublas, CublasLt, Triton, Quack)}


def contenders_named(names: Sequence[str]) -> list[Contender]:
    """The contenders of these names; `tilewright:KERNEL` is a plan of that kernel. A ValueError lists all names."""
    return [_contender(name) for name in dict.fromkeys(names)]


def _contender(name: str) -> Contender:
    own, _, kernel = name.partition(":")
    if own == OURS and (not kernel or kernel in EVERY_KERNEL):
        return Tilewright(kernel or "auto")
    if name in PEERS:
        return PEERS[name]()
    raise ArgumentValueError(
        f"contender {name!r} does not exist: use {', '.join((OURS, *PEERS))}, or {OURS}: with one of "
        f"{', '.join(EVERY_KERNEL)}"
    )
