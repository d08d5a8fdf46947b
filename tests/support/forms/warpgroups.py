"""wgmma of every type, operand layout and modifier, on shared memory that is filled as a whole.

Nothing here knows where elements lie: all of shared memory holds numbers, and both machines read the same descriptors.
"""

import zlib
from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np

from support.forms.agreement import agree, shown, without_signs
from support.forms.values import HARD_TO_ADD, hard_to_add
from support.launches import Launch
from tilewright.emulator.semantics.matrix_descriptor import MatrixDescriptor

SHARED_BYTES = 1 << 16
_B = 1 << 14
"""Offset of B; A is at 0."""
THREADS = 128

_TYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "f32": np.float32, "s32": np.int32,
}  # fmt: skip

_PTX = """\
.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry product(.param .u64 memory, .param .u64 sums, .param .u64 parts, .param .u64 a, .param .u64 b)
{{
  .reg .b32 %thread, %place, %end, %word, %d<{sums}>, %a<4>, %x<4>;
  .reg .b64 %from, %a_tile, %b_tile, %base, %offset;
  .reg .pred %keep, %more;
  mov.u32 %thread, %tid.x;
  mov.u32 %word, tile;
  shl.b32 %place, %thread, 4;
  ld.param.u64 %from, [memory];
  cvt.u64.u32 %offset, %place;
  add.s64 %from, %from, %offset;
  add.s32 %end, %word, {shared};
  add.s32 %place, %word, %place;
FILL:
  ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%from];
  st.shared.v4.b32 [%place], {{%x0, %x1, %x2, %x3}};
  add.s64 %from, %from, 2048;
  add.s32 %place, %place, 2048;
  setp.lt.u32 %more, %place, %end;
  @%more bra FILL;
  fence.proxy.async;
  bar.sync 0;
  cvt.u64.u32 %base, %word;
  shr.u64 %base, %base, 4;
  ld.param.u64 %a_tile, [a];
  add.s64 %a_tile, %a_tile, %base;
  ld.param.u64 %b_tile, [b];
  add.s64 %b_tile, %b_tile, %base;
  ld.param.u64 %from, [parts];
  mul.wide.u32 %offset, %thread, 16;
  add.s64 %from, %from, %offset;
  ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%from];
  ld.param.u64 %from, [sums];
  mul.wide.u32 %offset, %thread, {sum_bytes};
  add.s64 %from, %from, %offset;
{loads}
  setp.ne.u32 %keep, {keep}, 0;
  wgmma.fence.sync.aligned;
  {product}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
{stores}
  ret;
}}
"""


