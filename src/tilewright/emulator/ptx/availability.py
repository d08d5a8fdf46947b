"""The PTX version and target that instructions need. Source: PTX ISA, "PTX ISA Notes" and "Target ISA Notes".

A line is `opcodes . modifiers : version target`. It applies to an instruction that has its modifiers; a | b is one of
two, and a* one that starts with a. A target is a minimum. `sm_90a` with `only` is that target alone; with `specific` it
is the minimum of the architecture-specific targets (sm_90a, sm_100a, sm_120f...).
"""

import re
from dataclasses import dataclass

from tilewright.emulator.errors import PtxSyntaxError
from tilewright.emulator.ptx.forms import has_modifier
from tilewright.emulator.ptx.syntax import Instruction, Module

_TABLE = """
wgmma                                : 8.0 sm_90a only
setmaxnreg                           : 8.0 sm_90a specific
multimem                             : 8.1 sm_90
multimem.acc::f32                    : 8.2 sm_90
tcgen05                              : 8.6 sm_100a specific
cp.async                             : 7.0 sm_80
cp.async.bulk                        : 8.0 sm_90
st red.async                         : 8.1 sm_90
ld st.v8.b32|u32|s32|f32             : 8.8 sm_100
ld st.v4.b64|u64|s64|f64             : 8.8 sm_100
atom.b128                            : 8.3 sm_90
bar barrier.cta                      : 7.8 sm_70
mbarrier                             : 7.0 sm_80
mbarrier.try_wait                    : 7.8 sm_90
mbarrier.expect_tx|complete_tx       : 8.0 sm_90
barrier.cluster                      : 7.8 sm_90
mapa getctarank                      : 7.8 sm_90
fence.proxy.async|async::*           : 8.0 sm_90
fence.mbarrier_init                  : 8.0 sm_90
elect                                : 8.0 sm_90
alloca stacksave stackrestore        : 7.3 sm_52
tensormap.replace                    : 8.3 sm_90a specific
tensormap.cp_fenceproxy              : 8.3 sm_90
fence.proxy.tensormap::*             : 8.3 sm_90
griddepcontrol                       : 7.8 sm_90
ldmatrix                             : 6.5 sm_75
movmatrix                            : 7.8 sm_75
stmatrix                             : 7.8 sm_90
redux                                : 7.0 sm_80
createpolicy discard applypriority   : 7.4 sm_80
mma.m8n8k4.f64                       : 7.0 sm_80
mma.m16n8k8.f16                      : 6.5 sm_75
mma.m8n8k16|m8n8k32                  : 6.5 sm_75
mma.m8n8k128                         : 7.0 sm_75
mma.m16n8k4|m16n8k16|m16n8k32        : 7.0 sm_80
mma.m16n8k64|m16n8k128|m16n8k256     : 7.0 sm_80
mma.bf16|tf32                        : 7.0 sm_80
mma.and                              : 7.1 sm_80
mma.m16n8k4|m16n8k8|m16n8k16.f64     : 7.8 sm_90
mma.e4m3|e5m2                        : 8.4 sm_89
mma.sp                               : 7.1 sm_80
mma.sp::ordered_metadata             : 8.5 sm_80
wmma.s8|u8                           : 6.3 sm_72
wmma.s4|u4|b1                        : 6.3 sm_75
wmma.and                             : 7.1 sm_80
wmma.bf16|tf32|f64                   : 7.0 sm_80
abs neg fma min max.bf16|bf16x2      : 7.0 sm_80
add sub mul set setp.bf16|bf16x2     : 7.8 sm_90
min max.f16|f16x2                    : 7.0 sm_80
min max.NaN                          : 7.0 sm_80
min max.xorsign                      : 7.2 sm_86
min max.relu                         : 8.0 sm_90
add min max.u16x2|s16x2              : 8.0 sm_90
fma.relu                             : 7.0 sm_80
tanh                                 : 7.0 sm_75
ex2.f16|f16x2                        : 7.0 sm_75
ex2 tanh.bf16|bf16x2                 : 7.8 sm_90
cvt.bf16|bf16x2|tf32|f16x2           : 7.0 sm_80
cvt.relu                             : 7.0 sm_80
cvt.e4m3x2|e5m2x2                    : 7.8 sm_89
szext bmsk                           : 7.6 sm_70
cvta isspacep.param|param::entry     : 7.7 sm_70
cvta isspacep.param::entry           : 8.3 sm_70
cvta isspacep.shared::cta            : 7.8 sm_70
cvta isspacep.shared::cluster        : 7.8 sm_90
"""
_MODIFIER_OF_LINES = re.compile(r"\.(?=[a-zA-Z])")
_TARGET = re.compile(r"sm_(\d+)([af]?)$")
FIRST_VERSION, LAST_VERSION = 6, 9
_INTRODUCED = """
6.0 sm_70; 6.1 sm_72; 6.3 sm_75; 7.0 sm_80; 7.1 sm_86; 7.4 sm_87; 7.8 sm_89 sm_90; 8.0 sm_90a;
8.6 sm_100 sm_100a sm_101 sm_101a; 8.7 sm_120 sm_120a;
8.8 sm_100f sm_101f sm_103 sm_103a sm_103f sm_120f sm_121 sm_121a sm_121f; 9.0 sm_88 sm_110 sm_110a sm_110f
"""
TARGETS = {
    target: (int(version[0]), int(version[2]))
    for version, *targets in map(str.split, _INTRODUCED.split(";"))
    for target in targets
}
"""The targets that a module may name, and the first PTX version that has them ("Release Notes").

Instructions of sm_90 or higher behave alike on later targets.
"""


