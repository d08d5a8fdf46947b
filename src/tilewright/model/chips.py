"""The GPUs that the models know: what `hardware` says of them, and what only explains."""

from collections.abc import Mapping
from functools import cache
from math import inf
from typing import Any, NamedTuple, TypeAlias

from tilewright.dtypes import FP8, bf16, fp16, fp32, int8
from tilewright.errors import ArgumentValueError
from tilewright.hardware import GPUS, MAX_SMEM_BYTES, REGISTERS, Hardware, SmLimits, named
from tilewright.model.memory.banks import BANK_BYTES, BANKS
from tilewright.rounding import natural, real

SOURCES = {
    "data sheet": "NVIDIA's data sheet of the product; of H20 and H800 as resellers give it, of B200 that of HGX B200",
    "white paper": "NVIDIA's white papers of V100, A100, Ada and H100",
    "programming guide": "NVIDIA's CUDA C++ programming guide: throughput of arithmetic by compute capability",
    "Jia": 'Z. Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018: latencies',
    "Luo": 'W. Luo et al., "Benchmarking and dissecting the Nvidia Hopper GPU architecture", 2024: latencies of one '
    "GPU of each generation",
    "observed": "what an H200 reports, and what its SMs received from L2 (results/calibration_h200.json)",
}
"""Where facts are from, by the names in `Chip.sources`."""

KIB, MIB, GB = 1024, 1 << 20, 10**9
SMEM_BYTES_PER_CLOCK = BANKS * BANK_BYTES
"""What an SM's shared memory or L1 delivers in a clock."""


BYTES = {
    "fp64": 8, "fp32": 4, "tf32": 4, "int32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp6": 0.75, "fp4": 0.5,
    "int4": 0.5,
}  # fmt: skip
"""Of an element in memory, by the names of `Rate.operands`; scales of blocks come on top."""


L2_BYTES_PER_CLOCK = 64
"""What an SM receives from L2 in a clock; of 5,060 launches on an H200, none got more and one nearly as much."""


class Generation(NamedTuple):
    """What the SMs of a compute capability have in common.

    tensor: how many times the multiply-adds on 2-byte floats the tensor cores do on other operands, by operands and
    sums. cuda_cores: operations per clock and SM on other operands than fp32. l1_bytes: L1 and shared memory together.
    largest_cluster: CTAs of a portable one, 1 if there are none. brought: what is new in it.
    """

    name: str
    tensor_cores: int
    tensor: Mapping[tuple[str, str], float]
    cuda_cores: Mapping[str, int]
    l1_bytes: int
    largest_cluster: int
    brought: tuple[str, ...]


_AMPERE = {("tf32", "fp32"): 0.5, ("int8", "int32"): 2, ("int4", "int32"): 4, ("fp64", "fp64"): 1 / 16}
_HOPPER = {("tf32", "fp32"): 0.5, ("fp8", "fp32"): 2, ("int8", "int32"): 2, ("fp64", "fp64"): 1 / 16}

GENERATIONS = {
    70: Generation(
        "Volta", 8, {}, {"fp64": 32, "fp16": 128, "int32": 64}, 128 * KIB, 1,
        (
            "tensor cores, for fp16",
            "a program counter for each thread (independent thread scheduling)",
            "fp32 and int32 units that work side by side",
            "L1 and shared memory in one array",
        ),
    ),
    80: Generation(
        "Ampere", 4, _AMPERE, {"fp64": 32, "fp16": 256, "int32": 64}, 192 * KIB, 1,
        (
            "tensor cores for bf16, tf32, int8, int4 and fp64, and for A with two of four elements (2:4)",
            "copies from GMEM to SMEM that take no registers (cp.async)",
            "barriers in SMEM with arrival and wait apart (mbarrier)",
            "L2 in two partitions, and control of what stays in it",
        ),
    ),
    89: Generation(
        "Ada", 4, {
            ("fp16", "fp16"): 2, ("tf32", "fp32"): 0.5, ("fp8", "fp32"): 2, ("fp8", "fp16"): 4, ("int8", "int32"): 4,
            ("int4", "int32"): 8,
        }, {"fp64": 2, "fp16": 128, "int32": 64}, 128 * KIB, 1,
        (
            "tensor cores for fp8",
            "twelve times the L2 of the GPUs before it",
        ),
    ),
    90: Generation(
        "Hopper", 4, _HOPPER, {"fp64": 64, "fp16": 256, "int32": 64}, 256 * KIB, 8,
        (
            "wgmma: four warps multiply from SMEM, asynchronously; tensor cores for fp8",
            "TMA: one thread copies a box of a tensor",
            "clusters: CTAs of one GPC that share their SMEM (DSMEM), and loads that several of them receive",
            "mbarriers that count bytes",
            "registers that move from producers to consumers (setmaxnreg)",
        ),
    ),
    100: Generation(
        "Blackwell", 4, {
            ("tf32", "fp32"): 0.5, ("fp8", "fp32"): 2, ("fp6", "fp32"): 2, ("fp4", "fp32"): 4, ("int8", "int32"): 2,
            ("fp64", "fp64"): 1 / 64,
        }, {"fp64": 64, "fp16": 256, "int32": 64}, 256 * KIB, 8,
        (
            "tcgen05: one thread starts a multiplication, with sums in a memory of their own (TMEM, 256 KiB an SM)",
            "pairs of CTAs that multiply together",
            "tensor cores for fp6 and fp4, with a scale for each block of 16 or 32 elements",
        ),
    ),
}  # fmt: skip
"""By compute capability times ten."""


