"""The forms of the instructions that the emulator knows, as data. Source: PTX ISA, the instructions of these names.

A line is `opcodes : modifiers : operands`. Among modifiers, a | b stands for one of them and [a | b] for one of them or
none; a name in capitals is a set below, and a* any modifier that starts with a. ptxas takes modifiers other than types
in almost any order; types must be in the instruction's order. Emitters find both in the order that stands here.

Operands are named by the type that they must have:

    u32, f16...    a register or a constant of that type         T, D      of the last type among the modifiers,
    T+             the same, or a wider register                           of the one before it
    T|pred         one destination or two                        W         as wide as two of T
    {T}            a vector of such, as long as .v2 or .x4 say   A         an address
    {F}            registers of a matrix fragment                N         an integer constant
    M              T, or a vector that is as wide together       *         anything
    ?u32           one that may be missing                       ...       whatever follows
    b32.           one of which parts may be selected            b32-      one that may be negated
"""

from dataclasses import dataclass

EXCHANGES = ("shfl", "vote", "match", "redux", "elect")
"""Opcodes of the warp collectives with a member mask; bar.warp.sync has one too."""

ALIGNED = ("ldmatrix", "stmatrix", "mma", "movmatrix", "wmma", "wgmma")
"""Opcodes that whole warps execute; tensormap.cp_fenceproxy and most barriers are such too."""

SETS = {
    "INT": "u16 s16 u32 s32 u64 s64",
    "SMALL": "u16 s16 u32 s32",
    "BITS": "b16 b32 b64",
    "FLOAT": "f32 f64",
    "HALF": "f16 f16x2 bf16 bf16x2",
    "ANY": "b16 b32 b64 u16 s16 u32 s32 u64 s64 f32 f64",
    "MEMORY": "b8 b16 b32 b64 u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f16x2 bf16x2 f32 f64",
    "WHOLE": "u8 s8 u16 s16 u32 s32 u64 s64",
    "REAL": "f16 bf16 f32 f64",
    "ROUND": "rn rz rm rp",
    "TO_WHOLE": "rni rzi rmi rpi",
    "ORDERED": "eq ne lt le gt ge lo ls hi hs",
    "COMPARE": "eq ne lt le gt ge equ neu ltu leu gtu geu num nan",
    "SET": "u32 s32 f32 f16 bf16",
    "LOGIC": "and or xor",
    "SPACE": "global const shared local param shared::cta shared::cluster param::entry",
    "SHARED": "shared shared::cta shared::cluster",
    "ORDER": "volatile relaxed acquire release acq_rel weak",
    "SCOPE": "cta cluster gpu sys",
    "REDUCE": "add min max inc dec and or xor",
    "COUNTED": "mbarrier::complete_tx::bytes",
    "HINT": "L2::cache_hint",
    "CACHE": "ca cg cs lu cv wb wt",
    "TENSOR": "1d 2d 3d 4d 5d",
    "IMAGE": "3d 4d 5d",
    "IMAGES": "1d 2d 3d a1d a2d",
    "OUTSIDE": "trap clamp zero",
    "MMA": "m8n8k4 m8n8k16 m8n8k32 m8n8k128 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128 m16n8k256",
    "SPARSE": "m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128",
    "WMMA": "m16n16k16 m32n8k16 m8n32k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128",
    "WGMMA": " ".join(f"m64n{n}k{k}" for k in (8, 16, 32) for n in range(8, 257, 8)),
    "STORED": "f16 bf16 tf32 f32 f64 s8 u8 s32",
    "INPUT": "f16 bf16 tf32 f32 f64 s8 u8 s32",
    "TYPE": "f16 bf16 tf32 f32 f64 e4m3 e5m2 s8 u8 s4 u4 b1 s32",
}
"""Sets of modifiers, in capitals in the table."""

