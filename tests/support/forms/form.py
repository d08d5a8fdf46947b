"""A form of an instruction: the PTX around it, the values it is given, and how two results of it compare."""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from support.forms.agreement import agree, shown, without_signs
from support.forms.values import ELEMENTS, REGISTER_BITS, values_of
from support.launches import Launch

BLOCK = 256
LANES = 2048
EXHAUSTIVE_LANES = 1 << 16

_HEADER = """\
.version 8.7
.target sm_90a
.address_size 64
.const .align 8 .b64 constants[4] = {11, 22, 33, 44};
.visible .entry form(.param .u64 in, .param .u64 out, .param .u64 memory)
{
  .shared .align 128 .b8 rows[8192];
  .reg .b32 %thread, %row, %word;
  .reg .b64 %in, %out, %cell, %offset;
  .reg .pred %p, %q;
"""
_THREAD = """\
  mov.u32 %thread, %ctaid.x;
  mov.u32 %word, %tid.x;
  mad.lo.s32 %thread, %thread, 256, %word;
  mov.u32 %row, rows;
  mad.lo.s32 %row, %word, 32, %row;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  ld.param.u64 %cell, [memory];
  mul.wide.u32 %offset, %thread, SOURCE_BYTES;
  add.s64 %in, %in, %offset;
  mul.wide.u32 %offset, %thread, RESULT_BYTES;
  add.s64 %out, %out, %offset;
  mul.wide.u32 %offset, %thread, 16;
  add.s64 %cell, %cell, %offset;
"""