class Latencies(NamedTuple):
    """Clocks from a load to its use, without any other work; dsmem: in another SM of the cluster."""

    smem: int
    l1: int
    dsmem: int | None
    l2: int
    dram: int
    source: str


_VOLTA_LATENCIES = Latencies(19, 28, None, 193, 375, "Jia")
_AMPERE_LATENCIES = Latencies(29, 38, None, 262, 466, "Luo")
_ADA_LATENCIES = Latencies(30, 43, None, 273, 542, "Luo")
_HOPPER_LATENCIES = Latencies(29, 41, 180, 263, 479, "Luo")


class Rate(NamedTuple):
    """How fast a unit multiplies elements of a type; macs: multiply-adds per clock and SM, dense; clock: in Hz."""

    unit: str
    operands: str
    sums: str
    macs: float
    clock: float


class Memory(NamedTuple):
    """A level of memory: bytes and bytes per second of the whole GPU, and clocks until a load's value is there.

    Clocks that nobody has published are None.
    """

    name: str
    bytes: int
    bytes_per_second: float
    latency: int | None


class Chip(NamedTuple):
    """A GPU.

    gpcs: how many groups of SMs it may have; () if nothing of that is published. gpc_sms: SMs of a whole group. memory:
    its kind. l2_bytes_per_clock: what L2 gives all SMs together, if that is less than they could take. watts: the power
    limit. fp64_tflops: where the product has less than its generation. remark: what does not fit in the sources.
    """

    gpu: Hardware
    gpcs: tuple[int, ...]
    gpc_sms: int
    memory: str
    memory_bytes: int
    l2_bytes: int
    l2_bytes_per_clock: int | None
    watts: int
    latencies: Latencies | None
    sources: tuple[str, ...]
    fp64_tflops: float | None = None
    remark: str = ""

    @property
    def name(self) -> str:
        """As users name it."""
        return self.gpu.name

    @property
    def generation(self) -> Generation:
        """What it has in common with others."""
        return GENERATIONS[self.gpu.capability]

    @property
    def limits(self) -> SmLimits:
        """What an SM holds."""
        return self.gpu.limits

    @property
    def l2_partitions(self) -> int:
        """Of L2: two since the A100."""
        return 2 if self.gpu.capability >= 80 else 1

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Every unit and type, the tensor cores first."""
        gpu, generation = self.gpu, self.generation
        two_bytes = gpu.macs(gpu.peak_unit(fp16), fp16)
        units = {(unit, dtype) for unit, dtype, _ in gpu.rates}
        tensor = {("fp16", "fp32"): 1.0}
        if any(dtype == bf16 for _, dtype in units):
            tensor[("bf16", "fp32")] = 1.0
        tensor |= generation.tensor
        cuda_cores = {"fp32": gpu.macs("cuda_cores", fp32), **generation.cuda_cores}
        found = [
            Rate("tensor cores", operands, sums, share * two_bytes, self._clock(operands))
            for (operands, sums), share in tensor.items()
        ]
        found += [Rate("CUDA cores", name, name, macs, gpu.cuda_core_clock) for name, macs in cuda_cores.items()]
        if self.fp64_tflops is not None:
            macs = self.fp64_tflops * 1e12 / (2 * gpu.sm_count * gpu.cuda_core_clock)
            found = [rate._replace(macs=macs) if rate.operands == "fp64" else rate for rate in found]
        return tuple(found)

    def _clock(self, operands: str) -> float:
        """Of the tensor cores; fp64, which heats them less, is published at the clock of the CUDA cores."""
        return self.gpu.cuda_core_clock if operands == "fp64" else self.gpu.tensor_clock

    def flops(self, rate: Rate, clock: float | None = None) -> float:
        """Operations per second of the whole GPU at a rate, at its own clock or at another one in Hz."""
        hertz = rate.clock if clock is None else real("clock", clock, 1)
        return 2 * rate.macs * self.gpu.sm_count * hertz

    def rate(self, operands: str, sums: str | None = None) -> Rate:
        """The fastest way to multiply elements of a type; fp8_e4m3 is fp8. An ArgumentValueError lists the types."""
        family = str(operands).partition("_")[0]
        found = [each for each in self.rates if each.operands == family and sums in (None, each.sums)]
        if not found:
            known = ", ".join(dict.fromkeys(each.operands for each in self.rates))
            raise ArgumentValueError(f"dtype={operands!r} is not multiplied by {self.name}: use {known}")
        return max((each for each in found if sums or each.sums != "fp16"), key=self.flops)

    @property
    def usual(self) -> str:
        """The type that a product usually has: bf16, or fp16 before Ampere."""
        return next(name for name in ("bf16", "fp16") if any(each.operands == name for each in self.rates))

    @property
    def levels(self) -> tuple[Memory, ...]:
        """The levels of memory at the boost clock, from the registers on."""
        return self.levels_at(self.gpu.cuda_core_clock)

    def levels_at(self, clock: float) -> tuple[Memory, ...]:
        """The levels of memory at a clock (Hz) of SMs and L2, from the registers on."""
        gpu, known = self.gpu, self.latencies
        each_clock = gpu.sm_count * real("clock", clock, 1)
        smem = each_clock * SMEM_BYTES_PER_CLOCK
        l2 = min(self.l2_bytes_per_clock or inf, gpu.sm_count * L2_BYTES_PER_CLOCK) * clock
        read = gpu.macs("cuda_cores", fp32) * 3 * 4  # an FMA reads three registers
        return (
            Memory("registers", gpu.sm_count * REGISTERS * 4, read * each_clock, None),
            Memory("SMEM", gpu.sm_count * self.limits.smem_bytes, smem, known and known.smem),
            Memory("L1 and SMEM", gpu.sm_count * self.generation.l1_bytes, smem, known and known.l1),
            Memory("L2", self.l2_bytes, l2, known and known.l2),
            Memory(self.memory, self.memory_bytes, gpu.memory_bandwidth, known and known.dram),
        )

    def clusters(self, ctas: int) -> tuple[int, int]:
        """The fewest and the most clusters of so many CTAs, one an SM, that can work at once.

        A cluster lies in one GPC, and which SMs of a chip are switched off differs from one to the next. They are
        switched off in pairs. So this is over every way to spread the SMs over GPCs. An H200 was seen to hold fewer of
        three and of six, `hardware.CLUSTERS`. Raises an ArgumentValueError if the chip has no clusters, or its GPCs are
        not published.
        """
        natural("ctas", ctas, 1)
        if not self.gpcs or self.generation.largest_cluster == 1:
            raise ArgumentValueError(f"chip={self.name!r} has no clusters, or unknown GPCs: use one of Hopper")
        found = [each for gpcs in self.gpcs for each in _spread(self.gpu.sm_count // 2, gpcs, self.gpc_sms // 2, ctas)]
        return min(found), max(found)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: also what follows from the fields."""
        gpu, generation = self.gpu, self.generation
        sizes = (2, 4, 8, 16) if self.gpcs and generation.largest_cluster > 1 else ()
        return {
            "name": self.name,
            "arch": gpu.arch,
            "generation": generation.name,
            "sms": gpu.sm_count,
            "gpcs": list(self.gpcs),
            "gpc_sms": self.gpc_sms,
            "tensor_clock_mhz": gpu.tensor_clock / 1e6,
            "cuda_core_clock_mhz": gpu.cuda_core_clock / 1e6,
            "watts": self.watts,
            "memory_bandwidth": gpu.memory_bandwidth,
            "rates": [{**rate._asdict(), "tflops": self.flops(rate) / 1e12} for rate in self.rates],
            "levels": [level._asdict() for level in self.levels],
            "limits": {**self.limits._asdict(), "smem_bytes": self.limits.smem_bytes},
            "clusters": {str(ctas): list(self.clusters(ctas)) for ctas in sizes},
            "brought": list(generation.brought),
            "remark": self.remark,
            "sources": list(self.sources),
        }


