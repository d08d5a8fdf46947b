"""The calls that mutants have to get right: operands of small integers, and what a call has to write."""

from functools import cache

import numpy as np

from tilewright import dtypes


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


def arrays_of(subject, shape, written):
    """The arguments of a call beside a and b, which writes to the arrays `written`; without them only its sums."""
    sums = {"column_sums": written.get("column_sums", np.zeros(shape[1], np.float32))} if subject.sums else None
    return {"operands": _read(subject, shape) or None, "outputs": sums, "out": written.get("out")}


def unwritten(values):
    """An array like this one, of bytes that make large numbers of any type."""
    return np.frombuffer(b"\x7f" * values.nbytes, values.dtype).reshape(values.shape).copy()


@cache
def product_of(subject, shape):
    """What a call has to write, by name."""
    a, b = (operand.astype(np.float64) for operand in operands_of(subject, shape))
    acc = a @ b
    if subject.expression:
        values = {"acc": acc, "x": acc[:, ::2], "y": acc[:, 1::2], **_read(subject, shape)}
        acc = eval(subject.expression, {"relu": lambda x: np.maximum(x, 0)}, values)
    dtype = dtypes.parse(subject.out_dtype or subject.dtype, "out_dtype").numpy_dtype
    out = {"out": acc.astype(np.float32).astype(dtype)}
    return out | ({"column_sums": acc.sum(axis=0).astype(np.float32)} if subject.sums else {})
