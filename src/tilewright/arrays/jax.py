"""JAX: immutable arrays, which share their memory through DLPack."""

import sys
from dataclasses import replace
from typing import Any

from tilewright.arrays.dlpack import DlpackLibrary
from tilewright.errors import ArgumentTypeError
from tilewright.operand import Operand


class JaxLibrary(DlpackLibrary):
    """JAX."""

    def has(self, array: Any) -> bool:
        """Whether it is an array of JAX, traced ones among them; does not import JAX."""
        jax = sys.modules.get("jax")
        return jax is not None and isinstance(array, jax.Array)

    def adopt(self, array: Any, argument: str) -> Operand:
        """The Operand of an array, which nobody may write to; refuses what `jax.jit` traces."""
        if isinstance(array, sys.modules["jax"].core.Tracer):
            raise ArgumentTypeError(
                f"{argument} is traced by JAX and has no memory: call tilewright outside of jax.jit, grad and vmap"
            )
        return replace(super().adopt(array, argument), writable=False)


JAX = JaxLibrary()
