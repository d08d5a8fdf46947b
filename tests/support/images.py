"""Instructions on textures and surfaces, each of 256 threads with coordinates of its own."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from support.forms.agreement import agree, shown
from support.launches import Launch, Picture

LANES = 256
EXTENTS = {"1d": (13,), "2d": (13, 6), "3d": (5, 4, 3), "a1d": (13,), "a2d": (5, 4)}
EVEN_EXTENTS = {"1d": (16,), "2d": (8, 4), "3d": (4, 4, 2), "a1d": (8,), "a2d": (8, 4)}
"""Powers of two, by which multiples of 1/256 of a texel are exact as normalized coordinates, too."""
LAYERS = 3
AXES = {"1d": "{%c0}", "2d": "{%c0, %c1}", "3d": "{%c0, %c1, %c2, %c2}", "a1d": "{%c3, %c0}",
        "a2d": "{%c3, %c0, %c1, %c1}"}  # fmt: skip
"""The coordinates of an instruction: %c3 is the layer."""
_SHOWN = 8
"""Of the results that differ, so many are in the record: enough to infer a rule from."""

_TEXT = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry look(.param .u64 given, .param .u64 found, .param .u64 image)
{
  .reg .b64 %given, %found, %image;
  .reg .b32 %thread, %c<4>;
  .reg .bREGISTER %v<4>;
  mov.u32 %thread, %tid.x;
  ld.param.u64 %given, [given];
  mad.wide.u32 %given, %thread, 48, %given;
  ld.param.u64 %found, [found];
  mad.wide.u32 %found, %thread, 32, %found;
  ld.param.u64 %image, [image];
  ld.global.v4.b32 {%c0, %c1, %c2, %c3}, [%given];
"""