def _spread(pairs: int, gpcs: int, most: int, ctas: int) -> tuple[int, int]:
    """The fewest and the most clusters if `pairs` of SMs are spread over GPCs of up to `most` pairs."""

    @cache
    def extreme(left: int, gpc: int, sign: int) -> int | None:
        if gpc == gpcs:
            return None if left else 0
        rests = ((here * 2 // ctas, extreme(left - here, gpc + 1, sign)) for here in range(max(0, min(most, left)) + 1))
        return max((fit * sign + rest for fit, rest in rests if rest is not None), default=None)

    least, largest = extreme(pairs, 0, -1), extreme(pairs, 0, 1)
    assert least is not None
    assert largest is not None
    return -least, largest


def _mma(fp16_macs: int, fp32_macs: int) -> Any:
    return (("mma", bf16, fp16_macs), ("mma", fp16, fp16_macs), ("cuda_cores", fp32, fp32_macs))


_V100 = Hardware("V100", "sm_70", 80, 96 * KIB, 0.9e12, 1.53e9, 1.53e9, _mma(512, 64)[1:])
_RTX_4090_RATES = (*_mma(256, 128), *(("mma", each, 512) for each in FP8), ("mma", int8, 1024))
_RTX_4090 = Hardware("RTX-4090", "sm_89", 128, 99 * KIB, 1.008e12, 2.52e9, 2.52e9, _RTX_4090_RATES)
_B200_RATES: Any = (
    *(("tcgen05", each, 4096) for each in (bf16, fp16)),
    *(("tcgen05", each, 8192) for each in (*FP8, int8)),
    ("cuda_cores", fp32, 128),
)
_B200 = Hardware("B200", "sm_100", 148, MAX_SMEM_BYTES, 7.7e12, 1.856e9, 1.98e9, _B200_RATES)

_HALF_RATE = "its tensor cores sum products of 16 bits in fp32 at half the rate of Ada's professional boards"

CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            _V100, (6,), 14, "HBM2", 16 * GB, 6 * MIB, 2048, 300, _VOLTA_LATENCIES,
            ("data sheet", "white paper", "programming guide", "Jia"),
        ),
        Chip(
            GPUS["A100"], (7,), 16, "HBM2e", 80 * GB, 40 * MIB, 5120, 400, _AMPERE_LATENCIES,
            ("data sheet", "white paper", "programming guide", "Luo"),
        ),
        Chip(
            _RTX_4090, (11,), 12, "GDDR6X", 24 * GB, 72 * MIB, None, 450, _ADA_LATENCIES,
            ("data sheet", "white paper", "programming guide", "Luo"), remark=_HALF_RATE,
        ),
        Chip(
            GPUS["H100-SXM"], (8,), 18, "HBM3", 80 * GB, 50 * MIB, None, 700, _HOPPER_LATENCIES,
            ("data sheet", "white paper", "programming guide", "Luo"),
        ),
        Chip(
            GPUS["H100-PCIe"], (7, 8), 18, "HBM2e", 80 * GB, 50 * MIB, None, 350, _HOPPER_LATENCIES,
            ("data sheet", "white paper", "programming guide", "Luo"),
        ),
        Chip(
            GPUS["H200"], (8,), 18, "HBM3e", 141 * GB, 60 * MIB, None, 700, _HOPPER_LATENCIES,
            ("data sheet", "white paper", "programming guide", "Luo", "observed"),
        ),
        Chip(
            GPUS["H800"], (8,), 18, "HBM3", 80 * GB, 50 * MIB, None, 700, _HOPPER_LATENCIES,
            ("data sheet", "white paper", "programming guide", "Luo"), fp64_tflops=1.0,
        ),
        Chip(
            GPUS["H20"], (5, 6, 7, 8), 18, "HBM3", 96 * GB, 60 * MIB, None, 400, _HOPPER_LATENCIES,
            ("data sheet", "white paper", "programming guide", "Luo"), fp64_tflops=1.0,
            remark="the published 44 TFLOP/s in fp32 would need 2.2 GHz; how many of its chip's 8 GPCs work is not "
            "published, and 78 SMs need 5 of them",
        ),
        Chip(
            _B200, (), 0, "HBM3e", 180 * GB, 126 * MIB, None, 1000, None,
            ("data sheet", "programming guide"), remark="clocks follow from the published rates",
        ),
    )
}  # fmt: skip
"""By name, from the oldest on."""


AnyChip: TypeAlias = Chip | Hardware | str
"""How every function of the models takes a chip: the name of one, itself, or the facts of one that is here."""


def chip_of(chip: AnyChip) -> Chip:
    """The chip that is meant; a name may be in any case, and H100 means H100-SXM.

    Hardware is looked up by its name and keeps its own numbers, as those of a board with fewer SMs. An
    ArgumentValueError lists the names.
    """
    if isinstance(chip, Chip):
        return chip
    if isinstance(chip, Hardware):
        return chip_of(chip.name)._replace(gpu=chip)
    return named(chip, "chip", CHIPS)


def gpu_of(chip: AnyChip) -> Hardware:
    """The Hardware of the chip that is meant, also of one that is in no table; an ArgumentValueError as `chip_of`."""
    return chip if isinstance(chip, Hardware) else chip_of(chip).gpu
