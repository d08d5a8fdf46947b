"""cuBLAS and cuBLASLt through ctypes, from the library that torch has loaded: products of fp8 and int8.

Both know matrices by columns. A row-major out (m, n) is a column-major (n, m), the product of b.T and a.T, so B comes
first and A second.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright import dtypes
from tilewright.bench.contender import Absent, Prepared
from tilewright.bench.inputs import Inputs
from tilewright.dtypes import DType
from tilewright.errors import UnavailableError
from tilewright.expression.tree import SCALES
from tilewright.problem import RECIPES, Blocks, cuts_k

CUDA_TYPES = {
    dtypes.fp32: 0, dtypes.fp16: 2, dtypes.int8: 3, dtypes.int32: 10, dtypes.bf16: 14, dtypes.fp8_e4m3: 28,
    dtypes.fp8_e5m2: 29,
}  # fmt: skip
"""cudaDataType_t of element types."""
COMPUTE_32F, COMPUTE_32I = 68, 72
"""cublasComputeType_t."""
TRANSA, TRANSB, SCALE_POINTERS, FAST_ACCUM, SCALE_MODES = 3, 4, (17, 18), 25, (31, 32)
"""cublasLtMatmulDescAttributes_t; pairs are of the first and of the second matrix."""
SCALE_MODE = {Blocks(rows=1): 3, Blocks(columns=1): 3, Blocks(1, 128): 4, Blocks(128, 1): 4, Blocks(128, 128): 5}
"""cublasLtMatmulMatrixScale_t by what an fp32 scale is for; one for all is the usual mode."""
MAX_WORKSPACE = 1
"""cublasLtMatmulPreferenceAttributes_t."""
WORKSPACE_BYTES = 32 << 20
"""The workspace that NVIDIA advises for Hopper."""
ALGORITHMS = 64
"""The most algorithms that are timed."""
DEFAULT_ALGORITHM = -1


class HeuristicResult(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class Library:
    """A library of cuBLAS; each of its functions raises a RuntimeError where it does not succeed."""

    def __init__(self, name: str, torch: Any):
        major = str(torch.version.cuda).partition(".")[0]
        try:
            self._library = ctypes.CDLL(f"lib{name}.so.{major}")
        except OSError as error:
            raise Absent(f"{name} cannot be loaded: {error}") from None

    def __getattr__(self, function: str) -> Any:
        entry = getattr(self._library, function)

        def call(*arguments: Any) -> None:
            if status := entry(*arguments):
                raise UnavailableError(f"{function} returned {status} and did nothing: use another contender")

        return call


def factors(inputs: Inputs, number: int) -> tuple[tuple[Any, bool, int], tuple[Any, bool, int]]:
    """B and A of a set: the array, whether it is transposed as cuBLAS sees it, and its leading extent."""
    a, b, _ = inputs.sets[number]
    m, n, k, layout = inputs.shape.m, inputs.shape.n, inputs.shape.k, inputs.shape.layout
    return (b, layout[1] == "t", k if layout[1] == "t" else n), (a, layout[0] == "t", m if layout[0] == "t" else k)


def int8_by_cublas(inputs: Inputs) -> Prepared:
    """int8 into int32 by cublasGemmEx, called directly; cuBLAS chooses by its own heuristics."""
    torch, shape, library = inputs.torch, inputs.shape, Library("cublas", inputs.torch)
    one, zero = ctypes.c_int32(1), ctypes.c_int32(0)
    of_int8, of_int32 = CUDA_TYPES[dtypes.int8], CUDA_TYPES[dtypes.int32]

    def launch(number: int) -> None:
        (b, turns_b, leading_b), (a, turns_a, leading_a) = factors(inputs, number)
        library.cublasGemmEx(
            ctypes.c_void_p(torch.cuda.current_blas_handle()), int(turns_b), int(turns_a), shape.n, shape.m, shape.k,
            ctypes.byref(one), ctypes.c_void_p(b.data_ptr()), of_int8, leading_b,
            ctypes.c_void_p(a.data_ptr()), of_int8, leading_a,
            ctypes.byref(zero), ctypes.c_void_p(inputs.sets[number][2].data_ptr()), of_int32, shape.n,
            COMPUTE_32I, DEFAULT_ALGORITHM,
        )  # fmt: skip

    return Prepared(launch, {"version": f"cublasGemmEx of CUDA {torch.version.cuda}"})


def tuned_by_cublaslt(inputs: Inputs, choice: Any = None) -> Prepared:
    """fp8 and int8 by cublasLtMatmul, with the quickest of its first algorithms.

    The choice is cuBLASLt's description of the algorithm in hexadecimal.
    """
    library, elements = Library("cublasLt", inputs.torch), inputs.elements
    if elements.a is dtypes.int8 and (elements.recipe is not None or elements.out is not dtypes.int32):
        raise Absent("cuBLASLt multiplies int8 into int32 without scales: leave --recipe and --out-dtype out")
    if cuts_k(elements.recipe) and inputs.shape.m % 4:
        raise Absent(f"cuBLASLt reads scales of blocks of 4 rows, and m is {inputs.shape.m}: make it a multiple of 4")
    product = _Product(inputs, library)
    found = product.algorithms() if choice is None else [_result(choice)]
    if not found:
        product.release()
        raise Absent(f"cuBLASLt has no algorithm for {inputs.shape} {elements} {inputs.shape.layout}")
    quickest = min(found, key=product.seconds) if len(found) > 1 else found[0]
    return Prepared(
        lambda number: product.launch(number, quickest),
        {"version": f"cublasLtMatmul of CUDA {inputs.torch.version.cuda}"},
        product.release,
        choice=bytes(quickest).hex(),
    )


def _result(choice: str) -> HeuristicResult:
    return HeuristicResult.from_buffer_copy(bytes.fromhex(choice))


class _Product:
    """The descriptions of a product for cuBLASLt, and launches of it."""

    def __init__(self, inputs: Inputs, library: Library):
        self._inputs, self._library, elements = inputs, library, inputs.elements
        self._handle = ctypes.c_void_p()
        library.cublasLtCreate(ctypes.byref(self._handle))
        self._workspace = inputs.torch.empty(WORKSPACE_BYTES, device=f"cuda:{inputs.device}", dtype=inputs.torch.uint8)
        whole = elements.a is dtypes.int8
        number, scale_type = (ctypes.c_int32, dtypes.int32) if whole else (ctypes.c_float, dtypes.fp32)
        self._one, self._zero, self._operation = number(1), number(0), ctypes.c_void_p()
        library.cublasLtMatmulDescCreate(
            ctypes.byref(self._operation), COMPUTE_32I if whole else COMPUTE_32F, CUDA_TYPES[scale_type]
        )
        shape = inputs.shape
        (_, turns_b, _), (_, turns_a, _) = factors(inputs, 0)
        self._set(TRANSA, ctypes.c_int32(turns_b))
        self._set(TRANSB, ctypes.c_int32(turns_a))
        if not whole:
            self._set(FAST_ACCUM, ctypes.c_int8(elements.fast_accumulation))
        self._scale()
        stored_b = (shape.k, shape.n) if turns_b else (shape.n, shape.k)
        stored_a = (shape.m, shape.k) if turns_a else (shape.k, shape.m)
        self._layouts = [
            self._layout(elements.b, *stored_b), self._layout(elements.a, *stored_a),
            self._layout(elements.out, shape.n, shape.m),
        ]  # fmt: skip

    def _set(self, attribute: int, value: Any) -> None:
        self._library.cublasLtMatmulDescSetAttribute(
            self._operation, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
        )

    def _scale(self) -> None:
        """Say where the scales are; those of B, the first matrix, come first."""
        if self._inputs.elements.recipe is None:
            return
        both = zip(reversed(SCALES), reversed(RECIPES[self._inputs.elements.recipe]), strict=True)
        for (name, blocks), pointer, mode in zip(both, SCALE_POINTERS, SCALE_MODES, strict=True):
            if blocks in SCALE_MODE:
                self._set(mode, ctypes.c_int32(SCALE_MODE[blocks]))
            self._set(pointer, ctypes.c_void_p(self._inputs.scales[name].data_ptr()))

    def _layout(self, kind: DType, rows: int, columns: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._library.cublasLtMatrixLayoutCreate(
            ctypes.byref(made), CUDA_TYPES[kind], ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
        )
        return made

    def algorithms(self) -> list[HeuristicResult]:
        """What cuBLASLt proposes for the product, the best first; none if it does not take it."""
        first, second, out = self._layouts
        found, count = (HeuristicResult * ALGORITHMS)(), ctypes.c_int()
        with self._preference() as preference:
            try:
                self._library.cublasLtMatmulAlgoGetHeuristic(
                    self._handle, self._operation, first, second, out, out, preference, ALGORITHMS, found,
                    ctypes.byref(count),
                )  # fmt: skip
            except RuntimeError:  # it does not support the product
                return []
        return [each for each in found[: count.value] if not each.state]

    @contextmanager
    def _preference(self) -> Iterator[ctypes.c_void_p]:
        made, most = ctypes.c_void_p(), ctypes.c_uint64(WORKSPACE_BYTES)
        self._library.cublasLtMatmulPreferenceCreate(ctypes.byref(made))
        try:
            self._library.cublasLtMatmulPreferenceSetAttribute(
                made, MAX_WORKSPACE, ctypes.byref(most), ctypes.c_size_t(ctypes.sizeof(most))
            )
            yield made
        finally:
            self._library.cublasLtMatmulPreferenceDestroy(made)

    def seconds(self, algorithm: HeuristicResult) -> float:
        """The time of a few launches of an algorithm; infinite if it fails."""
        work = self._inputs.work(lambda number: self.launch(number, algorithm))
        try:
            work.run(len(self._inputs.sets))
            return work.run(max(10, len(self._inputs.sets)))
        except RuntimeError:
            return float("inf")

    def launch(self, number: int, algorithm: HeuristicResult) -> None:
        """Multiply a set on torch's current stream."""
        a, b, out = (array.data_ptr() for array in self._inputs.sets[number])
        first, second, result = self._layouts
        self._library.cublasLtMatmul(
            self._handle, self._operation, ctypes.byref(self._one), ctypes.c_void_p(b), first, ctypes.c_void_p(a),
            second, ctypes.byref(self._zero), ctypes.c_void_p(out), result, ctypes.c_void_p(out), result,
            ctypes.byref(algorithm.algorithm), ctypes.c_void_p(self._workspace.data_ptr()),
            ctypes.c_size_t(WORKSPACE_BYTES), ctypes.c_void_p(self._inputs.torch.cuda.current_stream().cuda_stream),
        )  # fmt: skip

    def release(self) -> None:
        """Free what cuBLASLt holds, once the GPU has finished."""
        self._inputs.torch.cuda.synchronize(self._inputs.device)
        for layout in self._layouts:
            self._library.cublasLtMatrixLayoutDestroy(layout)
        self._library.cublasLtMatmulDescDestroy(self._operation)
        self._library.cublasLtDestroy(self._handle)
