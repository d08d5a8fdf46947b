"""The function `quantize`: codes of 8 bits with scales, for products of fp8 and int8."""

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import Any

from tilewright.api import backend_for
from tilewright.arrays import adopt, library_of
from tilewright.arrays.torch import TORCH
from tilewright.backends.protocol import Backend
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.planner.call_arguments import stream_handle
from tilewright.planner.quantizer import Quantizer
from tilewright.planner.quantizing import Form, Operands, Options, bind, check_inputs, check_outs, forms
from tilewright.problem import QUANTIZED

_MOST_KNOWN = 1024
"""The most kinds of calls that are remembered; then all are forgotten."""


def quantize(
    x: Any,
    dtype: Any,
    *,
    block: str = "tensor",
    scale: Any = None,
    power_of_two: bool = False,
    saturate: bool = True,
    transposed: bool = False,
    out: Sequence[Any] | None = None,
    backend: str | Backend = "auto",
    stream: Any = None,
) -> tuple[Any, ...]:
    """The codes and scale of x, so that x is about codes * scale: (codes, scale), in x's library and on its device.

    x: (..., m, k) of bf16, fp16 or fp32, with any strides. dtype: "fp8_e4m3", "fp8_e5m2" or "int8", or a library's
    name of it. Codes have x's shape and are row-major.
    block: what has a scale of its own, and so the shape of the fp32 scales. "tensor": (), for all of x, batches
    included. "row": (..., m, 1). "1x128": (..., m, ceil(k / 128)), in memory such that neighbors along m are neighbors,
    as products read them. "128x128": (..., ceil(m / 128), ceil(k / 128)). Blocks at the edges may be partial.

    A scale is the block's largest finite magnitude divided by the largest number of dtype (448, 57344 or 127), in fp32;
    at least 2^-126, and 1 for a block of zeros. power_of_two: round it up to a power of two.
    scale: the scales to take instead, positive, of the shapes above (a scale of the tensor may be any array of one
    element); it is returned as it is. Host arrays are checked; scales on a GPU that are not positive give any codes.
    A code is x * (1 / scale) in fp32, rounded to the nearest, ties to even: it is off by half a unit of the code and
    2^-22 of x / scale, and by half a unit alone if the scale is a power of two.

    saturate: what is beyond the range becomes the largest code, Inf too; NaN stays NaN in fp8 and is 0 in int8, which
    has codes to -128 for values beyond -127. With False, for fp8 alone, what rounds beyond the range becomes Inf in
    fp8_e5m2, and NaN in fp8_e4m3, which has no Inf. Neither Inf nor NaN counts in a scale.
    transposed: also those of x.T, (codes, scale, codes of x.T, scale of x.T), quantized from x in the same launch. For
    "tensor" and "128x128", the last one is a view of the scale; for "row" and "1x128", scale may not be given then.
    out: arrays to write instead of new ones, in the order of the result; None for those to be made. They have the
    result's shapes; codes are contiguous along the last dimension, scales have any strides. A scale that is given or a
    view is not written.
    backend, stream: as in `matmul`.

    Raises TypeError, ValueError, NotImplementedError (fp8 before sm_89) or RuntimeError, before anything runs.
    """
    if TORCH.traces():
        untraced: tuple[Any, ...] = TORCH.untraced(quantize)(
            x, dtype, block=block, scale=scale, power_of_two=power_of_two, saturate=saturate, transposed=transposed,
            out=out, backend=backend, stream=stream,
        )  # fmt: skip
        return untraced
    options = Options.of(dtype, block, power_of_two, saturate, transposed)
    operand, given = adopt(x, "x"), None if scale is None else adopt(scale, "scale")
    check_inputs(operand, given, options)
    chosen = backend_for(backend, operand.device, "x")
    results = _outs(out, options, is_given=given is not None)
    viewed = {"scale": scale, "out[1]": results[1]} if options.transposed and options.block == "128x128" else {}
    for name, array in viewed.items():
        if array is not None and not hasattr(array, "swapaxes"):
            raise ArgumentTypeError(
                f"{name} is a {type(array).__name__} without swapaxes, and with transposed=True the scale of x.T is a "
                "view of it: pass an array of a library that has such views"
            )
    library = library_of(x, "x")
    handle = (
        library.stream_reader(operand.device)(x, operand.device) if stream is None else stream_handle(stream, chosen)
    )
    made = [each if each is None else adopt(each, name) for name, each in zip(QUANTIZED, results, strict=False)]
    with nullcontext() if stream is None else library.on_stream(handle, operand.device):
        for number, form in enumerate(forms(options, operand.shape)):
            if results[number] is None and not (number == 1 and given is not None):
                results[number] = _allocated(x, operand.device, form)
                made[number] = adopt(results[number], QUANTIZED[number])
    operands = Operands(operand, given, made)
    if out is not None:
        check_outs(operands, options)
    if any(each is not None and 0 not in each.shape for each in made):
        quantizer = _quantizer(operands, options, chosen, lambda: chosen.is_capturing(handle))
        _launch(quantizer, operands, chosen, handle)
    if out is not None and (increment := library.written()) is not None:
        increment(tuple(each for each in out if each is not None))
    if given is not None:
        results[1] = scale
    if options.transposed and not options.by_line:
        results.append(results[1] if options.block == "tensor" else results[1].swapaxes(-1, -2))
    return tuple(results)