@dataclass(frozen=True, slots=True)
class Need:
    """A line of the table."""

    opcodes: frozenset[str]
    modifiers: tuple[tuple[str, ...], ...]
    version: tuple[int, int]
    target: str
    which: str

    def concerns(self, instruction: Instruction) -> bool:
        """Whether the instruction is one of these."""
        return instruction.opcode in self.opcodes and all(
            any(has_modifier(choices, modifier) for modifier in instruction.modifiers) for choices in self.modifiers
        )

    def feature(self, instruction: Instruction) -> str:
        """The part of the instruction that has the need."""
        of_table = (choice for choices in self.modifiers for choice in choices)
        return ".".join((instruction.opcode, *(name for name in of_table if name in instruction.modifiers)))

    def has_target(self, target: str) -> bool:
        """Whether a target is one of those that have the instruction."""
        if self.which == "only":
            return target == self.target
        (least, _), (number, suffix) = _parts(self.target), _parts(target)
        return number >= least and (bool(suffix) or self.which != "specific")


def _parts(target: str) -> tuple[int, str]:
    match = _TARGET.match(target)
    assert match is not None
    return int(match[1]), match[2]


def _needs() -> dict[str, list[Need]]:
    needs: dict[str, list[Need]] = {}
    for line in _TABLE.strip().splitlines():
        names, required = line.split(" : ")
        *others, last = names.split()
        opcode, *modifiers = _MODIFIER_OF_LINES.split(last)
        version, target, *which = required.split()
        major, minor = map(int, version.split("."))
        need = Need(
            frozenset((*others, opcode)), tuple(tuple(choices.split("|")) for choices in modifiers), (major, minor),
            target, " ".join(which),
        )  # fmt: skip
        for name in need.opcodes:
            needs.setdefault(name, []).append(need)
    return needs


_NEEDS = _needs()


def check_available(instruction: Instruction, module: Module) -> None:
    """Refuse an instruction that the module's version or target does not have.

    Raises:
        PtxSyntaxError: naming the instruction, its needs and the module's version or target.
    """
    for need in _NEEDS.get(instruction.opcode, ()):
        if not need.concerns(instruction):
            continue
        if not need.has_target(module.target):
            others = {"": " or higher", "only": "", "specific": " or a higher target that ends in a or f"}[need.which]
            raise PtxSyntaxError(
                f"{instruction}: {need.feature(instruction)} needs {need.target}{others}, "
                f"this module says .target {module.target}"
            )
        if module.version < need.version:
            (major, minor), (has_major, has_minor) = need.version, module.version
            raise PtxSyntaxError(
                f"{instruction}: {need.feature(instruction)} needs PTX {major}.{minor} or later, this module says "
                f".version {has_major}.{has_minor}"
            )
