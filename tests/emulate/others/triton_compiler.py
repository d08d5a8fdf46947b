"""Triton, also its dialect Gluon: @triton.jit functions in, PTX out, by way of `tilewright.check`'s own door.

The arguments of a case are those of the PTX: a descriptor is a TensorMap with extents and strides behind it, and the
last two are scratch memory.
"""

import os
import tempfile
from importlib import metadata

import numpy as np

import tilewright as tw
from emulate.others.corpus import Case, Launch
from emulate.others.python_compiler import constants, listing, module_of

SCRATCH = 2
"""Parameters that Triton appends."""


def version() -> str:
    """The version of Triton."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # a later release changes the default
    return f"triton {metadata.version('triton')}"


def compile_ptx(case: Case, define: str | None) -> str:
    """The PTX of the function that `entry` or else the file names; options are its constants and Triton's options."""
    from tilewright.checking.doors import Call
    from tilewright.checking.doors.triton import TRITON

    launch = case.launch(np.random.default_rng(0))
    function = getattr(module_of(case.source), case.entry or case.source.stem)
    launches = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        grid = launch.grid if isinstance(launch.grid, tuple) else (launch.grid,)
        call = Call(function, _of_function(launch), grid=grid, options=constants(case, define))
        TRITON.run(call, launches.append)
    (compiled,) = launches
    taken, given = len(compiled.arguments.items), len(launch.arguments)
    if (taken, compiled.block[0]) != (given, launch.block):
        raise SystemExit(f"{case} has {given} arguments and {launch.block} threads: {taken} and {compiled.block[0]}")
    return listing(compiled.source.text, compiled.shared_bytes)


def _of_function(launch: Launch) -> list:
    """The arguments of the Python function, of those of the PTX."""
    found, rest = [], list(launch.arguments[:-SCRATCH])
    while rest:
        value = rest.pop(0)
        if isinstance(value, tw.TensorMap):
            del rest[: 2 * value.array.ndim]
            value = _descriptor(value)
        found.append(value.item() if isinstance(value, np.generic) else value)
    return found


def _descriptor(wanted: tw.TensorMap):
    from triton.tools.tensor_descriptor import TensorDescriptor

    from tilewright.checking.doors.triton import Lent

    base = Lent(wanted.array)
    return TensorDescriptor(base, list(base.shape), list(base.stride()), list(wanted.box))
