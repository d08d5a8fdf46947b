"""CuTe DSL: @cute.jit host functions in, the PTX of their kernel out, by way of `tilewright.check`'s own door.

The host function takes the arrays of the case in their order, TensorMaps too, as tensors of static shapes; and its
options as constants.
"""

from importlib import metadata

import numpy as np

import tilewright as tw
from emulate.others.corpus import Case
from emulate.others.python_compiler import constants, listing, module_of


def version() -> str:
    """The version of CuTe DSL."""
    return f"nvidia-cutlass-dsl {metadata.version('nvidia-cutlass-dsl')}"


def compile_ptx(case: Case, define: str | None) -> str:
    """The PTX of what the function launches that the file names."""
    from cutlass.cute.runtime import from_dlpack

    from tilewright.checking.doors import Call
    from tilewright.checking.doors.cute import CUTE
    from tilewright.checking.doors.dlpack import Exported

    launch = case.launch(np.random.default_rng(0))
    arrays = [each.array if isinstance(each, tw.TensorMap) else each for each in launch.arguments]
    tensors = [from_dlpack(Exported(each), assumed_align=16) for each in arrays if isinstance(each, np.ndarray)]
    numbers = [each for each in arrays if isinstance(each, float)]
    function = getattr(module_of(case.source), case.source.stem)
    launches = []
    CUTE.run(Call(function, [*tensors, *numbers], options=constants(case, define)), launches.append)
    (compiled,) = launches
    found, given = (compiled.grid, compiled.block, compiled.cluster), (launch.grid, launch.block, launch.cluster)
    if [_three(each) for each in found] != [_three(each) for each in given]:
        raise SystemExit(f"{case} launches grid, block and cluster {given}: they are {found}")
    return listing(compiled.source.text, compiled.shared_bytes)


def _three(extents: int | tuple[int, ...]) -> tuple[int, ...]:
    given = extents if isinstance(extents, tuple) else (extents,)
    return (*given, *(1,) * (3 - len(given)))
