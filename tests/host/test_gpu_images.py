"""What the driver is told of textures and surfaces; a double stands in for it where there is no GPU."""

import numpy as np
import pytest

from support.gpu_images import GpuImage
from support.images import IMAGES
from support.launches import Picture

driver = pytest.importorskip("cuda.bindings.driver")


class Recording:
    """The driver's types, and functions that keep their arguments and succeed with a number each time another."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        if not name.startswith("cu"):
            return getattr(driver, name)

        def called(*arguments):
            self.calls.append((name, arguments))
            kinds = {"cuArray3DCreate": driver.CUarray, "cuTexObjectCreate": driver.CUtexObject}
            return driver.CUresult.CUDA_SUCCESS, kinds.get(name, int)(len(self.calls))

        return called

    def of(self, name):
        """The arguments of the only call of a function."""
        (arguments,) = (arguments for called, arguments in self.calls if called == name)
        return arguments


def checked(result, call):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, call
    return result[1]


@pytest.mark.parametrize(
    ("dimensions", "layered", "shape", "extents"),
    [
        (1, False, (5,), (5, 0, 0)),
        (2, False, (3, 5), (5, 3, 0)),
        (3, False, (2, 3, 5), (5, 3, 2)),
        (1, True, (7, 5), (5, 0, 7)),
        (2, True, (7, 3, 5), (5, 3, 7)),
    ],
)
def test_an_array_has_the_extents_of_the_texels(dimensions, layered, shape, extents):
    double, texels = Recording(), np.zeros((*shape, 2), np.float16)
    image = GpuImage(Picture(texels, dimensions, layered), double, checked)
    (array,) = double.of("cuArray3DCreate")
    assert (array.Width, array.Height, array.Depth) == extents
    assert (array.Format, array.NumChannels) == (driver.CUarray_format.CU_AD_FORMAT_HALF, 2)
    assert array.Flags == driver.CUDA_ARRAY3D_SURFACE_LDST | (driver.CUDA_ARRAY3D_LAYERED if layered else 0)
    (copy,) = double.of("cuMemcpy3D")
    assert copy.WidthInBytes * copy.Height * copy.Depth == texels.nbytes
    (resource,) = double.of("cuSurfObjectCreate")
    assert int(resource.res.array.hArray) == 1
    assert image.read().nbytes == texels.nbytes
    image.destroy()
    assert [name for name, _ in double.calls[-2:]] == ["cuSurfObjectDestroy", "cuArrayDestroy"]


def test_a_texture_has_its_options():
    double = Recording()
    how = {"filter": "linear", "address": "mirror", "normalized": True, "read": "normalized"}
    GpuImage(Picture(np.zeros((3, 5), np.uint8), 2, texture=how), double, checked)
    (array,) = double.of("cuArray3DCreate")
    assert array.Flags == driver.CUDA_ARRAY3D_TEXTURE_GATHER
    _, texture, _ = double.of("cuTexObjectCreate")
    mirror, clamp = (getattr(driver.CUaddress_mode, f"CU_TR_ADDRESS_MODE_{mode}") for mode in ("MIRROR", "CLAMP"))
    assert texture.addressMode == [mirror, mirror, clamp]
    assert texture.filterMode == driver.CUfilter_mode.CU_TR_FILTER_MODE_LINEAR
    assert texture.flags == driver.CU_TRSF_NORMALIZED_COORDINATES
    GpuImage(Picture(np.zeros(5, np.int16), 1, texture={}), double := Recording(), checked)
    assert double.of("cuTexObjectCreate")[1].flags == driver.CU_TRSF_READ_AS_INTEGER


def test_texels_by_their_number_lie_in_linear_memory():
    double, texels = Recording(), np.zeros((5, 4), np.uint16)
    image = GpuImage(Picture(texels, 1, texture={}, linear=True), double, checked)
    resource, *_ = double.of("cuTexObjectCreate")
    assert resource.resType == driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
    assert (resource.res.linear.sizeInBytes, resource.res.linear.numChannels) == (40, 4)
    assert image.read().nbytes == 40
    image.destroy()
    assert double.calls[-1][0] == "cuMemFree"


def test_every_picture_of_the_proof_can_be_made():
    for look in (look for looks in IMAGES.values() for look in looks):
        (picture,) = look.launch().pictures
        image = GpuImage(picture, Recording(), checked)
        assert image.read().nbytes == picture.texels.nbytes, look.name