@dataclass(frozen=True, eq=False)
class Look:
    """One instruction on an image.

    text: PTX that gives %v0, %v1, ... or takes them. kind, count: their type in PTX, and their number. writes: whether
    the instruction takes them. geometry: of the image, as PTX names it; even: whether its extents are EVEN_EXTENTS.
    dtype, channels: of the texels. texture: the options of Images.texture; None for a surface. linear: whether the
    image lies in linear memory. places: the coordinates, "texels" (multiples of 1/16), "inside texels" (not near their
    borders), "near borders" (of texels, within 1/256), "weights" (multiples of 1/256), "anywhere" or "numbers" of
    texels; of surfaces the bytes that the first coordinate is a multiple of.
    """

    text: str
    kind: str
    count: int
    geometry: str
    dtype: str
    channels: int = 1
    texture: Mapping[str, object] | None = None
    places: str | int = "texels"
    even: bool = False
    writes: bool = False
    linear: bool = False

    @property
    def name(self):
        """All of it in words."""
        options = (self.texture or {}).items()
        how = "".join(f", {name} {value}" for name, value in options)
        where = "linear memory" if self.linear else f"{self.geometry} {'x'.join(map(str, self._extents))}"
        return f"{self.text} of {self.channels} {self.dtype} in {where}{how}, at {self.places}"

    @property
    def shape(self):
        """The shape of the texels, without channels."""
        layers = (LAYERS,) if self.geometry[0] == "a" else ()
        return (*layers, *self._extents[::-1])

    @property
    def _extents(self):
        return (EVEN_EXTENTS if self.even else EXTENTS)[self.geometry]

    @property
    def _width(self):
        """Bits of a %v."""
        return int(self.kind[1:])

    @cached_property
    def texels(self):
        """Of floats, multiples of 1/8 in -128..128; of integers all bits."""
        shape = (*self.shape, self.channels) if self.channels > 1 else self.shape
        dtype, generator = np.dtype(self.dtype), self._generator(0)
        if dtype.kind == "f":
            return (generator.integers(-1024, 1025, shape) / 8).astype(dtype)
        return generator.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]

    def _generator(self, number):
        return np.random.default_rng((zlib.crc32(self.name.encode()), number))

    @property
    def ptx(self):
        """The module."""
        suffix = f"b{self._width}"
        moves = [(f"%v{index}", f"{8 * index}") for index in range(self.count)]
        before = [f"  ld.global.{suffix} {value}, [%given+{16 + int(at)}];\n" for value, at in moves] * self.writes
        after = [f"  st.global.{suffix} [%found+{at}], {value};\n" for value, at in moves] * (not self.writes)
        header = _TEXT.replace("REGISTER", str(max(self._width, 16)))
        return "".join([header, *before, f"  {self.text}\n", *after, "  ret;\n}\n"])

    def launch(self):
        """The launch: coordinates and values, results, and the image."""
        given = np.zeros(LANES, [("places", "u4", 4), ("values", "u8", 4)])
        given["places"] = self._surface_places() if self.texture is None else self._texture_places()
        values = self._generator(1).integers(0, 256, (LANES, 32), np.uint8).view(np.uint64)
        if self.writes and "sured" not in self.text:  # no order is specified: stores to one place have one value
            values = values[self._destinations(given["places"]) @ np.array([1, 37, 101, 17]) % LANES]
        given["values"] = values
        dimensions = int(self.geometry[-2])
        picture = Picture(self.texels, dimensions, self.geometry[0] == "a", self.texture, self.linear)
        found = np.zeros(LANES * 32, np.uint8)
        return Launch(self.ptx, (given.view(np.uint8), found), block=LANES, pictures=(picture,))

    def _destinations(self, places):
        """Where stores go: the coordinates that count, brought into the surface by .clamp."""
        others, layered = 3 - len(self._extents), self.geometry[0] == "a"
        where = places.view(np.int32).astype(np.int64)
        where[:, 3] = places[:, 3]  # the number of a layer is unsigned
        if ".clamp" in self.text:
            row = self._extents[0] * self._texel_bytes
            last = [row - self.places, *(extent - 1 for extent in self._extents[1:]), *[0] * others, LAYERS - 1]
            where = np.clip(where, 0, last)
        return where * [*[1] * len(self._extents), *[0] * others, layered]

    @property
    def _texel_bytes(self):
        return np.dtype(self.dtype).itemsize * self.channels

    def _layers(self, generator):
        return generator.choice([-1, *range(LAYERS), LAYERS, 1000], LANES)

    def _texture_places(self):
        """Coordinates in texels or normalized as bits, near the image and far from it, and layers."""
        generator, extents = self._generator(2), np.array(self._extents)
        places = np.zeros((LANES, 4), np.uint32)
        low, high = -2 * extents, 3 * extents
        if self.places == "numbers":
            places[:, : extents.size] = (
                generator.integers(low, high, (LANES, extents.size)).astype(np.int32).view(np.uint32)
            )
            return places
        if self.places == "texels":  # whole numbers among them
            wanted = generator.integers(16 * low, 16 * high + 1, (LANES, extents.size)) / 16
        elif self.places == "inside texels":
            fractions = generator.uniform(0.1, 0.9, (LANES, extents.size))
            wanted = generator.integers(low, high, (LANES, extents.size)) + fractions
        elif self.places == "near borders":
            aside = generator.uniform(-1 / 256, 1 / 256, (LANES, extents.size))
            wanted = generator.integers(low, high, (LANES, extents.size)) + aside
        elif self.places == "weights":
            wanted = generator.integers(256 * low, 256 * high, (LANES, extents.size)) / 256
        else:
            wanted = generator.uniform(low, high, (LANES, extents.size))
        if self.texture.get("normalized"):
            wanted = wanted / extents
        places[:, : extents.size] = wanted.astype(np.float32).view(np.uint32)
        places[:, 3] = self._layers(generator)
        return places

    def _surface_places(self):
        """Coordinates of which the first counts bytes, inside the surface and, but for .trap, outside."""
        generator, extents = self._generator(2), self._extents
        steps = extents[0] * self._texel_bytes // self.places
        outside = 3 * (".trap" not in self.text)
        columns = [self.places * generator.integers(-outside, steps + outside, LANES)]
        columns += [generator.integers(-outside, extent + outside, LANES) for extent in extents[1:]]
        columns += [np.zeros(LANES, np.int64)] * (3 - len(columns))
        layers = self._layers(generator) if outside else generator.integers(0, LAYERS, LANES)
        return np.stack([*columns, layers], axis=1).astype(np.int32).view(np.uint32)

    def differences(self, emulated, hardware, run):
        """Sentences about results and texels that differ."""
        found = []
        one, other = (self._results(buffers[1]) for buffers in (emulated, hardware))
        wrong = ~agree(one, other)
        for lane, index in np.argwhere(wrong)[:_SHOWN]:
            results = f"emulator {shown(one[lane, index])}, GPU {shown(other[lane, index])}"
            found.append(f"%v{index} at {self._place(lane)}: {results}")
        if wrong.any():
            found.append(f"{np.count_nonzero(wrong)} of {wrong.size} results differ")
        bytes_ = np.flatnonzero(emulated[2] != hardware[2])
        if bytes_.size:
            at, first = bytes_[:_SHOWN].tolist(), int(bytes_[0])
            found.append(
                f"the image differs in {bytes_.size} bytes, such as {at}: at {first} emulator {emulated[2][first]:#x}, "
                f"GPU {hardware[2][first]:#x}"
            )
        return found

    def explained(self, emulated, hardware):
        """Why the results may differ as they do; empty if they may not.

        A linear filter of signed bytes gives multiples of 1/32767. How an H200 finds the last step is not known.
        """
        rounds = (self.texture or {}).get("filter") == "linear" and self.dtype == "int8"
        if not rounds or (emulated[2] != hardware[2]).any():
            return ""
        steps = [np.rint(self._results(buffers[1]).astype(np.float64) * 32767) for buffers in (emulated, hardware)]
        lower = steps[0] - steps[1]
        if not np.isin(lower, (0, 1)).all():
            return ""
        return f"one step of 1/32767 lower, in {np.count_nonzero(lower)} of {lower.size} results"

    def _place(self, lane):
        """The coordinates of a lane in words."""
        given = self.launch().buffers[0].reshape(LANES, 48)[lane, :16]
        axes = given.view(self._coordinates)[: len(self._extents)].tolist()
        return f"{axes}" + f", layer {given.view(np.int32)[3]}" * (self.geometry[0] == "a")

    @property
    def _coordinates(self):
        return np.float32 if ".f32 " in self.text else np.int32

    def _results(self, buffer):
        """Results of the lanes: (lanes, count); of the channels that a texture lacks nothing is said."""
        slots = buffer.reshape(LANES, 4, 8)[:, : self.count, : self._width // 8]
        of_texture = self.texture is not None and self.text.startswith("tex")
        present = self.channels if of_texture else self.count
        kind = "f4" if self.kind == "f32" else f"u{self._width // 8}"
        return np.ascontiguousarray(slots[:, :present]).view(kind)[..., 0]


UNITS = "%v0, %v1, %v2, %v3"
ADDRESSING: list[dict[str, object]] = [
    {"address": "clamp"}, {"address": "border"}, {"address": "clamp", "normalized": True},
    {"address": "border", "normalized": True}, {"address": "wrap", "normalized": True},
    {"address": "mirror", "normalized": True},
]  # fmt: skip
WHOLE = ("uint8", "uint16", "uint32", "int8", "int16", "int32")


def _lookup(geometry, dtype, channels=1, texture=(), **options):
    """tex of an image."""
    texture = dict(texture)
    as_float = dtype.startswith("float") or texture.get("read") == "normalized"
    kind = "f32" if as_float else "s32" if dtype.startswith("int") else "u32"
    axes = "s32" if options.get("linear") else "f32"
    text = f"tex.{geometry}.v4.{kind}.{axes} {{{UNITS}}}, [%image, {AXES[geometry]}];"
    return Look(text, kind, 4, geometry, dtype, channels, texture, **options)


def _formats():
    """Texels of each type and number of channels, as they are and read as numbers up to 1."""
    for dtype, channels in product((*WHOLE, "float16", "float32"), (1, 2, 4)):
        yield _lookup("2d", dtype, channels)
        if dtype in ("uint8", "uint16", "int8", "int16"):
            yield _lookup("2d", dtype, channels, {"read": "normalized"})
        if not dtype.endswith("int16"):
            yield _lookup("1d", dtype, channels, linear=True, places="numbers")


def _addresses():
    """Each geometry and way of addressing; of extents that are no powers of two, away from the borders of texels."""
    for geometry, how in product(AXES, ADDRESSING):
        yield _lookup(geometry, "float32", 1, how, even=True)
        yield _lookup(geometry, "uint16", 2, how, places="inside texels" if how.get("normalized") else "texels")
    for geometry, how in product(("1d", "2d"), ADDRESSING):
        yield _lookup(geometry, "float32", 1, how, even=True, places="near borders")


def _filtered():
    """Linear filters, bit for bit: their weights are integers, and sums of the floats are exact."""
    for geometry, how in product(AXES, ADDRESSING):
        linear = {**how, "filter": "linear"}
        yield _lookup(geometry, "float32", 1, linear, even=True, places="weights")
        yield _lookup(geometry, "float32", 1, linear, places="anywhere")
    for dtype, channels in product(("float16", "uint8", "uint16", "int8", "int16"), (1, 4)):
        linear = {"filter": "linear"} if dtype == "float16" else {"filter": "linear", "read": "normalized"}
        yield _lookup("2d", dtype, channels, linear, even=True, places="weights")


def _gathered():
    """tld4 of each channel and type, away from the middles of texels and near them."""
    near = product(enumerate("rgba"), ADDRESSING, ("inside texels", "near borders"))
    for (number, channel), how, places in near:
        dtype, kind = (("float32", "f32"), ("uint8", "u32"), ("int32", "s32"), ("float16", "f32"))[number]
        text = f"tld4.{channel}.2d.v4.{kind}.f32 {{{UNITS}}}, [%image, {AXES['2d']}];"
        # The middle of a texel is where the four texels change: half a texel on, these are borders.
        shift = " ".join(f"add.f32 %c{axis}, %c{axis}, {step};" for axis, step in enumerate(_halves(how)))
        yield Look(f"{shift} {text}", kind, 4, "2d", dtype, 4, how, places, even=True)


def _halves(how):
    """Half a texel along the two axes of an even image."""
    extents = EVEN_EXTENTS["2d"] if how.get("normalized") else (1, 1)
    return [f"0f{np.float32(0.5 / extent).view(np.uint32):08x}" for extent in extents]


def _queries(opcode, texture):
    for geometry in AXES:
        # The driver of an H200 (CUDA 13.0) does not load kernels with .array_size, which ptxas assembles.
        for what in ("width", "height", "depth")[: len(EXTENTS[geometry])]:
            yield Look(f"{opcode}.{what}.b32 %v0, [%image];", "b32", 1, geometry, "float32", 1, texture, places=4)


TEXELS = {8: ("uint8", 1), 16: ("uint8", 2), 32: ("uint8", 4), 64: ("uint16", 4), 128: ("uint32", 4)}
"""A type and a number of channels, by the bits of a texel."""


def _on_surface(geometry, bits, count, outside, texel_bits=None, writes=False):
    """suld or sust of vectors of this many bits and elements."""
    dtype, channels = TEXELS[texel_bits or bits * count]
    vector = f".v{count}" if count > 1 else ""
    values = "{" + ", ".join(f"%v{index}" for index in range(count)) + "}" if count > 1 else "%v0"
    place, form = f"[%image, {AXES[geometry]}]", f"{geometry}{vector}.b{bits}.{outside}"
    text = f"sust.b.{form} {place}, {values};" if writes else f"suld.b.{form} {values}, {place};"
    return Look(text, f"b{bits}", count, geometry, dtype, channels, places=bits * count // 8, writes=writes)


def _surfaces():
    """Loads and stores of each width and geometry, past the borders, and of parts of texels."""
    widths = [(bits, count) for bits, count in product((8, 16, 32, 64), (1, 2, 4)) if bits * count <= 128]
    for writes in (False, True):
        for (bits, count), outside in product(widths, ("clamp", "zero", "trap")):
            yield _on_surface("2d", bits, count, outside, writes=writes)
        for geometry, (bits, count), outside in product(AXES, ((32, 1), (16, 4)), ("clamp", "zero", "trap")):
            if geometry != "2d":
                yield _on_surface(geometry, bits, count, outside, writes=writes)
        for bits, texel_bits in ((8, 32), (8, 128), (32, 128)):
            yield _on_surface("2d", bits, 1, "zero", texel_bits, writes)


def _reductions():
    """sured of each operation and type."""
    forms = [("add", "u32"), ("add", "s32"), ("add", "u64"), ("min", "s32"), ("min", "u32"), ("max", "s32"),
             ("max", "u32"), ("and", "b32"), ("or", "b32")]  # fmt: skip
    for (operation, kind), geometry, outside in product(forms, ("1d", "2d", "3d"), ("clamp", "zero")):
        wide = kind == "u64"
        dtype, channels = ("uint32", 2) if wide else ("int32" if kind == "s32" else "uint32", 1)
        text = f"sured.b.{operation}.{geometry}.{kind}.{outside} [%image, {AXES[geometry]}], %v0;"
        yield Look(text, kind, 1, geometry, dtype, channels, places=8 if wide else 4, writes=True)


IMAGES = {
    "texture": [*_formats(), *_addresses(), *_filtered(), *_gathered(), *_queries("txq", {})],
    "surface": [*_surfaces(), *_reductions(), *_queries("suq", None)],
}
"""By kind."""
