"""What counters of memory traffic say about a kernel: how requests fit sectors and banks, what is read again."""

from collections.abc import Mapping
from dataclasses import dataclass

SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one product moved.

    flops: of the product. minimum_bytes: A, B and out once. loads: requests of warps to read GMEM, cp.async included;
    load_sectors, store_sectors: 32-byte sectors of reads and of writes. tma_read_bytes, tma_stored_bytes: of TMA,
    across L2; tma_loaded_bytes: what it leaves in SMEM. wgmma_read_bytes: of operands, from there. shared_requests,
    shared_wavefronts, shared_conflicts: of ld, st, ldmatrix, stmatrix and cp.async.
    """

    flops: int
    minimum_bytes: int
    loads: int
    load_sectors: int
    store_sectors: int
    tma_read_bytes: int
    tma_stored_bytes: int
    tma_loaded_bytes: int
    wgmma_read_bytes: int
    shared_requests: int
    shared_wavefronts: int
    shared_conflicts: int

    @property
    def sectors_per_load(self) -> float | None:
        """Mean sectors of a request of a warp to read GMEM; None where only TMA does."""
        return self.load_sectors / self.loads if self.loads else None

    @property
    def conflicts_per_request(self) -> float | None:
        """Wavefronts beyond those without bank conflicts, per request to SMEM; None where there is no request."""
        return self.shared_conflicts / self.shared_requests if self.shared_requests else None

    @property
    def l2_bytes(self) -> int:
        """What crosses between the SMs and L2 if nothing hits in L1."""
        return (self.load_sectors + self.store_sectors) * SECTOR_BYTES + self.tma_read_bytes + self.tma_stored_bytes

    @property
    def smem_bytes(self) -> int:
        """What crosses SMEM's banks: 128 bytes a wavefront, conflicts included, and what TMA and wgmma move."""
        return self.shared_wavefronts * 128 + self.tma_loaded_bytes + self.tma_stored_bytes + self.wgmma_read_bytes

    @property
    def flops_per_smem_byte(self) -> float | None:
        """Arithmetic intensity at SMEM; None where it is not used."""
        return self.flops / self.smem_bytes if self.smem_bytes else None

    @property
    def rereads(self) -> float:
        """How often each byte of A, B and out crosses between the SMs and L2, in the mean."""
        return self.l2_bytes / self.minimum_bytes if self.minimum_bytes else 0.0

    @property
    def flops_per_l2_byte(self) -> float:
        """Arithmetic intensity at L2."""
        return self.flops / self.l2_bytes if self.l2_bytes else 0.0

    def explanation(self, scattered_line: str, conflicts_line: str) -> str:
        """The most striking of these numbers in one sentence.

        scattered_line: a source line whose loads touch many more sectors than they need; conflicts_line: where most
        bank conflicts are. Empty where there is none.
        """
        if scattered_line:
            return f"lanes side by side do not read neighbours in GMEM at {scattered_line}"
        if self.shared_conflicts * 8 > self.shared_wavefronts:
            share = self.shared_conflicts / self.shared_wavefronts
            return f"{share:.0%} of SMEM wavefronts are bank conflicts, most at {conflicts_line}"
        if not self.shared_requests and not self.tma_read_bytes:
            return "nothing is reused on chip but what L1 holds"
        return f"A, B and out cross between SMs and L2 {self.rereads:.1f} times"


def traffic(flops: int, minimum_bytes: int, counters: Mapping[str, int | Mapping[str, int]]) -> Traffic:
    """From counters by name (totals, or their parts by kind), as `tilewright.emulator.Counters` has them."""

    def total(name: str) -> int:
        value = counters[name]
        return value if isinstance(value, int) else sum(value.values())

    def of_kind(name: str, kind: str) -> int:
        value = counters[name]
        assert not isinstance(value, int)
        return value.get(kind, 0)

    return Traffic(
        flops,
        minimum_bytes,
        loads=of_kind("global_requests", "ld"),
        load_sectors=of_kind("global_sectors", "ld"),
        store_sectors=total("global_sectors") - of_kind("global_sectors", "ld"),
        tma_read_bytes=total("tma_read_bytes"),
        tma_stored_bytes=total("tma_stored_bytes"),
        tma_loaded_bytes=total("tma_loaded_bytes"),
        wgmma_read_bytes=total("wgmma_read_bytes"),
        shared_requests=total("shared_requests"),
        shared_wavefronts=total("shared_wavefronts"),
        shared_conflicts=total("shared_conflicts"),
    )