@dataclass(frozen=True)
class Form:
    """One form of an instruction, run by every thread on values of its own.

    text: PTX that computes %d0, %d1, ... from %a0, %a1, ...; it may use the thread's 16 bytes of global memory at
    [%cell], its 32 bytes of shared memory at [%row], the predicates %p and %q, %word, and the four constants of 64 bits
    at `constants`. results, sources: the kinds of these registers (see `values`). relative, absolute: how far an
    approximation may be from the exact result, by the PTX manual. magnitude: the same relative to the sum of the
    magnitudes that a matrix product adds up. cluster: CTAs of a cluster. dynamic: bytes of dynamic shared memory.
    hardware: emulated tensor cores add like the GPU's, and NaNs must have the same bits.
    """

    text: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    relative: float = 0.0
    absolute: float = 0.0
    magnitude: float = 0.0
    cluster: int = 1
    dynamic: int = 0
    hardware: bool = False

    @property
    def name(self):
        """The text, the kinds of its registers, and what is unusual about the launch."""
        clusters = f" in clusters of {self.cluster}" if self.cluster > 1 else ""
        dynamic = f" with {self.dynamic} bytes" if self.dynamic else ""
        return f"{self.text} ({' '.join(self.sources)} -> {' '.join(self.results)}){clusters}{dynamic}"

    @property
    def lanes(self):
        """All 65536 values of a single source of 16 bits, else a sample."""
        exhaustive = len(self.sources) == 1 and REGISTER_BITS[self.sources[0].split(":")[0]] == 16
        return EXHAUSTIVE_LANES if exhaustive else LANES

    @property
    def ptx(self):
        """The module."""
        lines = [_HEADER]
        for letter, kinds in (("a", self.sources), ("d", self.results)):
            for index, kind in enumerate(kinds):
                bits = REGISTER_BITS[kind.split(":")[0]]
                lines.append(f"  .reg {'.pred' if bits == 1 else f'.b{bits}'} %{letter}{index};\n")
        thread = _THREAD.replace("SOURCE_BYTES", str(8 * max(len(self.sources), 1)))
        lines.append(thread.replace("RESULT_BYTES", str(8 * len(self.results))))
        for index, kind in enumerate(self.sources):
            bits = REGISTER_BITS[kind.split(":")[0]]
            if bits == 1:
                lines.append(f"  ld.global.b32 %word, [%in+{8 * index}];\n  setp.ne.u32 %a{index}, %word, 0;\n")
            else:
                lines.append(f"  ld.global.b{bits} %a{index}, [%in+{8 * index}];\n")
        lines.append(f"  {self.text}\n")
        for index, kind in enumerate(self.results):
            bits = REGISTER_BITS[kind]
            if bits == 1:
                lines.append(f"  selp.u32 %word, 1, 0, %d{index};\n  st.global.b32 [%out+{8 * index}], %word;\n")
            else:
                lines.append(f"  st.global.b{bits} [%out+{8 * index}], %d{index};\n")
        lines.append("  ret;\n}\n")
        return "".join(lines)

    @cached_property
    def inputs(self):
        """The values of the sources: (lanes, sources), 64 bits each."""
        return values_of(self.sources, self.lanes)

    def launch(self, inputs=None):
        """The launch on these inputs, else on the form's own."""
        inputs = self.inputs if inputs is None else inputs
        out = np.zeros(self.lanes * len(self.results), np.uint64)
        memory = np.zeros(self.lanes * 16, np.uint8)
        buffers = (np.ascontiguousarray(inputs).reshape(-1).view(np.uint8), out.view(np.uint8), memory)
        grid = self.lanes // BLOCK
        return Launch(
            self.ptx,
            buffers,
            grid=grid,
            block=BLOCK,
            cluster=self.cluster,
            shared_bytes=self.dynamic,
            hardware=self.hardware,
        )

    def differences(self, emulated, hardware, run):
        """Sentences about lanes whose results differ; `run` launches in the emulator."""
        found = []
        magnitudes = self._magnitudes(run) if self.magnitude else None
        for index, kind in enumerate(self.results):
            one, other = (elements(buffers[1], kind, index, len(self.results)) for buffers in (emulated, hardware))
            scale = None if magnitudes is None else elements(magnitudes[1], kind, index, len(self.results))
            wrong = ~agree(
                one,
                other,
                relative=self.relative,
                absolute=self.absolute,
                magnitude=self.magnitude,
                scale=scale,
                nans=self.hardware,
            )
            for lane, part in np.argwhere(wrong)[:2]:
                sources = ", ".join(f"{value:#x}" for value in self.inputs[lane].tolist())
                found.append(
                    f"%d{index} of ({sources}): emulator {shown(one[lane, part])}, GPU {shown(other[lane, part])}"
                )
            if wrong.any():
                found.append(f"%d{index} differs in {np.count_nonzero(wrong)} of {wrong.size} results")
        one, other = emulated[2].view(np.uint32), hardware[2].view(np.uint32)
        same = one == other
        if "f32" in self.results:  # any NaN will do, as in a result
            same |= np.isnan(one.view(np.float32)) & np.isnan(other.view(np.float32))
        if not same.all():
            found.append(f"memory differs at byte {4 * int(same.argmin())}")
        return found

    def _magnitudes(self, run):
        """The results for sources without signs."""
        inputs = self.inputs.copy()
        for index, kind in enumerate(self.sources):
            dtype, count = ELEMENTS[kind.split(":")[0]]
            width = count * np.dtype(dtype).itemsize
            column = np.ascontiguousarray(inputs[:, index]).view(np.uint8).reshape(-1, 8)
            parts = np.ascontiguousarray(column[:, :width]).view(dtype)
            column[:, :width] = without_signs(parts).view(np.uint8)
            inputs[:, index] = column.reshape(-1).view(np.uint64)
        return run(self.launch(inputs))


def elements(buffer, kind, index, results):
    """The elements of one result of all lanes: (lanes, elements in a register)."""
    dtype, count = ELEMENTS[kind]
    slots = buffer.reshape(-1, results, 8)[:, index]
    return np.ascontiguousarray(slots[:, : count * np.dtype(dtype).itemsize]).view(dtype)


def forms(opcodes, results, sources, **bounds):
    """A form of each opcode, separated by blanks, whose operands are plain registers."""
    results, sources = results.split(), sources.split()
    made = []
    for opcode in opcodes.split():
        registers = chain([f"%d{i}" for i in range(len(results))], [f"%a{i}" for i in range(len(sources))])
        made.append(Form(f"{opcode} {', '.join(registers)};", tuple(results), tuple(sources), **bounds))
    return made


def written(text, results, sources, **bounds):
    """A form with its text written out."""
    return Form(text, tuple(results.split()), tuple(sources.split()), **bounds)
