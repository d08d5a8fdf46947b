"""Expressions for tests: random ones, and a kernel that applies one to arrays in the emulator."""

import numpy as np
from hypothesis import strategies as st

from tilewright.dtypes import fp32
from tilewright.emulator import Device
from tilewright.expression.tree import (
    COMPARISONS,
    OPERATIONS,
    Expression,
    Name,
    Number,
    Operation,
    nodes,
)
from tilewright.hardware import H200
from tilewright.jit.compile import compile
from tilewright.jit.source import TranslationUnit, reachable_headers

NAMES = ("bias", "scale")

LEAVES = st.one_of(
    st.sampled_from([Name("acc"), Name("acc"), *map(Name, NAMES)]),
    st.floats(0, 100, width=32).map(lambda number: Number(abs(number))),
)


def _larger(values):
    """Operations on values, for `recursive`."""
    pairs = st.tuples(values, values)
    condition = st.builds(Operation, st.sampled_from(COMPARISONS), pairs)
    unary = st.sampled_from([name for name, (count, _) in OPERATIONS.items() if count == 1])
    binary = st.sampled_from(["+", "-", "*", "/", "min", "max"])
    return st.one_of(
        st.builds(Operation, unary, st.tuples(values)),
        st.builds(Operation, binary, pairs),
        st.builds(lambda *values: Operation("where", values), condition, values, values),
    )


def _checked(root):
    used = [node.name for node in nodes(root) if isinstance(node, Name)]
    return Expression(root, tuple(dict.fromkeys(name for name in used if name != "acc")))


TREES = st.recursive(LEAVES, _larger, max_leaves=8)
EXPRESSIONS = TREES.map(lambda root: Operation("+", (root, Name("acc")))).map(_checked)
"""Random expressions over `acc` and perhaps NAMES."""


def applied(expression, values, kind=fp32):
    """The expression of fp32 arrays by name, one element per lane, computed in the emulator for results of `kind`.

    The results are not rounded to it.
    """
    lanes = len(values["acc"])
    blocks = -(-lanes // 1024)
    names = ("acc", *expression.operands)
    text = f"""
#include "epilogue/functions.cuh"
namespace tilewright {{
extern "C" __global__ void apply({", ".join(f"const float* {name}" for name in names)}, float* out) {{
  using Output = {kind.cuda};
  const int lane = threadIdx.x + blockIdx.x * blockDim.x;
  out[lane] = {expression.cuda({name: f"{name}[lane]" for name in names})};
}}
}}
"""
    compiled = compile(TranslationUnit("apply", text, reachable_headers(text)), H200.virtual_arch)
    device = Device(memory_bytes=1 << 22)
    addresses = [device.upload(values[name].astype(np.float32)) for name in names]
    out = device.allocate(4 * lanes)
    device.launch(device.load(compiled.ptx), (blocks,), (lanes // blocks,), [*addresses, out])
    return device.read(out, 4 * lanes).view(np.float32)
