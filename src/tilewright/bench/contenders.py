"""Contenders: tilewright's own kernels and the libraries that are installed.

Each peer runs at its best setting, and all sum in fp32. A contender whose name begins with `tilewright` is ours.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from importlib.metadata import version
from typing import Any, ClassVar, TypeAlias

import numpy as np

from tilewright.api import plan
from tilewright.backends.gpu import backend
from tilewright.bench.inputs import Ending, Inputs, Launch
from tilewright.bench.stream_read import StreamRead, StreamReadConfig
from tilewright.dtypes import DType, fp32
from tilewright.errors import ArgumentValueError
from tilewright.jit.cache import build
from tilewright.jit.pool import CompilerPool
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS
from tilewright.planner.choose import choose
from tilewright.tuning import tune
from tilewright.tuning.candidates import tunable
from tilewright.tuning.stand import GpuStand

OURS = "tilewright"

EPILOGUE = "epilogue"
"""What `about` has of a contender that does more than multiply, so that its cost over the plain product is shown."""

READ = "read"
"""The contender that reads the weights and multiplies nothing."""


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


class Tilewright(Contender):
    """A Plan: the planner's choice without what was tuned on this machine, or that of a given kernel or Config."""

    def __init__(
        self, kernel: str = "auto", config: Any = None, name: str | None = None, batch_invariant: bool = False
    ):
        self.kernel, self.config, self.batch_invariant = kernel, config, batch_invariant
        self.name = name or (OURS if kernel == "auto" and config is None else f"{OURS}:{described(kernel, config)}")

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Plan for the first set; the others have the same layout and alignment."""
        try:
            problem = inputs.problem._replace(batch_invariant=self.batch_invariant)
            chosen = choose(problem, inputs.hardware, kernel=self.kernel, config=self.config, measured=False)
            return planned(products(inputs), *chosen[:3], batch_invariant=self.batch_invariant)
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
                problem = tunable(inputs.problem, inputs.hardware)
                with CompilerPool() as pool, GpuStand(problem, backend(inputs.device)) as stand:
                    found = tune(problem, stand, pool).entry
            except NotImplementedError as refusal:
                raise Absent(str(refusal)) from None
            choice = {"kernel": found.kernel, "config": dict(found.config)}
        kernel = KERNELS[choice["kernel"]]
        config = kernel.config_type(**choice["config"])
        return replace(planned(products(inputs), kernel, config, "tuned for this product"), choice=choice)


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


Call: TypeAlias = tuple[Any, Any, dict[str, Any]]
"""a, b and the arrays that a Plan takes by name."""


def products(inputs: Inputs) -> list[Call]:
    """The calls that multiply the sets."""
    return [(a, b, {"out": out}) for a, b, out in inputs.sets]


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


class Cublas(Contender):
    """cuBLAS, called through torch."""

    name = "cublas"

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Prepare nothing: cuBLAS chooses by its own heuristics."""
        torch = inputs.torch

        def launch(number: int) -> None:
            a, b, out = inputs.sets[number]
            torch.matmul(a, b, out=out)

        return Prepared(launch, {"version": f"torch {torch.__version__}, CUDA {torch.version.cuda}"})


class CublasLt(Contender):
    """cuBLASLt through nvmath-python, with the fastest of up to 64 algorithms."""

    name = "cublaslt"
    tuning_seconds = 3
    algorithms: ClassVar[int] = 64

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Tune on the first set; each set gets its own object with the winning algorithm.

        The choice is cuBLASLt's description of the algorithm in hexadecimal.
        """
        advanced = _imported("nvmath.linalg.advanced", "nvmath-python")
        bindings = _imported("nvmath.bindings.cublasLt", "nvmath-python")
        in_fp32 = advanced.MatmulReductionScheme.COMPUTE_TYPE
        preferences = advanced.MatmulPlanPreferences(limit=self.algorithms, reduction_scheme_mask=in_fp32)
        planned: list[Any] = []
        known = None if choice is None else [advanced.Algorithm(_algorithm(bindings, choice))]
        with ExitStack() as until_planned:
            for a, b, out in inputs.sets:
                # beta = 0: out is written and not read.
                multiply = advanced.Matmul(a, b, out, beta=0.0, options=advanced.MatmulOptions(inplace=True))
                until_planned.callback(multiply.free)
                if known is not None:
                    multiply.plan(algorithms=known)
                else:
                    multiply.plan(preferences=preferences)
                    multiply.autotune(iterations=10, prune=1)
                    known = multiply.algorithms
                planned.append(multiply)
            given_up = until_planned.pop_all()

        def launch(number: int) -> None:
            planned[number].execute()

        def release() -> None:
            with given_up:
                for multiply in planned:
                    multiply.execute()  # free waits for the last execution, and cannot wait for one in a graph

        winner = planned[0].algorithms[0].algorithm._data.tobytes().hex()
        return Prepared(launch, {"version": f"nvmath-python {version('nvmath-python')}"}, release, choice=winner)


def _algorithm(bindings: Any, choice: str) -> Any:
    """cuBLASLt's description of an algorithm. The library says that it may be stored for the same version of itself."""
    described = np.frombuffer(bytes.fromhex(choice), dtype=bindings.matmul_heuristic_result_dtype)
    return bindings.MatmulHeuristicResult.from_data(described.copy())


