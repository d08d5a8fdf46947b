"""Images on the GPU: CUDA arrays, and the textures and surfaces of them."""

import numpy as np

_FORMATS = {
    "uint8": "UNSIGNED_INT8", "uint16": "UNSIGNED_INT16", "uint32": "UNSIGNED_INT32", "int8": "SIGNED_INT8",
    "int16": "SIGNED_INT16", "int32": "SIGNED_INT32", "float16": "HALF", "float32": "FLOAT",
}  # fmt: skip
"""The driver's names of the types of channels."""


class GpuImage:
    """The image of a Picture, and its handle; raises what the driver's refusals raise."""

    def __init__(self, picture, driver, checked):
        self._driver, self._checked = driver, checked
        self._texels = np.ascontiguousarray(picture.texels)
        rank = picture.dimensions + picture.layered
        self._channels = self._texels.shape[-1] if self._texels.ndim > rank else 1
        self._format = getattr(driver.CUarray_format, f"CU_AD_FORMAT_{_FORMATS[self._texels.dtype.name]}")
        resource = self._linear() if picture.linear else self._array(picture)
        if picture.texture is None:
            self.handle, self._end = int(checked(driver.cuSurfObjectCreate(resource), "cuSurfObjectCreate")), "Surf"
        else:
            described = self._described(picture.dimensions, **picture.texture)
            created = driver.cuTexObjectCreate(resource, described, None)
            self.handle, self._end = int(checked(created, "cuTexObjectCreate")), "Tex"

    def _array(self, picture):
        """A CUDA array with the texels, as a resource."""
        driver, layered = self._driver, picture.layered
        extents = self._texels.shape[layered : picture.dimensions + layered][::-1]
        width, height, depth = (*extents, 0, 0)[:3]
        array = driver.CUDA_ARRAY3D_DESCRIPTOR()
        array.Width, array.Height, array.Depth = width, height, self._texels.shape[0] if layered else depth
        array.Format, array.NumChannels = self._format, self._channels
        flags = driver.CUDA_ARRAY3D_LAYERED if layered else 0
        if picture.texture is None:
            flags |= driver.CUDA_ARRAY3D_SURFACE_LDST
        elif picture.dimensions == 2 and not layered:
            flags |= driver.CUDA_ARRAY3D_TEXTURE_GATHER
        array.Flags = flags
        self._memory = self._checked(driver.cuArray3DCreate(array), "cuArray3DCreate")
        copy = driver.CUDA_MEMCPY3D()
        copy.WidthInBytes = width * self._channels * self._texels.itemsize
        copy.Height, copy.Depth = max(height, 1), max(array.Depth, 1)
        copy.srcPitch, copy.srcHeight = copy.WidthInBytes, copy.Height
        copy.srcMemoryType, copy.srcHost = driver.CUmemorytype.CU_MEMORYTYPE_HOST, self._texels.ctypes.data
        copy.dstMemoryType, copy.dstArray = driver.CUmemorytype.CU_MEMORYTYPE_ARRAY, self._memory
        self._checked(driver.cuMemcpy3D(copy), "cuMemcpy3D")
        self._shape = copy.WidthInBytes, copy.Height, copy.Depth
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
        resource.res.array.hArray = self._memory
        return resource

    def _linear(self):
        """Linear memory with the texels, as a resource."""
        driver, nbytes = self._driver, self._texels.nbytes
        self._memory, self._shape = self._checked(driver.cuMemAlloc(nbytes), "cuMemAlloc"), None
        self._checked(driver.cuMemcpyHtoD(self._memory, self._texels.ctypes.data, nbytes), "cuMemcpyHtoD")
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        linear = resource.res.linear
        linear.devPtr, linear.sizeInBytes = self._memory, nbytes
        linear.format, linear.numChannels = self._format, self._channels
        return resource

    def _described(self, dimensions, filter="point", address="clamp", normalized=False, read="element"):
        """The driver's description of a texture with the options of Images.texture.

        Axes that the image lacks are clamped. With a border there, an H200 halves what a linear filter gives in one
        dimension: it takes the border for the row above the only one.
        """
        driver, texture = self._driver, self._driver.CUDA_TEXTURE_DESC()
        modes = [address] * dimensions + ["clamp"] * (3 - dimensions)
        texture.addressMode = [getattr(driver.CUaddress_mode, f"CU_TR_ADDRESS_MODE_{mode.upper()}") for mode in modes]
        texture.filterMode = getattr(driver.CUfilter_mode, f"CU_TR_FILTER_MODE_{filter.upper()}")
        texture.flags = driver.CU_TRSF_NORMALIZED_COORDINATES if normalized else 0
        if read == "element" and self._texels.dtype.kind in "ui":
            texture.flags |= driver.CU_TRSF_READ_AS_INTEGER
        return texture

    def read(self):
        """The bytes of the texels."""
        driver, texels = self._driver, np.empty(self._texels.nbytes, np.uint8)
        if self._shape is None:
            copied = driver.cuMemcpyDtoH(texels.ctypes.data, self._memory, texels.nbytes)
            self._checked(copied, "cuMemcpyDtoH")
            return texels
        copy = driver.CUDA_MEMCPY3D()
        copy.WidthInBytes, copy.Height, copy.Depth = self._shape
        copy.srcMemoryType, copy.srcArray = driver.CUmemorytype.CU_MEMORYTYPE_ARRAY, self._memory
        copy.dstMemoryType, copy.dstHost = driver.CUmemorytype.CU_MEMORYTYPE_HOST, texels.ctypes.data
        copy.dstPitch, copy.dstHeight = copy.WidthInBytes, copy.Height
        self._checked(driver.cuMemcpy3D(copy), "cuMemcpy3D")
        return texels

    def destroy(self):
        """End the handle and the memory."""
        end = getattr(self._driver, f"cu{self._end}ObjectDestroy")
        self._checked(end(self.handle), f"cu{self._end}ObjectDestroy")
        free = "cuMemFree" if self._shape is None else "cuArrayDestroy"
        self._checked(getattr(self._driver, free)(self._memory), free)
