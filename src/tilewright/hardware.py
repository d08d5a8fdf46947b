"""The GPUs as named tuples of data-sheet facts; the models and the planner read only these."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, overload

from tilewright.dtypes import FP8, DType, bf16, fp16, fp32, int8
from tilewright.errors import ArgumentValueError

Known = TypeVar("Known")
Unit = Literal["tcgen05", "wgmma", "mma", "cuda_cores"]
"""The unit that multiplies: tensor cores by one of three instructions, or CUDA cores by fused multiply-adds."""

Rates: TypeAlias = tuple[tuple[Unit, DType, int], ...]
"""Dense multiply-adds per clock and SM by unit and element type, summed in fp32."""


def _rates(capability: int, tensor: int, cuda_cores: int) -> Rates:
    """The rates of a GPU: `tensor` for bf16 and fp16, by wgmma and mma on Hopper and by mma elsewhere.

    int8 and fp8 have twice the rate, but for fp8 by mma on Hopper, which converts it to fp16 first.
    """
    units: tuple[Unit, ...] = ("wgmma", "mma") if capability == 90 else ("mma",)
    rates = [(unit, dtype, tensor) for unit in units for dtype in (bf16, fp16)]
    rates += [(unit, int8, 2 * tensor) for unit in units]
    if capability >= 89:
        converts = capability == 90
        rates += [(unit, d, tensor * (1 if converts and unit == "mma" else 2)) for unit in units for d in FP8]
    return (*rates, ("cuda_cores", fp32, cuda_cores))


_MACS = {80: (1024, 64), 86: (512, 128), 87: (512, 128), 89: (512, 128), 90: (2048, 128)}
"""Multiply-adds per clock and SM of tensor cores and of CUDA cores, by compute capability."""


def rates_of(capability: int) -> Rates:
    """The usual rates of GPUs of a compute capability; a guess if the capability is unknown."""
    return _rates(capability, *_MACS.get(capability, (1024, 128)))


HOPPER = "sm_90a"
"""The architecture of Hopper with all its instructions, which other GPUs lack."""
LEAST_CAPABILITY = 80
"""The least compute capability, times ten, of a GPU that runs a kernel of ours."""
MAX_SMEM_BYTES = 227 * 1024
"""The most shared memory of a block on any GPU so far: on Hopper and on Blackwell."""
SECTOR_BYTES = 32
"""The piece in which global memory and L2 are read and written."""
WGMMA_N = range(8, 257, 8)
"""The columns of B that a wgmma takes."""
CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}
"""How many clusters of so many CTAs an H200's SMs hold, one CTA an SM, by cuOccupancyMaxActiveClusters."""
WARP = 32
"""Threads of a warp."""
RESERVED_SMEM_BYTES, SMEM_UNIT = 1024, 128
"""Shared memory that the system takes for each CTA, and of which CTAs get whole pieces, on GPUs since sm_80."""
REGISTERS = 65_536
"""The 32-bit registers of an SM, since sm_50."""


class SmLimits(NamedTuple):
    """What an SM of a compute capability holds.

    Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Shared Memory" of each.

    warps, ctas: the most at once. carveouts: how many KiB of L1's array can be shared memory of all CTAs together.
    reserved_smem_bytes: what the system takes of it for each CTA. smem_unit: shared memory is given in such pieces.
    """

    warps: int
    ctas: int
    carveouts: tuple[int, ...]
    reserved_smem_bytes: int = RESERVED_SMEM_BYTES
    smem_unit: int = SMEM_UNIT

    @property
    def smem_bytes(self) -> int:
        """The most shared memory of all CTAs together."""
        return self.carveouts[-1] * 1024

    def offered(self, nbytes: int, name: str = "carveout") -> int:
        """The bytes, if so many can be shared memory; an ArgumentValueError lists those that can."""
        offered = [kib * 1024 for kib in self.carveouts]
        if nbytes not in offered:
            raise ArgumentValueError(
                f"{name}={nbytes} bytes cannot be set aside for shared memory: use {', '.join(map(str, offered))}"
            )
        return nbytes


_SMALL = 0, 8, 16, 32, 64, 100
_LARGE = *_SMALL, 132, 164
_LARGEST = *_LARGE, 196, 228
LIMITS = {
    70: SmLimits(64, 32, (0, 8, 16, 32, 64, 96), 0, 256),
    75: SmLimits(32, 16, (32, 64), 0, 256),
    80: SmLimits(64, 32, _LARGE),
    86: SmLimits(48, 16, _SMALL),
    87: SmLimits(48, 16, _LARGE),
    89: SmLimits(48, 24, _SMALL),
    90: SmLimits(64, 32, _LARGEST),
    100: SmLimits(64, 32, _LARGEST),
    103: SmLimits(64, 32, _LARGEST),
    120: SmLimits(48, 24, _SMALL),
}
"""By compute capability times ten."""