class Triton(Contender):
    """Triton's templates, tuned by torch.compile, without ATen, which would be cuBLAS again."""

    name = "triton"
    tuning_seconds = 25

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Compile and tune on the first set.

        The choice names a template and describes its parameters; the compiler then considers no other.
        """
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
        if choice is not None:
            wanted["test_configs.autotune_choice_name_regex"] = rf"^{re.escape(choice['template'])}_\d+$"
            wanted["test_configs.autotune_choice_desc_regex"] = f"^{re.escape(choice['parameters'])}$"
        known = settings.get_config_copy()  # releases differ in what can be set
        with settings.patch({name: value for name, value in wanted.items() if name in known}), _winners() as winners:
            launch(0)
        if winners:
            template = winners[-1].name.rpartition("_")[0]  # the name ends in a number that counts kernels
            choice = {"template": template, "parameters": winners[-1].description}
        about = {"version": f"triton {triton.__version__}, torch {torch.__version__}"}
        return Prepared(launch, about, outs=outs, choice=choice)


@contextmanager
def _winners() -> Iterator[list[Any]]:
    """The kernels that torch's compiler finds to be the quickest inside the `with` block, as it tunes them."""
    selecting = _imported("torch._inductor.select_algorithm", "torch")
    found: list[Any] = []
    selecting.add_feedback_saver(lambda timings, *others: found.append(min(timings, key=timings.get)))
    try:
        yield found
    finally:
        selecting.clear_feedback_savers()


class Quack(Contender):
    """QuACK's CuTe DSL kernels, tuned by their own tuner."""

    name = "quack"
    tuning_seconds = 20

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Compile and tune on the first set. The choice is the fields of QuACK's GemmConfig."""
        quack = _imported("quack.gemm_interface", "quack-kernels")
        tuner = quack.gemm_tuned
        every, tuner.best_config = tuner.configs, None
        if choice is not None:
            tuner.configs = [quack.AutotuneConfig(config=quack.GemmConfig(**choice))]

        def release() -> None:
            tuner.configs = every

        def launch(number: int) -> None:
            a, b, out = inputs.sets[number]
            quack.gemm(a, b, out=out, tuned=True)

        with ExitStack() as unless_ready:
            unless_ready.callback(release)
            launch(0)
            unless_ready.pop_all()
        if tuner.best_config is not None:  # it was asked now, and not for an earlier product of this Shape
            choice = asdict(tuner.best_config.kwargs["config"])
        return Prepared(launch, {"version": f"quack-kernels {version('quack-kernels')}"}, release, choice=choice)


def _imported(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        missing = getattr(error, "name", None) or ""
        if module.startswith(missing.partition(".")[0] or "?"):
            raise Absent(f"{package} is not installed: pip install {package}") from None
        raise Absent(f"{package} cannot be imported: {error}") from None


INVARIANT = f"{OURS}:invariant"
"""The contender whose rows do not depend on the batch."""

PEERS: dict[str, Callable[[], Contender]] = {peer.name: peer for peer in (Cublas, CublasLt, Triton, Quack)}


_OWN: dict[str, Callable[[], Contender]] = {
    OURS: Tilewright,
    TilewrightTuned.name: TilewrightTuned,
    INVARIANT: lambda: Tilewright(name=INVARIANT, batch_invariant=True),
    READ: StreamingRead,
}

NAMES = f"{', '.join((*_OWN, *PEERS))}, or {OURS}: with one of {', '.join(EVERY_KERNEL)}"
"""The names of all contenders, for messages."""


def is_ours(name: str) -> bool:
    """Whether a contender of this name multiplies with a kernel of tilewright."""
    return name.partition(":")[0] == OURS


def is_peer(name: str) -> bool:
    """Whether a contender of this name multiplies with another library."""
    return not is_ours(name) and name != READ


def is_known(name: str) -> bool:
    """Whether there is a contender of this name; `tilewright:KERNEL` is a plan of that kernel."""
    own, _, kernel = name.partition(":")
    return name in _OWN or name in PEERS or (own == OURS and kernel in EVERY_KERNEL)


def contenders_named(names: Sequence[str]) -> list[Contender]:
    """The contenders of these names. A ValueError lists all names."""
    return [_contender(name) for name in dict.fromkeys(names)]


def _contender(name: str) -> Contender:
    if not is_known(name):
        raise ArgumentValueError(f"contender {name!r} does not exist: use {NAMES}")
    made = _OWN.get(name) or PEERS.get(name)
    return Tilewright(name.partition(":")[2]) if made is None else made()