def _outs(out: Any, options: Options, *, is_given: bool) -> list[Any]:
    """The arrays of `out` that are written, None for those to be made; a TypeError or ValueError for another out."""
    count = 4 if options.transposed else 2
    if out is None:
        outs: list[Any] = [None] * count
    elif not isinstance(out, list | tuple):
        raise ArgumentTypeError(f"out is a {type(out).__name__}: pass a tuple of {count} arrays, or None for each")
    elif len(out) != count:
        raise ArgumentValueError(
            f"out has {len(out)} elements, and the result {count}: pass None for what is to be made"
        )
    else:
        outs = list(out)
    if is_given and outs[1] is not None:
        raise ArgumentValueError("out[1] is the scale, which is given and not written: pass None there")
    if not options.by_line and any(each is not None for each in outs[3:]):
        raise ArgumentValueError(f"out[3] is a view of the scale with block={options.block!r}: pass None there")
    return outs[: 3 if options.transposed and not options.by_line else count]


_allocators: dict[Hashable, Callable[[], Any]] = {}
_quantizers: dict[Hashable, Quantizer] = {}
"""What was made for calls like earlier ones."""


def _allocated(x: Any, device: int, form: Form) -> Any:
    """A new array of this form, in the library of x."""
    key = (type(x), device, form.allocated, form.dtype)
    allocate = _allocators.get(key)
    if allocate is None:
        _forget_many(_allocators)
        allocate = _allocators[key] = library_of(x, "x").allocator(x, form.allocated, form.dtype, device)
    array = allocate()
    return array if form.view is None else form.view(array)


def _quantizer(operands: Operands, options: Options, backend: Backend, is_capturing: Callable[[], bool]) -> Quantizer:
    """The Quantizer of operands like these."""
    present = (operands.x, operands.scale, *operands.outs)
    key = (options, backend, *(each and (each.shape, each.strides, each.dtype, each.alignment) for each in present))
    quantizer = _quantizers.get(key)
    if quantizer is None:
        _forget_many(_quantizers)
        question, exchanged = bind(operands, options)
        quantizer = _quantizers[key] = Quantizer(question, exchanged, backend, is_capturing)
    return quantizer


def _forget_many(known: dict[Hashable, Any]) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()


def _launch(quantizer: Quantizer, operands: Operands, backend: Backend, stream: int) -> None:
    """Run where the operands are, or on copies of them."""
    x, scale, outs = operands
    names = ["x", *QUANTIZED[: len(outs)]]
    present = [x, *outs]
    if scale is not None:
        names[2], present[2] = "scale", scale
    named = {name: operand for name, operand in zip(names, present, strict=True) if operand is not None}
    in_place = {name: operand.pointer for name, operand in named.items()}
    reads_in_place = backend.reads_in_place(x.device)
    with nullcontext(in_place) if reads_in_place else backend.resident(named, stream) as addresses:
        quantizer([addresses.get(name, 0) for name in names] + [0] * (5 - len(names)), stream)
