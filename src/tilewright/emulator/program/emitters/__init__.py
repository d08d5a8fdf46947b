"""The instructions, family by family, as statements of the generated functions.

Each module registers its emitters with `writer.emits` when it is imported, and this package imports them all.
"""

from tilewright.emulator.program.emitters import barriers, floats, images, integers, matrices, memory, moves, video

__all__ = ["barriers", "floats", "images", "integers", "matrices", "memory", "moves", "video"]