@lru_cache(maxsize=1024)  # new numbers of rows wait for this, and their weights are the same
def sector_bytes(shape: tuple[int, ...], strides: tuple[int, ...], nbytes: int) -> int:
    """The bytes that hold an array's elements of `nbytes`, and what lies between them in the same sectors.

    Strides count elements; those of 0 repeat them. A piece of memory that lies apart has at least a sector.
    """
    if 0 in shape:
        return 0
    steps = sorted([(abs(stride) * nbytes, extent) for stride, extent in zip(strides, shape, strict=True) if stride])
    pieces, piece = 1, nbytes
    for step, extent in steps:
        if step - piece < SECTOR_BYTES:
            piece += (extent - 1) * step
        else:
            pieces *= extent
    return pieces * (piece if pieces == 1 else max(piece, SECTOR_BYTES))


UNNAMED = "unnamed GPU"
"""The name of a GPU that stands for an architecture of which none is known."""


class Hardware(NamedTuple):
    """Facts of one GPU.

    arch: the architecture that NVRTC compiles for.
    sm_count: number of multiprocessors.
    smem_bytes: the most dynamic shared memory of a block.
    memory_bandwidth: bytes per second.
    tensor_clock, cuda_core_clock: boost clocks (Hz); Hopper's is lower while the tensor cores are in use.
    rates: dense multiply-adds per clock and SM.

    Sources: NVIDIA's data sheets, the H100 white paper (table 3 has both clocks), and the CUDA programming guide's
    table of compute capabilities. The H20's tensor_clock follows from its published 148 TFLOP/s in bf16.
    """

    name: str
    arch: str
    sm_count: int
    smem_bytes: int
    memory_bandwidth: float
    tensor_clock: float
    cuda_core_clock: float
    rates: Rates

    def __hash__(self) -> int:
        # Each plan asks several times; GPUs of one name are rarely in one process. A plain tuple has another hash.
        return hash(self.name)

    @property
    def virtual_arch(self) -> str:
        """The architecture for which NVRTC ends with PTX: "compute_90a" for `sm_90a`."""
        return self.arch.replace("sm_", "compute_")

    @property
    def capability(self) -> int:
        """Compute capability times ten: 90 for `sm_90a`."""
        return _capability(self.arch)

    @property
    def launches_overlap(self) -> bool:
        """Whether a grid may start before the one ahead of it has ended: programmatic dependent launch."""
        return self.capability >= 90

    @property
    def place(self) -> str:
        """What follows "on" in a sentence: its name, or "a GPU of sm_86" if it has none."""
        return f"a GPU of {self.arch}" if self.name == UNNAMED else self.name

    @property
    def its_arch(self) -> str:
        """A clause that says its architecture."""
        return f"{'this GPU' if self.name == UNNAMED else self.name} is {self.arch}"

    @property
    def limits(self) -> SmLimits:
        """What one of its SMs holds; an ArgumentValueError if that is not known of its capability."""
        if self.capability not in LIMITS:
            known = ", ".join(f"sm_{capability}" for capability in LIMITS)
            raise ArgumentValueError(f"chip={self.name} is {self.arch}, whose limits are unknown: use one of {known}")
        return LIMITS[self.capability]

    def clusters(self, ctas: int) -> int:
        """How many clusters of 1 to 8 CTAs, one an SM, work at once.

        A cluster lies in one GPC. An H200's CLUSTERS were counted, and other GPUs are taken to be like it.
        """
        return max(1, self.sm_count * CLUSTERS[ctas] // CLUSTERS[1])

    def macs(self, unit: Unit, dtype: DType) -> int:
        """Multiply-adds of elements of `dtype` per clock and SM; a ValueError if the unit does not multiply them."""
        for known, multiplied, macs in self.rates:
            if known == unit and multiplied == dtype:
                return macs
        having = ", ".join(known for known, multiplied, _ in self.rates if multiplied == dtype)
        raise ArgumentValueError(
            f"unit={unit!r} of {self.name} has no known rate for {dtype}: take a GPU that has one, or a kernel for "
            f"another unit; known here: {having or 'none'}"
        )

    def clock(self, unit: Unit) -> float:
        """The boost clock (Hz) while `unit` multiplies."""
        return self.cuda_core_clock if unit == "cuda_cores" else self.tensor_clock

    def peak_unit(self, dtype: DType) -> Unit:
        """The unit that multiplies elements of `dtype` best."""
        found = [(macs * self.clock(unit), unit) for unit, multiplied, macs in self.rates if multiplied == dtype]
        return max(found)[1]

    def peak_flops(self, dtype: DType) -> float:
        """Operations per second on elements of `dtype` at the boost clock, with the unit that multiplies them best."""
        unit = self.peak_unit(dtype)
        return 2.0 * self.macs(unit, dtype) * self.sm_count * self.clock(unit)


@cache
def _capability(arch: str) -> int:
    return int("".join(ch for ch in arch if ch.isdigit()))


A100 = Hardware("A100", "sm_80", 108, 166_912, 2.039e12, 1.410e9, 1.410e9, rates_of(80))
H100_SXM = Hardware("H100-SXM", HOPPER, 132, MAX_SMEM_BYTES, 3.35e12, 1.830e9, 1.980e9, rates_of(90))
H100_PCIE = Hardware("H100-PCIe", HOPPER, 114, MAX_SMEM_BYTES, 2.039e12, 1.620e9, 1.755e9, rates_of(90))
H200 = Hardware("H200", HOPPER, 132, MAX_SMEM_BYTES, 4.8e12, 1.830e9, 1.980e9, rates_of(90))
H800 = Hardware("H800", HOPPER, 132, MAX_SMEM_BYTES, 3.35e12, 1.830e9, 1.980e9, rates_of(90))
H20 = Hardware("H20", HOPPER, 78, MAX_SMEM_BYTES, 4.0e12, 1.853e9, 1.980e9, _rates(90, 512, 128))

GPUS = {gpu.name: gpu for gpu in (A100, H100_SXM, H100_PCIE, H200, H800, H20)}

_SMEM_BYTES = {80: 166_912, 87: 166_912} | dict.fromkeys((90, 100, 103, 110), MAX_SMEM_BYTES)
"""The maximum shared memory of a block by capability (CUDA programming guide)."""
_LEAST_SMEM_BYTES = 101_376
"""The shared memory that every GPU from capability 8.0 on has per block."""


def standing_for(arch: str) -> Hardware:
    """The GPU that stands for `arch`: the H200 for sm_90a, else the first entry with this architecture.

    If there is no such entry, it is an unnamed GPU with an A100's rates, those of fp8 from sm_89 on, and the
    architecture's shared memory.
    """
    entry = next((gpu for gpu in (H200, *GPUS.values()) if gpu.arch == arch), None)
    if entry is not None:
        return entry
    unnamed = A100._replace(name=UNNAMED, arch=arch)
    rates = _rates(89 if unnamed.capability >= 89 else 80, *_MACS[80])
    return unnamed._replace(smem_bytes=_SMEM_BYTES.get(unnamed.capability, _LEAST_SMEM_BYTES), rates=rates)


@overload
def named(name: str, argument: str) -> Hardware: ...
@overload
def named(name: str, argument: str, among: Mapping[str, Known], usable: Sequence[str] = ()) -> Known: ...
def named(name: str, argument: str, among: Mapping[str, Any] = GPUS, usable: Sequence[str] = ()) -> Any:
    """The GPU that a user names, in any case, or by what its driver says; H100 means H100-SXM.

    among: what is chosen from, by name; the GPUs that planning knows if not given. usable: the names that the
    ArgumentValueError for another lists; all if not given.
    """
    by_name = {known.lower(): gpu for known, gpu in among.items()} | {"h100": among[H100_SXM.name]}
    found = by_name.get(name.lower().replace(" ", "-")) if isinstance(name, str) else None
    if found is None and isinstance(name, str) and name.lower().startswith("nvidia "):
        found = among.get(_recognized(name, among) or "")
    if found is None:
        raise ArgumentValueError(f"{argument}={name!r} is unknown: use {', '.join(usable or among)}")
    return found


def recognize(device_name: str) -> Hardware | None:
    """The entry of the model in a driver's device name ("NVIDIA H100 80GB HBM3"); None if there is none.

    The rates per clock and SM hold for every board of a model; memory, clocks and SM counts differ between boards.
    """
    name = _recognized(device_name, GPUS)
    return None if name is None else GPUS[name]


def _recognized(device_name: str, names: Iterable[str]) -> str | None:
    """Which of these names is in a driver's device name: its number must be there, such as H100 or 4090."""
    words = set(re.split(r"[\W_]+", device_name.upper()))
    parts = {name: name.upper().split("-") for name in names}
    found = (name for name, split in parts.items() if all(part in words for part in split if part[-1].isdecimal()))
    return max(found, key=lambda name: len(words.intersection(parts[name])), default=None)


def with_article(name: str) -> str:
    """A GPU's name as a sentence has it: `an H200`, `a B200`."""
    return f"{'an' if name[:1] in 'AEFHILMNORSX' else 'a'} {name}"  # those whose names begin with a vowel
