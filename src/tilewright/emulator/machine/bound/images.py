"""Images in global memory, and the textures and surfaces by which kernels see them.

Source: CUDA programming guide, "Texture and Surface Memory"; CUDA driver API, "Texture Object Management".
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.emulator.memory import GlobalMemory
from tilewright.errors import ArgumentTypeError, ArgumentValueError

_HANDLES = 1 << 40
"""The first handle: no address of any memory, so a mistaken handle is found."""
_FILTERS = ("point", "linear")
_ADDRESSING = ("clamp", "border", "wrap", "mirror")
_MOST_EXTENT = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """An image in global memory, row by row.

    extents: width, then height and depth if there are any, in texels.
    layers: how many images of these extents there are; 0 for an image that is not layered.
    dtype: of a channel: u1, u2, u4, i1, i2, i4, f2 or f4.
    """

    address: int
    extents: tuple[int, ...]
    layers: int
    dtype: "np.dtype[np.generic]"
    channels: int

    @property
    def texel_bytes(self) -> int:
        """Bytes of a texel."""
        return self.dtype.itemsize * self.channels

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the texels as an array."""
        layers = (self.layers,) if self.layers else ()
        channels = (self.channels,) if self.channels > 1 else ()
        return (*layers, *self.extents[::-1], *channels)

    @property
    def geometry(self) -> str:
        """The geometry as instructions name it."""
        return f"{'a' * bool(self.layers)}{len(self.extents)}d"


@dataclass(frozen=True, slots=True, eq=False)
class Texture:
    """A way to look up texels: see `Images.texture`."""

    image: Image
    filter: str
    address: str
    normalized: bool
    as_float: bool


Bound: TypeAlias = Image | Texture
"""What a handle stands for: an image is a surface."""


class Images:
    """The images of a device, and the handles of its textures and surfaces; kernels take these as 64-bit integers."""

    def __init__(self, memory: GlobalMemory) -> None:
        self._memory = memory
        self.bound: dict[int, Bound] = {}

    def make(self, texels: npt.NDArray[np.generic], dimensions: int, *, layered: bool = False) -> Image:
        """A copy of an array as an image, like a CUDA array.

        texels: [layers,] [[depth,] height,] width [, channels] of 8, 16 or 32 bits; 1, 2 or 4 channels.
        dimensions: 1, 2 or 3; layered images have 1 or 2.

        Raises ValueError or TypeError for other arrays.
        """
        if not isinstance(texels, np.ndarray) or texels.dtype.kind not in "uif" or texels.dtype.itemsize > 4:
            raise ArgumentTypeError("texels must be a NumPy array of integers or floats of 8, 16 or 32 bits")
        if dimensions not in (1, 2, 3) or (layered and dimensions == 3):
            raise ArgumentValueError(f"dimensions is {dimensions} and must be 1, 2 or 3, and 1 or 2 for layered images")
        rank = dimensions + layered
        channels = texels.shape[-1] if texels.ndim == rank + 1 else 1
        if texels.ndim not in (rank, rank + 1) or channels not in (1, 2, 4):
            raise ArgumentValueError(
                f"texels has shape {texels.shape} and must have {rank} dimensions, and then 1, 2 or 4 channels if any"
            )
        extents = texels.shape[layered:rank][::-1]
        if not texels.size or max(extents) > _MOST_EXTENT:
            raise ArgumentValueError(f"texels has shape {texels.shape}: extents must be in 1..{_MOST_EXTENT}")
        address = self._memory.allocate(texels.nbytes, 512, internal=True)
        self._memory.slice(address, texels.nbytes)[...] = np.ascontiguousarray(texels).reshape(-1).view(np.uint8)
        return Image(address, extents, texels.shape[0] if layered else 0, texels.dtype, channels)

    def read(self, image: Image) -> npt.NDArray[np.generic]:
        """The texels of an image, in the shape that it was made of, with the channels last if there are several."""
        _require(image)
        nbytes = int(np.prod(image.shape)) * image.dtype.itemsize
        return self._memory.slice(image.address, nbytes).copy().view(image.dtype).reshape(image.shape)

    def texture(
        self,
        image: Image,
        *,
        filter: str = "point",
        address: str = "clamp",
        normalized: bool = False,
        read: str = "element",
    ) -> int:
        """The handle of a texture: a kernel argument of type cudaTextureObject_t.

        filter: "point" or "linear". address: of coordinates outside: "clamp", "border" (zeros), "wrap" or "mirror".
        normalized: whether coordinates run from 0 to 1, as "wrap" and "mirror" need.
        read: "element", or "normalized": integers of 8 and 16 bits as floats from 0 or -1 to 1.

        Raises ValueError for what CUDA does not have, and TypeError for what is no image.
        """
        _require(image)
        if filter not in _FILTERS or address not in _ADDRESSING or read not in ("element", "normalized"):
            raise ArgumentValueError(
                f"filter is {filter!r}, address {address!r}, read {read!r}; they must be point or linear, one of "
                f"{', '.join(_ADDRESSING)}, and element or normalized"
            )
        if address in ("wrap", "mirror") and not normalized:
            raise ArgumentValueError(f"address is {address!r} and needs normalized=True")
        whole = image.dtype.kind in "ui"
        if read == "normalized" and (not whole or image.dtype.itemsize > 2):
            raise ArgumentValueError(f"read is 'normalized' and needs integers of 8 or 16 bits, not {image.dtype}")
        as_float = not whole or read == "normalized"
        if filter == "linear" and not as_float:
            raise ArgumentValueError("filter is 'linear' and needs texels that are read as floats")
        return self._bind(Texture(image, filter, address, normalized, as_float))

    def surface(self, image: Image) -> int:
        """The handle of a surface: a kernel argument of type cudaSurfaceObject_t."""
        _require(image)
        return self._bind(image)

    def _bind(self, bound: Bound) -> int:
        handle = _HANDLES + len(self.bound)
        self.bound[handle] = bound
        return handle


def _require(image: object) -> None:
    if not isinstance(image, Image):
        raise ArgumentTypeError(f"image is of type {type(image).__name__}: pass what images.make returned")