@dataclass(frozen=True)
class WarpgroupProduct:
    """One wgmma. span: of the swizzle of both operands. depth: bytes of K that the descriptors are advanced by.

    choice: of the operands: integers, numbers (normally distributed), or one of HARD_TO_ADD.
    """

    n: int
    accumulator: str
    a: str
    b: str
    from_registers: bool = False
    span: int = 128
    a_major: str = "k"
    b_major: str = "k"
    keep: int = 1
    negate: tuple[int, int] = (1, 1)
    depth: int = 0
    saturates: bool = False
    choice: str = "integers"

    @property
    def hardware(self):
        """Whether emulated tensor cores add like the GPU's, and NaNs must have the same bits."""
        return self.choice in HARD_TO_ADD

    @property
    def instruction(self):
        """The opcode with its modifiers."""
        k = 32 // np.dtype(_TYPES[self.a]).itemsize
        saturate = ".satfinite" if self.saturates else ""
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k{k}{saturate}.{self.accumulator}.{self.a}.{self.b}"

    @property
    def name(self):
        """The instruction and how it is used."""
        where = "registers" if self.from_registers else f"SMEM {self.a_major}-major"
        extras = f", A in {where}, B {self.b_major}-major, swizzle {self.span}, scale-d {self.keep}"
        if self.negate != (1, 1):
            extras += f", signs {self.negate}"
        if self.depth:
            extras += f", from byte {self.depth} of K"
        return self.instruction + extras + f", {self.choice}" * (self.choice != "integers")

    @property
    def _registers(self):
        return self.n // (4 if self.accumulator == "f16" else 2)

    @property
    def ptx(self):
        """The module."""
        sums = range(self._registers)
        flags = [] if self.accumulator == "s32" else [str(sign) for sign in self.negate]
        if self.a in ("f16", "bf16"):
            majors = [self.b_major] if self.from_registers else [self.a_major, self.b_major]
            flags += [str(int(major == "mn")) for major in majors]
        operands = [
            f"{{{', '.join(f'%d{i}' for i in sums)}}}",
            "{%a0, %a1, %a2, %a3}" if self.from_registers else "%a_tile",
            "%b_tile",
            "%keep",
            *flags,
        ]
        return _PTX.format(
            sums=self._registers,
            sum_bytes=4 * self._registers,
            shared=SHARED_BYTES,
            keep=self.keep,
            loads="\n".join(f"  ld.global.b32 %d{i}, [%from+{4 * i}];" for i in sums),
            stores="\n".join(f"  st.global.b32 [%from+{4 * i}], %d{i};" for i in sums),
            product=f"{self.instruction} {', '.join(operands)};",
        )

    @cached_property
    def _operands(self):
        """Elements of shared memory, accumulators and fragments of A."""
        generator = np.random.default_rng(zlib.crc32(self.name.encode()))
        memory = np.concatenate(
            [
                self._elements(generator, self.a, _B).view(np.uint8),
                self._elements(generator, self.b, SHARED_BYTES - _B).view(np.uint8),
            ]
        )
        sums = self._elements(generator, self.accumulator, 4 * self._registers * THREADS)
        if self.saturates:
            sums = generator.choice(np.array([2**31 - 1, -(2**31), 0], np.int32), sums.size)
        return memory, sums, self._elements(generator, self.a, 16 * THREADS)

    def _elements(self, generator, kind, nbytes):
        dtype = np.dtype(_TYPES[kind])
        count = nbytes // dtype.itemsize
        if self.hardware:
            return hard_to_add(kind, dtype, self.choice, count, generator)
        if self.choice == "numbers" and dtype.kind not in "ui":
            return generator.standard_normal(count).astype(dtype)
        if dtype.itemsize == 1 and dtype.kind in "ui":
            return generator.integers(0, 256, count, np.uint8).view(dtype)
        limit = 4 if dtype.itemsize == 1 else 8
        return generator.integers(-limit, limit + 1, count).astype(dtype)

    def launch(self, operands=None):
        """The launch on the product's operands, or on others."""
        memory, sums, parts = operands or self._operands
        descriptors = (self._descriptor(0, self.a_major), self._descriptor(_B, self.b_major))
        buffers = tuple(np.ascontiguousarray(part).view(np.uint8) for part in (memory, sums, parts))
        return Launch(
            self.ptx,
            buffers,
            numbers=descriptors,
            block=THREADS,
            shared_bytes=SHARED_BYTES,
            hardware=self.hardware,
        )

    def _descriptor(self, start, major):
        """Packed layouts: groups of 8 lines one after the other, along K first."""
        if self.span == 0:
            leading, stride = 128, 256
        else:
            leading, stride = 16 * self.span, 8 * self.span
        return MatrixDescriptor(start + self.depth, leading, stride, self.span).encode()

    def differences(self, emulated, hardware, run):
        """Sentences about accumulators that differ; `run` launches in the emulator."""
        dtype = _TYPES[self.accumulator]
        one, other = (buffers[1].view(dtype) for buffers in (emulated, hardware))
        magnitude, scale = 0.0, None
        if self.choice == "numbers":
            memory, sums, parts = self._operands
            unsigned = without_signs(memory.view(_TYPES[self.a])).view(np.uint8)
            scale = run(self.launch((unsigned, without_signs(sums), without_signs(parts))))[1].view(dtype)
            # What one addition may lose: sums of float8 keep 13 bits, others at least 23.
            unit = 2**-10 if self.accumulator == "f16" else 2**-12 if self.a.startswith("e") else 2**-23
            magnitude = unit * (1 + 32 // np.dtype(_TYPES[self.a]).itemsize)
        wrong = ~agree(one, other, magnitude=magnitude, scale=scale, nans=self.hardware)
        found = [
            f"thread {index // (one.size // THREADS)}: emulator {shown(one[index])}, GPU {shown(other[index])}"
            for index in np.flatnonzero(wrong)[:2]
        ]
        return found + [f"{np.count_nonzero(wrong)} of {wrong.size} sums differ"] * bool(found)


def _all():
    types = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
    types += [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    types += [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
    for kinds in types:
        for in_registers in (False, True):
            for n in (8, 16, 64, 128, 256):
                yield WarpgroupProduct(n, *kinds, from_registers=in_registers)
            for span in (0, 32, 64):
                yield WarpgroupProduct(64, *kinds, from_registers=in_registers, span=span)
            yield WarpgroupProduct(16, *kinds, from_registers=in_registers, keep=0)
            if kinds[0] != "s32":
                yield WarpgroupProduct(64, *kinds, from_registers=in_registers, choice="numbers")
                for negate in ((-1, 1), (1, -1), (-1, -1)):
                    yield WarpgroupProduct(16, *kinds, from_registers=in_registers, negate=negate)
            else:
                yield WarpgroupProduct(16, *kinds, from_registers=in_registers, saturates=True)
        for depth in (32, 64, 96):
            yield WarpgroupProduct(64, *kinds, depth=depth)
    for kind in ("f16", "bf16"):
        for span in (0, 32, 64, 128):
            for n in (64, 256):
                yield WarpgroupProduct(n, "f32", kind, kind, from_registers=True, span=span, b_major="mn")
                for majors in (("k", "mn"), ("mn", "k"), ("mn", "mn")):
                    yield WarpgroupProduct(n, "f32", kind, kind, False, span, *majors)


WARPGROUPS = list(_all())