_TABLE = """
add sub         : [ROUND] [ftz] [sat] FLOAT                         : T T T
add sub mul     : [rn] [ftz] [sat] HALF                             : T T T
add sub         : [cc] u32|s32|u64|s64                              : T T T
add sub         : u16|s16                                           : T T T
add sub         : sat s32                                           : T T T
add             : u16x2|s16x2                                       : T T T
addc subc       : [cc] u32|s32|u64|s64                              : T T T
mul             : [ROUND] [ftz] [sat] FLOAT                         : T T T
mul             : lo|hi INT                                         : T T T
mul             : wide SMALL                                        : W T T
mad             : ROUND [ftz] [sat] FLOAT                           : T T T T
mad             : lo|hi [cc] INT                                    : T T T T
mad             : hi sat s32                                        : T T T T
mad             : wide SMALL                                        : W T T W
madc            : lo|hi [cc] u32|s32|u64|s64                        : T T T T
mul24           : lo|hi u32|s32                                     : T T T
mad24           : lo|hi [sat] u32|s32                               : T T T T
fma             : ROUND [ftz] [sat] FLOAT                           : T T T T
fma             : rn [ftz] [sat] [relu] HALF                        : T T T T
div             : ROUND|approx|full [ftz] FLOAT                     : T T T
div rem         : INT                                               : T T T
min max         : [ftz] [NaN] [xorsign] [abs] FLOAT|HALF            : T T T
min max         : [relu] INT|u16x2|s16x2                            : T T T
abs neg         : [ftz] FLOAT|HALF                                  : T T
abs neg         : s16|s32|s64                                       : T T
rcp sqrt        : ROUND|approx [ftz] FLOAT                          : T T
rsqrt           : approx [ftz] FLOAT                                : T T
ex2             : approx [ftz] f32|HALF                             : T T
tanh            : approx f32|HALF                                   : T T
lg2 sin cos     : approx [ftz] f32                                  : T T
copysign        : FLOAT                                             : T T T
and or xor      : pred|BITS                                         : T T T
not             : pred|BITS                                         : T T
cnot            : BITS                                              : T T
setp            : ORDERED BITS|INT                                  : pred|pred T T
setp            : ORDERED LOGIC BITS|INT                            : pred|pred T T pred
setp            : COMPARE [ftz] FLOAT|HALF                          : pred|pred T T
setp            : COMPARE LOGIC [ftz] FLOAT|HALF                    : pred|pred T T pred
set             : ORDERED SET BITS|INT                              : D T T
set             : ORDERED LOGIC SET BITS|INT                        : D T T pred
set             : COMPARE [ftz] SET FLOAT                           : D T T
set             : COMPARE LOGIC [ftz] SET FLOAT                     : D T T pred
set             : COMPARE [ftz] SMALL|f16|bf16 f16                  : D T T
set             : COMPARE LOGIC [ftz] SMALL|f16|bf16 f16            : D T T pred
set             : COMPARE SMALL|bf16 bf16                           : D T T
set             : COMPARE LOGIC SMALL|bf16 bf16                     : D T T pred
set             : COMPARE [ftz] u32|s32|f16x2 f16x2                 : D T T
set             : COMPARE LOGIC [ftz] u32|s32|f16x2 f16x2           : D T T pred
set             : COMPARE u32|s32|bf16x2 bf16x2                     : D T T
set             : COMPARE LOGIC u32|s32|bf16x2 bf16x2               : D T T pred
selp            : ANY|HALF                                          : T T T pred
slct            : [ftz] ANY s32|f32                                 : D D D T
testp           : finite|infinite|number|notanumber|normal|subnormal FLOAT : pred T
sad             : INT                                               : T T T T
dp4a            : u32|s32 u32|s32                                   : u32 D T u32
vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 : u32|s32 u32|s32 u32|s32 [sat] : b32. b32. b32. b32
vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 : u32|s32 u32|s32 u32|s32 [sat] : b32. b32. b32. b32
vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 : u32|s32 u32|s32 u32|s32 add : b32. b32. b32. b32
vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 : u32|s32 u32|s32 u32|s32 add : b32. b32. b32. b32
vset2 vset4     : u32|s32 u32|s32 eq|ne|lt|le|gt|ge [add]           : b32. b32. b32. b32
vadd vsub vabsdiff vmin vmax : u32|s32 u32|s32 u32|s32 [sat]        : b32. b32. b32. ?b32
vadd vsub vabsdiff vmin vmax : u32|s32 u32|s32 u32|s32 [sat] add|min|max : b32 b32. b32. b32
vset            : u32|s32 u32|s32 eq|ne|lt|le|gt|ge                 : b32. b32. b32. ?b32
vset            : u32|s32 u32|s32 eq|ne|lt|le|gt|ge add|min|max     : b32 b32. b32. b32
vshl vshr       : u32|s32 u32|s32 u32 [sat] clamp|wrap              : b32. b32. b32. ?b32
vshl vshr       : u32|s32 u32|s32 u32 [sat] clamp|wrap add|min|max  : b32 b32. b32. b32
vmad            : u32|s32 u32|s32 u32|s32 [po] [sat] [shr7|shr15]   : b32 b32.- b32.- b32-
dp2a            : lo|hi u32|s32 u32|s32                             : u32 D T u32
shl             : BITS                                              : T T u32
shr             : BITS|INT                                          : T T u32
shf             : l|r wrap|clamp b32                                : T T T u32
lop3            : b32                                               : T T T T N
lop3            : LOGIC b32                                         : T|pred T T T N pred
prmt            : b32 [f4e|b4e|rc8|ecl|ecr|rc16]                    : T T T T
bfe             : u32|s32|u64|s64                                   : T T u32 u32
bfi             : b32|b64                                           : T T T u32 u32
szext           : clamp|wrap u32|s32                                : T T u32
bmsk            : clamp|wrap b32                                    : T T T
brev            : b32|b64                                           : T T
popc clz        : b32|b64                                           : u32 T
bfind           : [shiftamt] u32|s32|u64|s64                        : u32 T
fns             : b32                                               : b32 b32 b32 s32
mov             : pred|BITS|INT|FLOAT|HALF|b128                     : M M
cvta            : [to] SPACE u32|u64                                : T T
isspacep        : const|global|local|SHARED|param|param::entry      : pred *
cvt             : [sat] WHOLE WHOLE                                 : D+ T+
cvt             : ROUND [ftz] [sat] REAL WHOLE                      : D+ T+
cvt             : TO_WHOLE [ftz] [sat] WHOLE REAL                   : D+ T+
cvt             : [ROUND|TO_WHOLE] [ftz] [sat] REAL REAL            : D+ T+
cvt             : rn|rz [relu] [satfinite] f16|bf16 f32             : D+ T+
cvt             : rna|rn|rz [relu] [satfinite] tf32 f32             : b32 f32
cvt             : rn|rz [relu] [satfinite] f16x2|bf16x2 f32         : D+ T+ T+
cvt             : rn [satfinite] [relu] e4m3x2|e5m2x2 f32           : b16+ T+ T+
cvt             : rn [satfinite] [relu] e4m3x2|e5m2x2 f16x2         : b16 T
cvt             : rn [relu] f16x2 e4m3x2|e5m2x2                     : D b16
cvt             : pack sat u16|s16 s32                              : b32+ s32+ s32+
cvt             : pack sat u8|s8|u4|s4|u2|s2 s32 b32                : b32+ s32+ s32+ b32
createpolicy    : fractional|range|cvt [global] L2|L2::* [L2::*] b64 : b64 ...
griddepcontrol  : launch_dependents|wait                            :
nanosleep       : u32                                               : u32
prefetch        : [global|local] [tensormap] [param|const] L1|L2|L2::* : A
prefetch        : [param|const] tensormap                           : A
prefetchu       : L1                                                : A
discard         : [global] L2                                       : A N
applypriority   : [global] L2::*                                    : A N
pmevent         : [mask]                                            : N
brkpt           :                                                   :
ld ldu          : [mmio] [ORDER] [SCOPE] [SPACE] [nc] [CACHE] [L1::*] [L2::*] [L2::*] [v2|v4|v8] MEMORY : {T+} A ?b64
st              : [mmio] [ORDER] [SCOPE] [SPACE] [CACHE] [L1::*] [L2::*] [v2|v4|v8] MEMORY : A {T+} ?b64
st              : async [weak] [shared::cluster] COUNTED [v2|v4] b32|u32|s32|f32 : A {T} A
st              : async [weak] [shared::cluster] COUNTED [v2] b64|u64|s64|f64    : A {T} A
atom            : [ORDER] [SCOPE] [SPACE] cas [L2::*] BITS   : T A T T ?b64
atom            : [ORDER] [SCOPE] [SPACE] cas [L2::*] b128     : M A M M ?b64
atom            : [ORDER] [SCOPE] [SPACE] exch [L2::*] b128    : M A M ?b64
atom            : [ORDER] [SCOPE] [SPACE] add [L2::*] u32|s32|u64|s64 : {T} A {T} ?b64
atom            : [ORDER] [SCOPE] [SPACE] add [L2::*] [v2|v4] f32|f64 : {T} A {T} ?b64
atom            : [ORDER] [SCOPE] [SPACE] min|max [L2::*] u32|s32|u64|s64 : {T} A {T} ?b64
atom            : [ORDER] [SCOPE] [SPACE] add|min|max noftz [L2::*] [v2|v4|v8] HALF : {T} A {T} ?b64
atom            : [ORDER] [SCOPE] [SPACE] inc|dec [L2::*] u32 : {T} A {T} ?b64
atom            : [ORDER] [SCOPE] [SPACE] exch|LOGIC [L2::*] b32|b64 : {T} A {T} ?b64
red             : [ORDER] [SCOPE] [SPACE] add [L2::*] u32|s32|u64|s64 : A {T} ?b64
red             : [ORDER] [SCOPE] [SPACE] add [L2::*] [v2|v4] f32|f64 : A {T} ?b64
red             : [ORDER] [SCOPE] [SPACE] min|max [L2::*] u32|s32|u64|s64 : A {T} ?b64
red             : [ORDER] [SCOPE] [SPACE] add|min|max noftz [L2::*] [v2|v4|v8] HALF : A {T} ?b64
red             : [ORDER] [SCOPE] [SPACE] inc|dec [L2::*] u32 : A {T} ?b64
red             : [ORDER] [SCOPE] [SPACE] LOGIC [L2::*] b32|b64 : A {T} ?b64
red             : async relaxed cluster [shared::cluster] COUNTED inc|dec u32      : A T A
red             : async relaxed cluster [shared::cluster] COUNTED min|max u32|s32  : A T A
red             : async relaxed cluster [shared::cluster] COUNTED LOGIC b32        : A T A
red             : async relaxed cluster [shared::cluster] COUNTED add u32|s32|u64  : A T A
tex             : 1d v4 u32|s32|f32 s32|f32                         : {D} A
tex             : 2d|3d|a1d|a2d v4 u32|s32|f32 f32                  : {D} A
tld4            : r|g|b|a 2d|a2d v4 u32|s32|f32 f32                 : {D} A
txq             : width|height|depth b32                            : b32 A
suq             : width|height|depth b32                            : b32 A
suld            : b IMAGES [CACHE] [v2|v4] b8|b16|b32|b64 [OUTSIDE] : {T+} A
sust            : b IMAGES [CACHE] [v2|v4] b8|b16|b32|b64 [OUTSIDE] : A {T+}
sured           : b add 1d|2d|3d u32|s32|u64 [OUTSIDE]                : A {T}
sured           : b min|max 1d|2d|3d u32|s32 [OUTSIDE]                : A {T}
sured           : b and|or 1d|2d|3d b32 [OUTSIDE]                     : A {T}
multimem        : ld_reduce [weak|relaxed|acquire] [SCOPE] [global] and|or|xor b32|b64 : T A
multimem        : ld_reduce [weak|relaxed|acquire] [SCOPE] [global] min|max u32|s32|u64|s64 : T A
multimem        : ld_reduce [weak|relaxed|acquire] [SCOPE] [global] add u32|s32|u64|f64 : T A
multimem        : ld_reduce [weak|relaxed|acquire] [SCOPE] [global] add [v2|v4] f32 : {T} A
multimem        : ld_reduce [weak|relaxed|acquire] [SCOPE] [global] add|min|max [acc::f32] [v2|v4|v8] HALF : {T} A
multimem        : st [weak|relaxed|release] [SCOPE] [global] b32|b64|u32|u64|s32|s64|f64 : A T
multimem        : st [weak|relaxed|release] [SCOPE] [global] [v2|v4|v8] f32|HALF : A {T}
multimem        : red [relaxed|release] [SCOPE] [global] and|or|xor b32|b64 : A T
multimem        : red [relaxed|release] [SCOPE] [global] min|max u32|s32|u64|s64 : A T
multimem        : red [relaxed|release] [SCOPE] [global] add u32|s32|u64|f64 : A T
multimem        : red [relaxed|release] [SCOPE] [global] add [v2|v4] f32 : A {T}
multimem        : red [relaxed|release] [SCOPE] [global] add|min|max [v2|v4|v8] HALF : A {T}
alloca          : u32|u64                                           : T T ?N
stacksave stackrestore : u32|u64                                    : T
mapa            : [SHARED] u32|u64                                  : T T u32
getctarank      : [SHARED] u32|u64                                  : u32 *
shfl            : sync up|down|bfly|idx b32                         : T|pred T b32 b32 b32
vote            : sync all|any|uni pred                             : T T b32
vote            : sync ballot b32                                   : T pred b32
match           : any sync b32|b64                                  : b32 T b32
match           : all sync b32|b64                                  : b32|pred T b32
redux           : sync add|min|max u32|s32                          : T T b32
redux           : sync LOGIC b32                                    : T T b32
elect           : sync                                              : b32|pred b32
activemask      : b32                                               : T
ldmatrix        : sync aligned m8n8 x1|x2|x4 [trans] [shared|shared::cta] b16 : {b32} A
stmatrix        : sync aligned m8n8 x1|x2|x4 [trans] [shared|shared::cta] b16 : A {b32}
movmatrix       : sync aligned m8n8 trans b16                       : b32 b32
bar             : warp sync                                         : b32
bar             : [cta] sync                                        : u32 ?u32
bar             : [cta] arrive                                      : u32 u32
bar             : [cta] red popc u32                                : u32 u32 pred
bar             : [cta] red popc u32                                : u32 u32 u32 pred
bar             : [cta] red and|or pred                             : pred u32 pred
bar             : [cta] red and|or pred                             : pred u32 u32 pred
barrier         : warp sync                                         : b32
barrier         : [cta] sync [aligned]                              : u32 ?u32
barrier         : [cta] arrive [aligned]                            : u32 u32
barrier         : [cta] red popc [aligned] u32                      : u32 u32 pred
barrier         : [cta] red popc [aligned] u32                      : u32 u32 u32 pred
barrier         : [cta] red and|or [aligned] pred                   : pred u32 pred
barrier         : [cta] red and|or [aligned] pred                   : pred u32 u32 pred
barrier         : cluster arrive [release|relaxed] [aligned]        :
barrier         : cluster wait [acquire] [aligned]                  :
brx             : idx [uni]                                         : u32 N
setmaxnreg      : inc|dec sync aligned u32                          : N
membar          : cta|gl|sys                                        :
membar          : proxy alias                                       :
fence           : proxy alias|async|async::* [global|SHARED]        :
fence           : proxy async::* acquire|release sync_restrict::* SCOPE :
fence           : proxy tensormap::* acquire SCOPE                  : A N
fence           : proxy tensormap::* release SCOPE                  :
fence           : mbarrier_init release cluster                     :
fence           : [sc|acq_rel|acquire|release] SCOPE                :
fence           : acquire|release sync_restrict::* SCOPE            :
mbarrier        : init [SHARED] b64                                 : A u32
mbarrier        : inval [SHARED] b64                                : A
mbarrier        : expect_tx|complete_tx [relaxed] [cta|cluster] [SHARED] b64 : A u32
mbarrier        : arrive|arrive_drop [release|relaxed] [cta|cluster] [SHARED] b64 : b64 A ?u32
mbarrier        : arrive|arrive_drop [release|relaxed] [cta|cluster] [SHARED] b64 : A ?u32
mbarrier        : arrive|arrive_drop noComplete [release] [cta|cluster] [SHARED] b64 : b64 A u32
mbarrier        : arrive|arrive_drop expect_tx [release|relaxed] [cta|cluster] [SHARED] b64 : b64 A u32
mbarrier        : arrive|arrive_drop expect_tx [release|relaxed] [cta|cluster] [SHARED] b64 : A u32
mbarrier        : pending_count b64                                 : b32 b64
mbarrier        : test_wait [acquire|relaxed] [cta|cluster] [SHARED] b64 : pred A b64
mbarrier        : test_wait parity [acquire|relaxed] [cta|cluster] [SHARED] b64 : pred A u32
mbarrier        : try_wait [acquire|relaxed] [cta|cluster] [SHARED] b64 : pred A b64 ?u32
mbarrier        : try_wait parity [acquire|relaxed] [cta|cluster] [SHARED] b64 : pred A u32 ?u32
cp              : async ca|cg SHARED global [L2::*] [L2::*]         : A A N ?* ?b64
cp              : async commit_group                                :
cp              : async wait_group                                  : N
cp              : async wait_all                                    :
cp              : async mbarrier arrive [noinc] [SHARED] b64        : A
cp              : async bulk commit_group                           :
cp              : async bulk wait_group [read]                      : N
cp              : async bulk prefetch [L2] [tensor] [TENSOR] [L2::*] [global] [tile|tile::*|im2col*] : ...
cp              : async bulk SHARED global COUNTED [multicast::cluster] [HINT] : A A u32 A ?* ?b64
cp              : async bulk shared::cluster shared::cta COUNTED        : A A u32 A
cp              : async bulk global shared::cta bulk_group [HINT] : A A u32 ?b64
cp              : async bulk tensor TENSOR SHARED global [tile] COUNTED [multicast::cluster] [HINT] : A A A ?* ?b64
cp              : async bulk tensor IMAGE SHARED global im2col COUNTED [multicast::cluster] [HINT] : A A A * ?* ?b64
cp              : async bulk tensor TENSOR global shared::cta [tile] bulk_group [HINT] : A A ?b64
cp              : async bulk tensor IMAGE global shared::cta im2col_no_offs bulk_group [HINT] : A A ?b64
cp              : reduce async bulk shared::cluster shared::cta COUNTED REDUCE MEMORY : A A u32 A
cp              : reduce async bulk global shared::cta bulk_group [HINT] REDUCE [noftz] MEMORY : A A u32 ?b64
cp              : reduce async bulk tensor TENSOR global shared::cta REDUCE [tile] bulk_group [HINT] : A A ?b64
cp              : reduce async bulk tensor IMAGE global shared::cta REDUCE im2col_no_offs bulk_group [HINT] : A A ?b64
tensormap       : replace tile global_address [global|shared::cta] b1024 b64 : A T
tensormap       : replace tile rank [global|shared::cta] b1024 b32  : A T
tensormap       : replace tile box_dim|global_dim|element_stride [global|shared::cta] b1024 b32 : A N T
tensormap       : replace tile global_stride [global|shared::cta] b1024 b64 : A N T
tensormap       : replace tile elemtype|interleave_layout|swizzle_mode|fill_mode [global|shared::cta] b1024 b32 : A N
tensormap       : cp_fenceproxy global shared::cta tensormap::generic release SCOPE sync aligned : A A N
mma             : sync aligned MMA row|col row|col [satfinite] TYPE TYPE TYPE TYPE : {F} {F} {F} {F}
mma             : sync aligned MMA row col ROUND f64 f64 f64 f64    : {F} {F} {F} {F}
mma             : sync aligned MMA row col s32 b1 b1 s32 xor|and popc : {F} {F} {F} {F}
mma             : sp|sp::* sync aligned SPARSE row col [satfinite] TYPE TYPE TYPE TYPE : {F} {F} {F} {F} b32 N
wmma            : load a sync aligned row m8n8k32 [SPACE] s4|u4      : {F} A ?u32
wmma            : load b sync aligned col m8n8k32 [SPACE] s4|u4      : {F} A ?u32
wmma            : load a sync aligned row m8n8k128 [SPACE] b1        : {F} A ?u32
wmma            : load b sync aligned col m8n8k128 [SPACE] b1        : {F} A ?u32
wmma            : load a|b|c sync aligned row|col WMMA [SPACE] STORED : {F} A ?u32
wmma            : store d sync aligned row|col WMMA [SPACE] f16|f32|s32|f64 : A {F} ?u32
wmma            : mma sync aligned row|col row|col WMMA f16|f32 f16|f32 [satfinite] : {F} {F} {F} {F}
wmma            : mma sync aligned row|col row|col WMMA INPUT INPUT INPUT INPUT [satfinite] : {F} {F} {F} {F}
wmma            : mma sync aligned row|col row|col WMMA ROUND f64 f64 f64 f64 : {F} {F} {F} {F}
wmma            : mma sync aligned row col m8n8k32 s32 s4|u4 s4|u4 s32 [satfinite] : {F} {F} {F} {F}
wmma            : mma xor|and popc sync aligned row col m8n8k128 s32 b1 b1 s32 : {F} {F} {F} {F}
wgmma           : fence sync aligned                                :
wgmma           : commit_group sync aligned                         :
wgmma           : wait_group sync aligned                           : N
wgmma           : mma_async sync aligned WGMMA [satfinite] f16|f32|s32 TYPE TYPE : {F} * b64 pred ?N ?N ?N ?N
"""


