"""TMA tiles: shared memory as a load leaves it, global memory as a store leaves it, at every edge of a tensor."""

import zlib
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import ml_dtypes
import numpy as np

from support.launches import Launch, Tensor
from support.made_maps import WORKSPACE, ptx_of
from tilewright.emulator.semantics.elements import element_dtype
from tilewright.emulator.semantics.reductions import BULK_REDUCTIONS

THREADS = 128
GUARD_BYTES = 1024
POISON = 0xA5

_HEADER = """\
.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry move(.param .align 64 .b8 map[128], .param .u64 tensor, .param .u64 data, .param .u64 places)
{
  .shared .align 8 .b64 arrived;
  .reg .b32 %thread, %place, %end, %word, %rank, %barrier, %c<5>, %x<4>;
  .reg .b64 %map, %data, %places, %offset;
  .reg .b16 %everyone;
  .reg .pred %more, %first;
  mov.u32 %thread, %tid.x;
  setp.eq.u32 %first, %thread, 0;
  mov.b64 %map, map;
  cvta.param.u64 %map, %map;
  mov.u32 %word, tile;
  mov.u32 %barrier, arrived;
  mov.u32 %rank, %ctaid.x;
  ld.param.u64 %data, [data];
  mul.wide.u32 %offset, %rank, SHARED_BYTES;
  add.s64 %data, %data, %offset;
  ld.param.u64 %places, [places];
  mul.wide.u32 %offset, %rank, 20;
  add.s64 %places, %places, %offset;
"""
_TO_SHARED = """
  shl.b32 %place, %thread, 4;
  cvt.u64.u32 %offset, %place;
  add.s64 %offset, %data, %offset;
  add.s32 %end, %word, SHARED_BYTES;
  add.s32 %place, %word, %place;
FILL:
  ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%offset];
  st.shared.v4.b32 [%place], {%x0, %x1, %x2, %x3};
  add.s64 %offset, %offset, 2048;
  add.s32 %place, %place, 2048;
  setp.lt.u32 %more, %place, %end;
  @%more bra FILL;
  fence.proxy.async;
  bar.sync 0;
"""
_TO_GLOBAL = """
  shl.b32 %place, %thread, 4;
  cvt.u64.u32 %offset, %place;
  add.s64 %offset, %data, %offset;
  add.s32 %end, %word, SHARED_BYTES;
  add.s32 %place, %word, %place;
DUMP:
  ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%place];
  st.global.v4.b32 [%offset], {%x0, %x1, %x2, %x3};
  add.s64 %offset, %offset, 2048;
  add.s32 %place, %place, 2048;
  setp.lt.u32 %more, %place, %end;
  @%more bra DUMP;
"""
_EXPECT = """
  @%first mbarrier.init.shared.b64 [%barrier], 1;
  @%first fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @%first mbarrier.arrive.expect_tx.shared.b64 _, [%barrier], EXPECTED_BYTES;
"""
_WAIT = """
WAIT:
  mbarrier.try_wait.parity.shared.b64 %more, [%barrier], 0;
  @!%more bra WAIT;
"""
_WAIT_FOR_GROUP = "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;"
_CLUSTER_BARRIER = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n"
_MULTICAST_PLACE = """
  mov.u32 %rank, %cluster_ctarank;
  mad.lo.s32 %place, %rank, TILE_BYTES, %word;
  mov.b16 %everyone, 3;
"""


