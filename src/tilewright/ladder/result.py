"""The result of one rung of the ladder."""

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.checking.product import Product

if TYPE_CHECKING:
    from tilewright.dtypes import DType
    from tilewright.kernels.ladder import Rung
    from tilewright.ladder.profile import Profile
    from tilewright.model.traffic import Traffic


@dataclass(slots=True)
class RungResult:
    """One rung: verified and measured or counted, or skipped for a reason.

    config: the Config that it runs with; None if it is skipped.
    ignored: options that the rung does not have.
    verified: also False if it failed to run.
    time_us, tflops, speed_of_light_share, cublas_ratio, gain: on GPUs; gain is the speed relative to the rung before
    it, `gain_over` (`tilewright.kernels.ladder.gains`).
    measured: every protocol's samples, intervals and sensors, on GPUs.
    traffic, explanation, counters: from the emulator.
    profile: from Nsight Compute, on GPUs.
    """

    rung: "Rung"
    m: int
    n: int
    k: int
    dtype: "DType"
    config: Any = None
    ignored: list[str] = field(default_factory=list)
    verified: bool | None = None
    relative_error: float | None = None
    skipped: str = ""
    time_us: float | None = None
    tflops: float | None = None
    speed_of_light_share: float | None = None
    cublas_ratio: float | None = None
    gain: float | None = None
    gain_over: str | None = None
    measured: dict[str, Any] = field(default_factory=dict)
    traffic: "Traffic | None" = None
    explanation: str = ""
    counters: dict[str, Any] = field(default_factory=dict)
    profile: "Profile | None" = None

    @property
    def product(self) -> Product:
        """The product."""
        return Product(self.m, self.n, self.k, self.dtype, self.dtype, self.rung.layout)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; figures that this backend does not have are left out."""
        rung, traffic = self.rung, self.traffic
        record: dict[str, Any] = {
            "name": rung.name,
            "title": rung.title,
            "road": rung.road,
            "idea": rung.idea,
            "published": [asdict(figure) for figure in rung.published],
            "note": rung.note,
            "side_step": rung.side_step,
            "layout": rung.layout,
            "data": rung.data,
            "dtype": self.dtype.name,
            "verified": self.verified,
        }
        names = (
            "m", "n", "k", "ignored", "relative_error", "skipped", "time_us", "tflops",
            "speed_of_light_share", "cublas_ratio", "gain", "gain_over", "measured", "explanation", "counters",
        )  # fmt: skip
        values = {name: getattr(self, name) for name in names}
        values["config"] = asdict(self.config) if self.config else None
        record |= {name: value for name, value in values.items() if value not in (None, "", {}, [])}
        if self.profile is not None:
            record["profile"] = self.profile.as_dict()
        if traffic is not None:
            derived = (
                "sectors_per_load", "conflicts_per_request", "l2_bytes", "smem_bytes", "flops_per_l2_byte",
                "flops_per_smem_byte", "rereads",
            )  # fmt: skip
            record |= {name: getattr(traffic, name) for name in derived}
        return record
