"""A launch described once, for the emulator and for the driver: PTX text, buffers, tensor maps, images."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.emulator import Device


@dataclass(frozen=True)
class Tensor:
    """A tensor map over a buffer of the launch, as cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col takes it.

    buffer: its index. offset: bytes from the buffer's start to the tensor's. shape, box: elements, innermost first.
    strides: bytes, of dimensions 1 and up. swizzle: span in bytes. dtype: the element type, as PTX has it.
    element_strides: elements, innermost first; none for ones. oob_nan: whether NaN is filled in out of bounds.
    lower, upper: corners of the bounding box in im2col mode, where the box has channels and pixels; else none.
    """

    buffer: int
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    element_strides: tuple[int, ...] = ()
    oob_nan: bool = False
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Picture:
    """An image of the launch, which the kernel gets as a texture or as a surface.

    texels, dimensions, layered: as Images.make takes them. texture: the options of Images.texture; None for a surface.
    linear: whether the texels lie in linear memory, for texels by their number; else in a CUDA array.
    """

    texels: np.ndarray
    dimensions: int
    layered: bool = False
    texture: Mapping[str, object] | None = None
    linear: bool = False


@dataclass(frozen=True, eq=False)
class Launch:
    """One launch of the only entry of a PTX module.

    The entry takes the tensor maps, then the addresses of the buffers, then the handles of the pictures, then the
    numbers (64 bits each). Buffers are arrays of bytes: what they hold before, and in a result what they hold
    afterwards; in a result the bytes of the pictures follow. hardware: emulated tensor cores add like the GPU's.
    """

    ptx: str
    buffers: tuple[np.ndarray, ...]
    tensors: tuple[Tensor, ...] = ()
    numbers: tuple[int, ...] = ()
    grid: int = 1
    block: int = 32
    cluster: int = 1
    shared_bytes: int = 0
    pictures: tuple[Picture, ...] = ()
    hardware: bool = False

    @property
    def before(self):
        """What a result would be if the kernel wrote nothing."""
        return [*self.buffers, *(picture.texels.reshape(-1).view(np.uint8) for picture in self.pictures)]


def emulate(launch, **options):
    """The buffers and the pictures after the launch in the emulator; `options` are the device's."""
    device = Device(memory_bytes=1 << 26, **({"tensor_cores": "hardware"} if launch.hardware else {}), **options)
    addresses = [device.upload(buffer) for buffer in launch.buffers]
    maps = [_encoded(device, tensor, addresses[tensor.buffer]) for tensor in launch.tensors]
    images = [device.images.make(each.texels, each.dimensions, layered=each.layered) for each in launch.pictures]
    handles = [
        device.images.surface(image) if picture.texture is None else device.images.texture(image, **picture.texture)
        for image, picture in zip(images, launch.pictures, strict=True)
    ]
    device.launch(
        device.load(launch.ptx),
        (launch.grid,),
        (launch.block,),
        [*maps, *addresses, *handles, *launch.numbers],
        cluster=(launch.cluster,),
        shared_bytes=launch.shared_bytes,
    )
    buffers = [device.read(address, buffer.nbytes) for address, buffer in zip(addresses, launch.buffers, strict=True)]
    return buffers + [device.images.read(image).reshape(-1).view(np.uint8) for image in images]


def _encoded(device, tensor, base):
    """A tensor map, given the address of its buffer."""
    common = {
        "address": base + tensor.offset,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "strides": tensor.strides,
        "swizzle": tensor.swizzle,
        "element_strides": tensor.element_strides,
        "oob_fill": "nan" if tensor.oob_nan else "zeros",
    }
    if not tensor.lower:
        return device.tensor_map(**common, box=tensor.box)
    channels, pixels = tensor.box
    return device.tensor_map_im2col(
        **common,
        lower_corner=tensor.lower,
        upper_corner=tensor.upper,
        channels_per_pixel=channels,
        pixels_per_column=pixels,
    )
