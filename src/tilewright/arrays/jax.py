"""JAX: immutable arrays, which share their memory through DLPack."""

import sys
from typing import Any

from tilewright.arrays.dlpack import DlpackLibrary
from tilewright.arrays.library import imported
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.operand import Operand


class JaxLibrary(DlpackLibrary):
    """JAX, whose arrays are immutable."""

    def has(self, array: Any) -> bool:
        """Whether the array is JAX's, including traced ones; does not import JAX."""
        return isinstance(array, imported("jax", "Array"))

    def adopt(self, array: Any, argument: str) -> Operand:
        """The read-only Operand of an array; refuses arrays that `jax.jit` traces, and deleted ones."""
        if isinstance(array, sys.modules["jax"].core.Tracer):
            raise ArgumentTypeError(
                f"{argument} is traced by JAX and has no memory: call tilewright outside of jax.jit, grad and vmap"
            )
        if array.is_deleted():
            raise ArgumentValueError(
                f"{argument} is a deleted JAX array, whose buffer was donated or freed: pass an array that is alive"
            )
        return super().adopt(array, argument)._replace(writable=False)


JAX = JaxLibrary()
