"""Whether a product of few rows gains if A and B change places, with memory as the third term beside wgmma's two.

A linear layer multiplies m rows of activations by a weight of (n, k). A wgmma takes 64 rows of one operand and 8 to 256
columns of the other. As it stands, the product pads its rows to 64. With A and B swapped, the weight gives the 64 rows,
and the rows of activations are columns, which are padded to 8 only. Either way each block of the weight, 64 rows by 32
bytes, has to come from HBM, and what takes longest counts.

Source of the first two terms: the wgmma latency article (docs/ladder/README.md). The third is ours.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from tilewright.hardware import WGMMA_N
from tilewright.model.chips import AnyChip, gpu_of
from tilewright.model.wgmma_time import K_BYTES, ROWS, wgmma_time
from tilewright.rounding import MOST_COUNTED, ceil_div, natural, round_up

Limit = Literal["wgmma", "HBM"]


@dataclass(frozen=True, slots=True)
class SwapAdvice:
    """The clocks of an SM for a block of weights, 64 rows by 32 bytes, and m rows of activations.

    m: rows of activations. unswapped, swapped: clocks of wgmma. hbm: clocks in which the SM's share of the bandwidth
    brings the block.
    """

    m: int
    unswapped: float
    swapped: float
    hbm: float

    @property
    def gain(self) -> float:
        """How many times as fast swapping is if the weights come from HBM."""
        return max(self.unswapped, self.hbm) / max(self.swapped, self.hbm)

    @property
    def gain_on_chip(self) -> float:
        """The most that swapping can gain if the weights come faster than wgmma asks for them."""
        return self.unswapped / self.swapped

    @property
    def limit(self) -> Limit:
        """What the product waits for without swapping."""
        return "wgmma" if self.unswapped > self.hbm else "HBM"

    @property
    def swap(self) -> bool:
        """Whether swapping gains anything with weights from HBM."""
        return self.gain > 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        derived = ("gain", "gain_on_chip", "limit", "swap")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


def swap_advice(chip: AnyChip, m: int) -> SwapAdvice:
    """The advice for m rows on a Hopper GPU; raises an ArgumentValueError for another GPU or an m below 1."""
    gpu, m = gpu_of(chip), natural("m", m, 1, MOST_COUNTED)
    most = WGMMA_N[-1]
    whole, rest = divmod(round_up(m, WGMMA_N.step), most)
    return SwapAdvice(
        m,
        unswapped=ceil_div(m, ROWS) * wgmma_time(gpu, ROWS).clocks,
        swapped=whole * wgmma_time(gpu, most).clocks + (wgmma_time(gpu, rest).clocks if rest else 0),
        hbm=ROWS * K_BYTES / (gpu.memory_bandwidth / gpu.sm_count / gpu.clock("wgmma")),
    )
