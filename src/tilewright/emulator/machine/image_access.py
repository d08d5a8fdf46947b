"""What instructions do with textures and surfaces, by their handles.

Source: PTX ISA, "Texture Instructions" and "Surface Instructions"; CUDA programming guide, "Texture Fetching".
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tilewright.emulator.errors import EmulatorError, Misaligned, OutOfBounds
from tilewright.emulator.lanes import Active, Array, Group, Indices, Mask, lane_values, lanes_of
from tilewright.emulator.machine.access import modify
from tilewright.emulator.machine.bound.images import Bound, Image, Texture
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import GLOBAL_BASE
from tilewright.emulator.semantics import linear_filter


class ImageAccess:
    """The accesses of a wave to textures and surfaces."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave

    def fetch(
        self, site: int, group: Group, geometry: str, handle: Array, coordinates: Sequence[Array], active: Active
    ) -> list[Array]:
        """tex: the four channels at each lane's coordinates, as bits; those that the image lacks are all ones."""
        found = [np.full(group.size, 0xFFFFFFFF, np.uint32) for _ in range(4)]
        for texture, lanes, chosen, places in self._textures(site, group, geometry, handle, coordinates, active):
            for channel, values in enumerate(self._looked_up(site, texture, lanes, places)):
                found[channel][chosen] = values
        return found

    def gather(
        self,
        site: int,
        group: Group,
        geometry: str,
        handle: Array,
        coordinates: Sequence[Array],
        channel: int,
        active: Active,
    ) -> list[Array]:
        """tld4: a channel of the four texels of a linear filter, counter-clockwise from the lower left."""
        found = [np.zeros(group.size, np.uint32) for _ in range(4)]
        for texture, lanes, chosen, (layer, *axes) in self._textures(
            site, group, geometry, handle, coordinates, active
        ):
            if channel >= texture.image.channels:
                raise EmulatorError(f"{self._at(site)} gathers channel {channel} of {texture.image.channels}")
            fixed = [linear_filter.fixed(self._scaled(texture, axis, d)) for d, axis in enumerate(axes)]
            low = [axis // linear_filter.ONE for axis in fixed]
            for number, (right, down) in enumerate(((0, 1), (1, 1), (1, 0), (0, 0))):
                texels = self._texels(site, texture, lanes, layer, [low[0] + right, low[1] + down])
                found[number][chosen] = _bits(texels[:, channel], texture)
        return found

    def query(self, site: int, group: Group, handle: Array, what: str, active: Active) -> Array:
        """txq and suq: an extent in texels."""
        found = np.zeros(group.size, np.uint32)
        for bound, chosen in self._bound(site, group, handle, active):
            image = bound.image if isinstance(bound, Texture) else bound
            extents = dict(zip(("width", "height", "depth"), image.extents, strict=False))
            found[chosen] = extents.get(what, 0)
        return found

    def load(
        self,
        site: int,
        group: Group,
        geometry: str,
        handle: Array,
        coordinates: Sequence[Array],
        dtype: npt.DTypeLike,
        count: int,
        outside: str,
        active: Active,
    ) -> list[Array]:
        """suld.b: `count` elements at each lane's coordinates, of which the first counts bytes."""
        found = [np.zeros(group.size, dtype) for _ in range(count)]
        width = np.dtype(dtype).itemsize * count
        for lanes, chosen, where in self._surfaces(
            site, group, geometry, handle, coordinates, width, outside, "suld", active
        ):
            assert lanes.size == where.size
            for target, values in zip(found, self._wave.access.memory.gather(where, dtype, count), strict=True):
                target[chosen] = values
        return found

    def store(
        self,
        site: int,
        group: Group,
        geometry: str,
        handle: Array,
        coordinates: Sequence[Array],
        values: Sequence[Array],
        outside: str,
        active: Active,
    ) -> None:
        """sust.b."""
        width = values[0].dtype.itemsize * len(values)
        memory = self._wave.access.memory
        for lanes, chosen, where in self._surfaces(
            site, group, geometry, handle, coordinates, width, outside, "sust", active
        ):
            stored = [lanes_of(value, group.size)[chosen] for value in values]
            memory.scatter(where, stored)
            self._wave.tell.stored(site, lanes, memory, where, stored, None)

    def reduce(
        self,
        site: int,
        group: Group,
        geometry: str,
        handle: Array,
        coordinates: Sequence[Array],
        form: tuple[str, str],
        value: Array,
        outside: str,
        active: Active,
    ) -> None:
        """sured.b. form: operation and type."""
        for _, chosen, where in self._surfaces(
            site, group, geometry, handle, coordinates, value.dtype.itemsize, outside, "sured", active
        ):
            modify(self._wave.access.memory, where, form, lanes_of(value, group.size)[chosen])

    # Handles ---------------------------------------------------------------------------------------------------------

    def _bound(self, site: int, group: Group, handle: Array, active: Active) -> Iterator[tuple[Bound, Indices]]:
        """What each handle of active lanes stands for, and these lanes."""
        chosen = np.arange(group.size) if active is None else np.flatnonzero(lanes_of(active, group.size))
        handles = lane_values(handle, group.size, chosen)
        for number in np.unique(handles).tolist():
            bound = self._wave.launch.images.get(number)
            if bound is None:
                raise EmulatorError(
                    f"{self._at(site)} takes the handle {number:#x}, which is none of this device: make it with "
                    "Device.images"
                )
            yield bound, chosen[handles == number]

    def _require_geometry(self, site: int, image: Image, geometry: str) -> None:
        if image.geometry != geometry:
            raise EmulatorError(f"{self._at(site)} is .{geometry}, and its image is {image.geometry}")

    def _at(self, site: int) -> str:
        return self._wave.words.describe(site)

    # Textures --------------------------------------------------------------------------------------------------------

    def _textures(
        self, site: int, group: Group, geometry: str, handle: Array, coordinates: Sequence[Array], active: Active
    ) -> Iterator[tuple[Texture, Group, Indices, list[Array]]]:
        """The textures of active lanes: the lanes as a group and by number, a layer, and coordinates by axis."""
        as_float = self._wave.words.modifiers(site)[-2] == "f32"
        for bound, chosen in self._bound(site, group, handle, active):
            if not isinstance(bound, Texture):
                raise EmulatorError(f"{self._at(site)} takes a texture, and the handle is that of a surface")
            self._require_geometry(site, bound.image, geometry)
            if bound.as_float != as_float:
                kind = "floats" if bound.as_float else "integers"
                raise EmulatorError(f"{self._at(site)}: the texture gives {kind}, which the type does not say")
            places = [lanes_of(each, group.size)[chosen] for each in coordinates]
            layer = np.zeros(chosen.size, np.int64)
            if bound.image.layers:
                layer = np.minimum(places.pop(0).view(np.uint32).astype(np.int64), bound.image.layers - 1)
            yield bound, group.take(_mask(chosen, group.size)), chosen, [layer, *places[: len(bound.image.extents)]]

    def _looked_up(self, site: int, texture: Texture, lanes: Group, places: list[Array]) -> list[Array]:
        """The channels of lookups, as bits."""
        layer, *axes = places
        if axes[0].dtype.kind == "i":  # tex1Dfetch: a texel by its number, zeros outside
            texels = self._texels(site, texture, lanes, layer, [axes[0].astype(np.int64)], "border")
            return [_bits(texels[:, channel], texture) for channel in range(texture.image.channels)]
        scaled = [self._scaled(texture, axis, d) for d, axis in enumerate(axes)]
        if texture.filter == "point":
            numbers = [np.floor(axis).astype(np.int64) for axis in scaled]
            texels = self._texels(site, texture, lanes, layer, numbers)
            return [_bits(texels[:, channel], texture) for channel in range(texture.image.channels)]
        fixed = [linear_filter.fixed(axis) for axis in scaled]
        if texture.address == "clamp":  # ahead of the split into texel and weight, as on an H200
            last = [linear_filter.ONE * (extent - 1) for extent in texture.image.extents]
            fixed = [np.clip(axis, 0, most) for axis, most in zip(fixed, last, strict=True)]
        low, upper = zip(*(np.divmod(axis, linear_filter.ONE) for axis in fixed), strict=True)
        average = np.zeros((lanes.size, texture.image.channels))
        for corner, weight in linear_filter.corner_weights(upper).items():
            at = [start + side for start, side in zip(low, corner, strict=True)]
            average += weight[:, None] * self._texels(site, texture, lanes, layer, at).astype(np.float64)
        found = linear_filter.rounded(average / linear_filter.ONE, texture.image.dtype)
        return list(found.T.astype(np.float32).view(np.uint32))

    def _scaled(self, texture: Texture, axis: Array, dimension: int) -> npt.NDArray[np.float64]:
        """Coordinates along an axis in texels; far outside they are brought near, where it makes no difference."""
        extent = texture.image.extents[dimension]
        scaled = np.nan_to_num(axis.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        scaled = scaled * extent if texture.normalized else scaled
        if texture.address in ("wrap", "mirror"):
            return np.asarray(np.nan_to_num(np.fmod(scaled, 2 * extent)))
        return np.clip(scaled, -2 * extent - 2, 3 * extent + 2)

    def _texels(
        self,
        site: int,
        texture: Texture,
        lanes: Group,
        layer: Indices,
        numbers: list[Indices],
        outside: str | None = None,
    ) -> Array:
        """Texels by their numbers along each axis: (lanes, channels).

        Integers that count as floats from -1 to 1 lack the lowest, which is -1 like the next.
        """
        image, within = texture.image, np.ones(lanes.size, np.bool_)
        index, unit = np.zeros(lanes.size, np.int64), 1
        for number, extent in zip(numbers, image.extents, strict=True):
            place, inside = _ADDRESS[outside or texture.address](number, extent)
            index, unit, within = index + place * unit, unit * extent, within & inside
        where = image.address - GLOBAL_BASE + (layer * unit + index) * image.texel_bytes
        texels = np.zeros((lanes.size, image.channels), image.dtype)
        if within.any():
            chosen = None if within.all() else np.flatnonzero(within)
            read = where if chosen is None else where[chosen]
            self._wave.tell.accessed(site, "tex", "global", lanes, read, image.texel_bytes, chosen)
            found = self._wave.access.memory.bytes[read[:, None] + np.arange(image.texel_bytes)].view(image.dtype)
            texels[slice(None) if chosen is None else chosen] = found
        if texture.as_float and image.dtype.kind == "i":
            return np.asarray(np.maximum(texels, -np.iinfo(texels.dtype).max))
        return texels

    # Surfaces --------------------------------------------------------------------------------------------------------

    def _surfaces(
        self,
        site: int,
        group: Group,
        geometry: str,
        handle: Array,
        coordinates: Sequence[Array],
        width: int,
        outside: str,
        kind: str,
        active: Active,
    ) -> Iterator[tuple[Group, Indices, Indices]]:
        """The lanes that access a surface, as a group and by number, and their offsets in global memory."""
        for image, chosen in self._bound(site, group, handle, active):
            if isinstance(image, Texture):
                raise EmulatorError(f"{self._at(site)} takes a surface, and the handle is that of a texture")
            self._require_geometry(site, image, geometry)
            given = [lanes_of(each, group.size)[chosen] for each in coordinates]
            layer = [given.pop(0).view(np.uint32).astype(np.int64)] if image.layers else []
            row = image.extents[0] * image.texel_bytes
            limits = [row - width + 1, *image.extents[1:]]
            places = [each.view(np.int32).astype(np.int64) for each in given[: len(limits)]] + layer
            limits += [image.layers] * len(layer)
            within = np.all([(at >= 0) & (at < limit) for at, limit in zip(places, limits, strict=True)], axis=0)
            if outside == "clamp":
                places = [np.clip(at, 0, max(limit - 1, 0)) for at, limit in zip(places, limits, strict=True)]
            elif not within.all():
                if outside == "trap":
                    first = int(np.flatnonzero(~within)[0])
                    at = tuple(int(place[first]) for place in places)
                    raise OutOfBounds(
                        f"{self._at(site)} accesses {width} bytes at {at}, of which x counts bytes, in a surface of "
                        f"{image.extents} texels of {image.texel_bytes} bytes: .trap ends the launch there",
                        lane=group.indices[chosen[first : first + 1]],
                    )
                chosen, places = chosen[within], [at[within] for at in places]
            if not chosen.size:
                continue
            where, unit = image.address - GLOBAL_BASE + places[0], row
            for place, extent in zip(places[1:], [*image.extents[1:], 0], strict=False):
                where, unit = where + place * unit, unit * extent
            if (places[0] % width).any():
                raise Misaligned(f"{self._at(site)} accesses {width} bytes at an x that is no multiple of {width}")
            lanes = group.take(_mask(chosen, group.size))
            self._wave.tell.accessed(site, kind, "global", lanes, where, width, None)
            yield lanes, chosen, where


def _bits(values: Array, texture: Texture) -> Array:
    """A channel of texels as 32 bits: floats, or integers extended by their sign."""
    if not texture.as_float:
        return values.astype(np.int64).astype(np.uint32)
    if values.dtype.kind != "f":
        values = values / np.float64(np.iinfo(values.dtype).max)
    return values.astype(np.float32).view(np.uint32)


def _mask(chosen: Indices, size: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[chosen] = True
    return mask


def _clamped(number: Indices, extent: int) -> tuple[Indices, Mask]:
    return np.clip(number, 0, extent - 1), np.ones(number.size, np.bool_)


def _bordered(number: Indices, extent: int) -> tuple[Indices, Mask]:
    return np.clip(number, 0, extent - 1), (number >= 0) & (number < extent)


def _wrapped(number: Indices, extent: int) -> tuple[Indices, Mask]:
    return number % extent, np.ones(number.size, np.bool_)


def _mirrored(number: Indices, extent: int) -> tuple[Indices, Mask]:
    turned = number % (2 * extent)
    return np.where(turned < extent, turned, 2 * extent - 1 - turned), np.ones(number.size, np.bool_)


_ADDRESS: dict[str, Callable[[Indices, int], tuple[Indices, Mask]]] = {
    "clamp": _clamped,
    "border": _bordered,
    "wrap": _wrapped,
    "mirror": _mirrored,
}
"""The texel of a number along an axis, and whether there is one, by the addressing mode."""
