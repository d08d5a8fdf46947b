"""The libraries that multiply fp8 and int8, each in its own layout and with the accumulation that was asked for."""

from importlib.metadata import version
from typing import Any

from tilewright import dtypes
from tilewright.bench.contender import Absent, Contender, Prepared, imported
from tilewright.bench.inputs import Inputs
from tilewright.hardware import HOPPER


def torch_product(inputs: Inputs) -> Any:
    """The function of a, b and further arguments by which torch multiplies these inputs; Absent if there is none."""
    torch, elements = inputs.torch, inputs.elements
    if elements.a is dtypes.int8:
        if elements.recipe is not None or elements.out is not dtypes.int32:
            raise Absent("torch multiplies int8 into int32 alone, without scales: leave --recipe and --out-dtype out")
        return torch._int_mm
    if elements.a not in dtypes.FP8:
        raise Absent(f"torch multiplies {elements} by cuBLAS: use cublas")
    if inputs.shape.layout != "nt":
        raise Absent(
            f"torch multiplies fp8 whose neighbors lie along k, and the layout is {inputs.shape.layout}: use nt"
        )
    one = torch.ones((), device=f"cuda:{inputs.device}", dtype=torch.float32)
    scale_a, scale_b = inputs.scales.get("scale_a", one), inputs.scales.get("scale_b", one)
    if elements.recipe == "tensor":
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())

    def multiply(a: Any, b: Any, **more: Any) -> Any:
        return torch._scaled_mm(
            a, b, scale_a, scale_b, out_dtype=inputs.type_of(elements.out),
            use_fast_accum=elements.fast_accumulation, **more,
        )  # fmt: skip

    return multiply


class Torch(Contender):
    """torch's own functions for 8 bits: `_scaled_mm` of fp8, by cuBLASLt or CUTLASS, and `_int_mm` of int8."""

    name = "torch"

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Prepare nothing: torch chooses the kernel in each call."""
        multiply, torch = torch_product(inputs), inputs.torch

        def launch(number: int) -> None:
            a, b, out = inputs.sets[number]
            multiply(a, b, out=out)

        return Prepared(launch, {"version": f"torch {torch.__version__}, CUDA {torch.version.cuda}"})


DEEPGEMM = "--no-build-isolation git+https://github.com/deepseek-ai/DeepGEMM"
"""What pip installs; the package of that name on PyPI is an older one with other functions."""


class DeepGemm(Contender):
    """DeepGEMM's product of fp8 with scales of 1 x 128 and 128 x 128 blocks."""

    name = "deepgemm"

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Lay the scales out once, as DeepGEMM reads them."""
        elements, shape = inputs.elements, inputs.shape
        if str(elements) != "fp8_e4m3 1x128_128x128" or shape.layout != "nt":
            raise Absent("DeepGEMM multiplies fp8_e4m3 in nt with --recipe 1x128_128x128 into bf16")
        if inputs.hardware.arch != HOPPER:
            raise Absent(f"DeepGEMM takes fp32 scales on Hopper alone, and this is {inputs.hardware.place}")
        if shape.n % 8 or shape.k % 16:
            raise Absent(
                "DeepGEMM copies by TMA, for which rows begin at multiples of 16 bytes: "
                f"make n a multiple of 8 and k one of 16; the product is {shape}"
            )
        library = imported("deep_gemm", "DeepGEMM", DEEPGEMM)
        if hasattr(library, "set_pdl"):  # since 2.4
            library.set_pdl(True)  # its launches overlap, as ours do; they do not by default
        # DeepGEMM checks the strides of axes of length 1 too, which `contiguous` would leave as they are.
        scale_b = inputs.scales["scale_b"].t().clone(memory_format=inputs.torch.contiguous_format)
        scale_a = inputs.scales["scale_a"]

        def launch(number: int) -> None:
            a, b, out = inputs.sets[number]
            library.fp8_gemm_nt((a, scale_a), (b.t(), scale_b), out)

        return Prepared(launch, {"version": f"deep_gemm {version('deep_gemm')}"})