_MOST_SHOWN = 10
"""The most modifiers of a group that messages list."""


def has_modifier(choices: tuple[str, ...], modifier: str) -> bool:
    """Whether a modifier is one of the choices; a* is any that starts with a."""
    return any(modifier.startswith(choice[:-1]) if choice.endswith("*") else modifier == choice for choice in choices)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of modifiers; an instruction has exactly one of them, or at most one if not required."""

    choices: tuple[str, ...]
    required: bool

    def has(self, modifier: str) -> bool:
        """Whether the modifier is one of the group."""
        return has_modifier(self.choices, modifier)

    def __str__(self) -> str:
        names = [f".{name}" for name in self.choices]
        text = "|".join(names if len(names) <= _MOST_SHOWN else [*names[:_MOST_SHOWN], "..."])
        text = f"{{{text}}}" if len(names) > 1 else text
        return text if self.required else f"[{text}]"


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write an instruction: its modifiers, and its operands as in the table."""

    opcode: str
    groups: tuple[Group, ...]
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return "".join((self.opcode, *map(str, self.groups)))


def _group(text: str) -> Group:
    names = text.strip("[]").split("|")
    return Group(tuple(" ".join(SETS.get(name, name) for name in names).split()), not text.startswith("["))


def _forms() -> dict[str, list[Form]]:
    forms: dict[str, list[Form]] = {}
    for line in _TABLE.strip().splitlines():
        opcodes, modifiers, operands = (part.strip() for part in f"{line} ".split(" :", 2))
        groups = tuple(map(_group, modifiers.split()))
        for opcode in opcodes.split():
            forms.setdefault(opcode, []).append(Form(opcode, groups, tuple(operands.split())))
    return forms


FORMS = _forms()
"""Opcode -> its forms."""
