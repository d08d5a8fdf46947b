"""The product that a command multiplies: its Problem, random operands."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import dtypes
from tilewright.dtypes import DType
from tilewright.hardware import Hardware
from tilewright.kernels.family import Kernel
from tilewright.kernels.registry import KERNELS
from tilewright.problem import Matrix, Problem
from tilewright.reference import Array, Comparison, compare


@dataclass(frozen=True, slots=True)
class Product:
    """activation(a @ b + bias) with packed operands; `bias` has shape (n,)."""

    m: int
    n: int
    k: int
    dtype: DType
    out_dtype: DType
    layout: str = "nt"
    bias: bool = False
    activation: str | None = None

    @property
    def problem(self) -> Problem:
        """What a call with such operands asks."""
        m, n, k = self.m, self.n, self.k
        return Problem(
            m=m,
            n=n,
            k=k,
            a=Matrix(self.dtype, k, 1) if self.layout[0] == "n" else Matrix(self.dtype, 1, m),
            b=Matrix(self.dtype, n, 1) if self.layout[1] == "n" else Matrix(self.dtype, 1, k),
            out=Matrix(self.out_dtype, n, 1),
            bias=Matrix(self.out_dtype, 0, 1) if self.bias else None,
            activation=self.activation,
        )

    def resized(self, m: int, n: int, k: int) -> "Product":
        """The same product of another shape."""
        return dataclasses.replace(self, m=m, n=n, k=k)

    def operands(self, seed: int) -> dict[str, Array]:
        """Normally distributed a, b and perhaps bias, in host memory and in the product's layout."""
        rng = np.random.default_rng(seed)

        def normal(dtype: DType, rows: int, columns: int, transposed: bool) -> Array:
            stored = (columns, rows) if transposed else (rows, columns)
            array = rng.standard_normal(stored, np.float32).astype(dtype.numpy_dtype)
            return array.T if transposed else array

        arrays = {
            "a": normal(self.dtype, self.m, self.k, self.layout[0] == "t"),
            "b": normal(self.dtype, self.k, self.n, self.layout[1] == "t"),
        }
        if self.bias:
            arrays["bias"] = normal(self.out_dtype, 1, self.n, False)[0]
        return arrays

    def verify(self, out: Array, operands: dict[str, Array]) -> Comparison:
        """Compare a result with the float64 reference."""
        return compare(out, operands["a"], operands["b"], bias=operands.get("bias"), activation=self.activation)


def kernel_named(name: str) -> Kernel:
    """The registry's kernel of that name, or a ValueError that lists what there is."""
    if name not in KERNELS:
        raise ValueError(f"kernel {name!r} does not exist: name one of {', '.join(KERNELS)}")
    return KERNELS[name]


def first_accepted(
    kernel: Kernel,
    hardware: Hardware,
    shapes: Iterable[tuple[int, int, int]],
    dtype: str | None,
    layout: str,
    **epilogue: Any,
) -> Product:
    """The first product, by shape and then by element type, that the kernel takes; a ValueError where there is none.

    `dtype` None tries every supported one.
    """
    kinds = dtypes.SUPPORTED if dtype is None else (dtypes.parse(dtype, "--dtype"),)
    refusal = None
    for shape in shapes:
        for kind in kinds:
            product = Product(*shape, dtype=kind, out_dtype=kind, layout=layout, **epilogue)
            reason = kernel.rejects(product.problem, hardware)
            if reason is None:
                return product
            refusal = refusal or reason
    raise ValueError(f"kernel {kernel.name!r} does not take this product on {hardware.name}: {refusal}")
