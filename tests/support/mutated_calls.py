"""The calls that mutants have to get right: operands of small integers, and what a call has to write."""

from functools import cache

import numpy as np

from support.cases import over_blocks
from tilewright import dtypes
from tilewright.rounding import ceil_div


@cache
def operands_of(subject, shape):
    """a and b, of small integers."""
    m, n, k = shape
    numbers = np.random.default_rng(0)
    dtype = dtypes.parse(subject.dtype, "dtype").numpy_dtype

    def stored(rows, columns, transposed):
        values = numbers.integers(-4, 5, (columns, rows) if transposed else (rows, columns)).astype(dtype)
        return values.T if transposed else values

    return stored(m, k, subject.layout[0] == "t"), stored(k, n, subject.layout[1] == "t")


@cache
def _read(subject, shape):
    """What the expression reads, by name."""
    m, n, _ = shape
    columns, numbers = n // 2 if subject.gate else n, np.random.default_rng(1)
    extents = {"bias": columns, "other": (m, columns)}
    used = {name: size for name, size in extents.items() if name in (subject.expression or "")}
    return {name: numbers.integers(-4, 5, size).astype(np.float32) for name, size in used.items()}


@cache
def _scales(subject, shape):
    """Uneven powers of two, with which sums stay exact; none without a recipe."""
    if subject.recipe is None:
        return {}
    m, n, k = shape
    numbers = np.random.default_rng(2)
    columns = ceil_div(n, 128) if subject.recipe.endswith("128x128") else n
    shapes = {"scale_a": (m, ceil_div(k, 128)), "scale_b": (ceil_div(k, 128), columns)}
    return {name: (2.0 ** numbers.integers(-2, 3, extents)).astype(np.float32) for name, extents in shapes.items()}


def arrays_of(subject, shape, written, lay=None):
    """The arguments of a call beside a and b, which writes to the arrays `written`; without them only its sums.

    lay: how scales of a lie in memory, if not row by row.
    """
    sums = {"column_sums": written.get("column_sums", np.zeros(shape[1], np.float32))} if subject.sums else None
    read = {"operands": _read(subject, shape) or None, **_scales(subject, shape)}
    if lay is not None:
        read["scale_a"] = lay(read["scale_a"])
    return read | {"outputs": sums, "out": written.get("out")}


def unwritten(values):
    """An array like this one, of bytes that make large numbers of any type."""
    return np.frombuffer(b"\x7f" * values.nbytes, values.dtype).reshape(values.shape).copy()


@cache
def product_of(subject, shape):
    """What a call has to write, by name."""
    factors = [operand.astype(np.float64) for operand in operands_of(subject, shape)]
    for factor, scale in zip(factors, _scales(subject, shape).values(), strict=False):
        factor *= over_blocks(scale, factor.shape)
    acc = factors[0] @ factors[1]
    if subject.expression:
        values = {"acc": acc, "x": acc[:, ::2], "y": acc[:, 1::2], **_read(subject, shape)}
        acc = eval(subject.expression, {"relu": lambda x: np.maximum(x, 0)}, values)
    dtype = dtypes.parse(subject.out_dtype or subject.dtype, "out_dtype").numpy_dtype
    out = {"out": acc.astype(np.float32).astype(dtype)}
    return out | ({"column_sums": acc.sum(axis=0).astype(np.float32)} if subject.sums else {})