def _rounded(number, unit):
    return -(-number // unit) * unit


@dataclass(frozen=True)
class Tile:
    """Boxes at some coordinates of one tensor, moved one way.

    kind: "load" (one CTA for each place), "multicast" (two places by the CTAs of a cluster, to both), "store" or
    "reduce" (one). dtype: as PTX has it. shape, box: elements, innermost first. places: coordinates of boxes.
    operation: of a reduction. element_strides, oob_nan: as the tensor map has them. made: whether the kernel makes the
    map, from that of another tensor ("given") or from "zeros".
    """

    kind: str
    dtype: str
    swizzle: int
    shape: tuple[int, ...]
    box: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    operation: str = ""
    element_strides: tuple[int, ...] = ()
    oob_nan: bool = False
    made: str = ""

    @property
    def name(self):
        """All of it in words."""
        where = f" at {self.places[0]}" if self.kind in ("store", "reduce") else ""
        plain = not self.operation and self.dtype.startswith("u")
        elements = f"{self.element_bytes}-byte elements" if plain else self.dtype
        return " ".join(
            filter(
                None,
                [
                    f"{self.kind}",
                    self.operation,
                    f"{len(self.box)}d of {elements}, swizzle {self.swizzle}, box {self.box} of {self.shape}{where}",
                    f"every {self.element_strides}" if self.element_strides else "",
                    "with NaN" if self.oob_nan else "",
                    f"by a map made from {self.made}" if self.made else "",
                ],
            )
        )

    @property
    def element_bytes(self):
        """Bytes of an element."""
        return element_dtype(self.dtype).itemsize

    @property
    def _moved(self):
        """Elements that are moved, per dimension."""
        steps = (1, *self.element_strides[1:]) if self.element_strides else (1,) * len(self.box)
        return tuple(-(-side // step) for side, step in zip(self.box, steps, strict=True))

    @property
    def _strides(self):
        """Rows and planes with some bytes between them."""
        pitch, strides = _rounded(self.shape[0] * self.element_bytes, 16), []
        for extent in self.shape[1:]:
            pitch += 16
            strides.append(pitch)
            pitch *= extent
        return tuple(strides)

    @property
    def _tile_bytes(self):
        return prod(self._moved) * self.element_bytes

    @property
    def _slot_bytes(self):
        # A row that is narrower than the swizzle's span is followed by a gap.
        pitch = max(self.box[0] * self.element_bytes, self.swizzle)
        return _rounded(prod(self._moved[1:]) * pitch, 2048)

    @property
    def _modes(self):
        """The modes of loads, stores and reductions, as modifiers."""
        return "", "", ".tile"

    @property
    def _offsets(self):
        """The operand of a load after its mbarrier, if there is one."""
        return ""

    @property
    def _corners(self):
        """The bounding box of a tensor map in im2col mode."""
        return (), ()

    @property
    def _shared_bytes(self):
        return self._slot_bytes * (2 if self.kind == "multicast" else 1)

    @property
    def ptx(self):
        """The module."""
        rank = len(self.shape)
        axes = "\n".join(f"  ld.global.b32 %c{axis}, [%places+{4 * axis}];" for axis in range(rank))
        box = f"[%map, {{{', '.join(f'%c{axis}' for axis in range(rank))}}}]"
        operation = f"cp.async.bulk.tensor.{rank}d"
        load = f"{operation}.shared::cluster.global{self._modes[0]}.mbarrier::complete_tx::bytes"
        store = f"{operation}.global.shared::cta{self._modes[1]}.bulk_group"
        reduce = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{self.operation}{self._modes[2]}.bulk_group"
        parts = {
            "load": [
                _TO_SHARED, axes, _EXPECT, f"  @%first {load} [%word], {box}, [%barrier]{self._offsets};",
                _WAIT, _TO_GLOBAL,
            ],
            "multicast": [
                _TO_SHARED, axes, _EXPECT, _CLUSTER_BARRIER, _MULTICAST_PLACE,
                f"  @%first {load}.multicast::cluster [%place], {box}, [%barrier]{self._offsets}, %everyone;",
                _WAIT, _TO_GLOBAL, _CLUSTER_BARRIER,
            ],
            "store": [
                _TO_SHARED, axes, f"  @%first {store} {box}, [%word];",
                _WAIT_FOR_GROUP,
            ],
            "reduce": [
                _TO_SHARED, axes, f"  @%first {reduce} {box}, [%word];",
                _WAIT_FOR_GROUP,
            ],
        }[self.kind]  # fmt: skip
        header = _HEADER
        if self.made:
            steps = self.element_strides or (1,) * rank
            made = (self.dtype, self.swizzle, self.shape, self._strides, self.box, steps, self.oob_nan)
            header = _HEADER.replace(".visible", f"{WORKSPACE}.visible") + ptx_of(self.made, GUARD_BYTES, *made)
        text = "\n".join([header, *parts, "  ret;\n}\n"])
        expected = self._tile_bytes * (2 if self.kind == "multicast" else 1)
        text = text.replace("SHARED_BYTES", str(self._shared_bytes)).replace("EXPECTED_BYTES", str(expected))
        return text.replace("TILE_BYTES", str(self._slot_bytes))

    @cached_property
    def _buffers(self):
        """The tensor between guard bands, what shared memory holds before (and after), coordinates."""
        generator = np.random.default_rng(zlib.crc32(self.name.encode()))
        outermost = self._strides[-1] if self._strides else _rounded(self.shape[0] * self.element_bytes, 16)
        extent = _rounded(outermost * (self.shape[-1] if self._strides else 1), 16)
        nbytes, shared = extent + 2 * GUARD_BYTES, len(self.places) * self._shared_bytes
        places = np.zeros((len(self.places), 5), np.int32)
        places[:, : len(self.shape)] = self.places
        if self.kind == "store":
            tensor = np.full(nbytes, POISON, np.uint8)
            data = generator.integers(0, 256, shared, np.uint8)
        elif self.kind == "reduce":
            tensor, data = (_numbers(generator, self.dtype, count) for count in (nbytes, shared))
        else:
            tensor = generator.integers(0, 256, nbytes, np.uint8)
            data = np.full(shared, POISON, np.uint8)
        return tensor, data, places.reshape(-1).view(np.uint8)

    def launch(self):
        """The launch."""
        other = self.made != ""
        tensor = Tensor(
            0,
            0 if other else GUARD_BYTES,
            self.dtype,
            (1,) * len(self.shape) if other else self.shape,
            tuple(16 * (axis + 1) for axis in range(len(self._strides))) if other else self._strides,
            self.box,
            self.swizzle,
            self.element_strides,
            self.oob_nan,
            *self._corners,
        )
        return Launch(
            self.ptx,
            self._buffers,
            (tensor,),
            grid=len(self.places),
            block=THREADS,
            cluster=2 if self.kind == "multicast" else 1,
            shared_bytes=self._shared_bytes,
        )

    def differences(self, emulated, hardware, run):
        """Sentences about bytes that differ, of the tensor and of shared memory."""
        found = []
        for what, one, other in zip(("tensor", "SMEM"), emulated, hardware, strict=False):
            wrong = np.flatnonzero(one != other)
            if wrong.size:
                first = wrong[0]
                cta = "" if what == "tensor" else f" of the box at {self.places[first // self._shared_bytes]}"
                byte = first - GUARD_BYTES if what == "tensor" else first % self._shared_bytes
                found.append(
                    f"byte {byte} of {what}{cta}: emulator {one[first]:#x}, GPU {other[first]:#x}; {wrong.size} differ"
                )
        return found


def _places(shape, box, element_bytes):
    """Coordinates within, across each border and beyond it; along a row, multiples of 16 bytes."""

    def aligned(place):
        unit = 16 // element_bytes
        return (place[0] // unit * unit, *place[1:])

    zero = (0,) * len(box)
    yield zero
    yield aligned(tuple(min(1, extent - 1) for extent in shape))
    for axis, (extent, side) in enumerate(zip(shape, box, strict=True)):
        for start in (-1, -side + 1, -side, -side - 3, extent - 1, extent - side + 1, extent, extent + 2, extent + 19):
            yield aligned((*zero[:axis], start, *zero[axis + 1 :]))
    yield aligned(tuple(-side // 2 for side in box))
    yield aligned(tuple(extent - side // 2 for extent, side in zip(shape, box, strict=True)))


def _all():
    for rank, size, span in product(range(1, 6), (1, 2, 4, 8), (0, 32, 64, 128)):
        for row_bytes in {span or 48, span // 2 or 64}:
            if row_bytes % 16:
                continue
            row = row_bytes // size
            box = (row, 5, 3, 2, 2)[:rank]
            for shape in ((2 * row + 3, 7, 5, 3, 3)[:rank], (row // 2 + 1, 3, 2, 1, 1)[:rank]):
                places = tuple(dict.fromkeys(_places(shape, box, size)))
                dtype = f"u{8 * size}"
                yield Tile("load", dtype, span, shape, box, places)
                yield Tile("multicast", dtype, span, shape, box, places[: len(places) // 2 * 2])
                if row_bytes == (span or 48):
                    for place in [place for place in places if min(place) >= 0][:: 1 if rank == 2 else 2]:
                        yield Tile("store", dtype, span, shape, box, (place,))


def _strided():
    """Loads and stores with a stride of several elements."""
    for steps, (size, span) in product(
        ((1, 2), (1, 3, 2), (3, 8, 1), (1, 2, 3, 2), (2, 1, 2, 1, 2)), ((1, 0), (2, 128), (4, 64), (8, 32))
    ):
        rank, row = len(steps), (span or 48) // size
        box, shape = (row, 7, 5, 3, 3)[:rank], (2 * row + 3, 11, 7, 4, 3)[:rank]
        places = tuple(dict.fromkeys(_places(shape, box, size)))
        yield Tile("load", f"u{8 * size}", span, shape, box, places, element_strides=steps)
        for place in [place for place in places if min(place) >= 0][::3]:
            yield Tile("store", f"u{8 * size}", span, shape, box, (place,), element_strides=steps)


def _with_nan():
    """Loads that fill in NaN."""
    for rank, dtype, span in product((1, 2, 3), ("f16", "bf16", "f32", "f64"), (0, 128)):
        size = element_dtype(dtype).itemsize
        row = (span or 48) // size
        box, shape = (row, 5, 3)[:rank], (row + row // 2 + 1, 7, 4)[:rank]
        places = tuple(dict.fromkeys(_places(shape, box, size)))
        yield Tile("load", dtype, span, shape, box, places, oob_nan=True)


def _of_tf32():
    """Loads and stores of any bits as tf32, whose low 13 bits the tensor cores ignore."""
    for span in (0, 128):
        row = (span or 48) // 4
        box, shape = (row, 5), (2 * row + 3, 7)
        places = tuple(dict.fromkeys(_places(shape, box, 4)))
        for oob_nan in (False, True):
            yield Tile("load", "tf32", span, shape, box, places, oob_nan=oob_nan)
        yield Tile("store", "tf32", span, shape, box, (places[1],))


def _reduced():
    """Reductions of every operation and type, across borders, with element strides, of every rank."""
    for operation, dtypes in BULK_REDUCTIONS["tensor"].items():
        for dtype in dtypes:
            row = 64 // element_dtype(dtype).itemsize
            for place in ((0, 0), (row, 1), (2 * row, 4), (row, 6)):
                yield Tile("reduce", dtype, 64, (2 * row + 3, 7), (row, 5), (place,), operation)
            yield Tile("reduce", dtype, 0, (2 * row, 7), (row, 5), ((row, 1),), operation, (1, 2))
    for rank in (1, 3, 4, 5):
        box, shape, place = (16, 3, 2, 2, 2)[:rank], (35, 5, 4, 3, 3)[:rank], (32, 3, 3, 2, 2)[:rank]
        yield Tile("reduce", "u32", 64, shape, box, (place,), "add")


def _made():
    """Loads and stores by maps that the kernel makes."""
    for made, rank, (dtype, span) in product(
        ("given", "zeros"), range(1, 6), (("u8", 0), ("u16", 32), ("s32", 64), ("u64", 128), ("f16", 128), ("bf16", 0))
    ):
        row = (span or 48) // element_dtype(dtype).itemsize
        box, shape = (row, 5, 3, 2, 2)[:rank], (2 * row + 3, 7, 5, 3, 3)[:rank]
        places = tuple(dict.fromkeys(_places(shape, box, element_dtype(dtype).itemsize)))
        yield Tile("load", dtype, span, shape, box, places[::3], made=made)
        yield Tile("store", dtype, span, shape, box, ((row, 1, 1, 1, 1)[:rank],), made=made)
    for dtype, steps, oob_nan in (
        ("f32", (1, 2, 3), True), ("f64", (1, 1, 1), True), ("tf32", (1, 3, 1), False), ("s64", (1, 2, 2), False),
        ("u32", (1, 8, 1), False),
    ):  # fmt: skip
        row = 64 // element_dtype(dtype).itemsize
        places = ((0, 0, 0), (row, -1, 1), (row, 4, 3))
        shape, box = (2 * row + 3, 9, 5), (row, 7, 3)
        yield Tile("load", dtype, 64, shape, box, places, element_strides=steps, oob_nan=oob_nan, made="zeros")


def _numbers(generator, dtype, nbytes):
    """Bytes of elements; of floating-point types numbers of some size, zeros and subnormals."""
    numbers = element_dtype(dtype)
    if numbers.kind in "ui":
        return generator.integers(0, 256, nbytes, np.uint8)
    values = generator.standard_normal(nbytes // numbers.itemsize)
    values *= generator.choice([1.0, 1.0, 0.0, -0.0, float(ml_dtypes.finfo(numbers).tiny) / 8], values.size)
    return values.astype(numbers).view(np.uint8)


TILES = [*_all(), *_strided(), *_with_nan(), *_of_tf32(), *_reduced(), *_made()]
"""Boxes; `columns` has those of im2col mode."""
