"""The libraries that tilewright is compared with, each at its best setting, and all with sums in fp32."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np

from tilewright import dtypes
from tilewright.bench.contender import Absent, Contender, Prepared, imported, require_contiguous
from tilewright.bench.cublas import int8_by_cublas, tuned_by_cublaslt
from tilewright.bench.inputs import Inputs
from tilewright.bench.scaled_peers import torch_product


class Cublas(Contender):
    """cuBLAS, called through torch, and for int8 directly.

    Each call of torch copies strided operands into packed ones first, as its users' calls do; that is timed, too.
    """

    name = "cublas"

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Prepare nothing: cuBLAS chooses by its own heuristics."""
        if str(inputs.elements) == "int8":
            require_contiguous(inputs)
            return int8_by_cublas(inputs)
        require_plain(inputs)
        torch = inputs.torch

        def launch(number: int) -> None:
            a, b, out = inputs.sets[number]
            torch.matmul(a, b, out=out)

        return Prepared(launch, {"version": f"torch {torch.__version__}, CUDA {torch.version.cuda}"})


class CublasLt(Contender):
    """cuBLASLt with the fastest of up to 64 algorithms, through nvmath-python, and for 8 bits directly."""

    name = "cublaslt"
    tuning_seconds = 3
    algorithms: ClassVar[int] = 64

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Tune on the first set; each set gets its own object with the winning algorithm.

        The choice is cuBLASLt's description of the algorithm in hexadecimal.
        """
        require_contiguous(inputs)
        if inputs.elements.a not in dtypes.FLOATS:
            return tuned_by_cublaslt(inputs, choice)
        require_plain(inputs)
        advanced = imported("nvmath.linalg.advanced", "nvmath-python")
        bindings = imported("nvmath.bindings.cublasLt", "nvmath-python")
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
        triton = imported("triton", "triton")
        torch, settings = inputs.torch, imported("torch._inductor.config", "torch")
        torch._dynamo.reset()  # the number of shapes that a function is compiled for is limited

        # With out= the compiler would copy the result there.
        multiply = torch.mm if inputs.elements.is_plain else torch_product(inputs)
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
    selecting = imported("torch._inductor.select_algorithm", "torch")
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
        require_plain(inputs)
        require_contiguous(inputs)
        quack = imported("quack.gemm_interface", "quack-kernels")
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


def require_plain(inputs: Inputs) -> None:
    """Raise Absent for a product with scales, or whose result has another type than its factors."""
    if not inputs.elements.is_plain:
        raise Absent(f"it is called for bf16, fp16 and fp32 with a result of their type, and not for {inputs.elements}")
