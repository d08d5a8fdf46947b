"""Figures derived from counters of memory traffic: how requests fit sectors and banks, and what is read again."""

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.hardware import SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Traffic:
    """The memory traffic of one product.

    flops: operations of the product.
    minimum_bytes: A, B and out once.
    loads: warp requests that read GMEM, including cp.async.
    load_sectors, store_sectors: 32-byte sectors of reads and of writes.
    tma_read_bytes, tma_stored_bytes: bytes that TMA moves across L2.
    tma_loaded_bytes: bytes that TMA leaves in SMEM.
    wgmma_read_bytes: bytes of operands that wgmma reads from SMEM.
    shared_requests, shared_wavefronts, shared_conflicts: those of ld, st, ldmatrix, stmatrix and cp.async.
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
        """Mean sectors per warp request that reads GMEM; None if only TMA reads it."""
        return self.load_sectors / self.loads if self.loads else None

    @property
    def conflicts_per_request(self) -> float | None:
        """Extra wavefronts from bank conflicts per request to SMEM; None without requests."""
        return self.shared_conflicts / self.shared_requests if self.shared_requests else None

    @property
    def l2_bytes(self) -> int:
        """Bytes between the SMs and L2 if nothing hits in L1."""
        return (self.load_sectors + self.store_sectors) * SECTOR_BYTES + self.tma_read_bytes + self.tma_stored_bytes

    @property
    def smem_bytes(self) -> int:
        """Bytes across SMEM's banks: 128 per wavefront, conflicts included, plus those of TMA and wgmma."""
        return self.shared_wavefronts * 128 + self.tma_loaded_bytes + self.tma_stored_bytes + self.wgmma_read_bytes

    @property
    def flops_per_smem_byte(self) -> float | None:
        """Arithmetic intensity at SMEM; None if SMEM is not used."""
        return self.flops / self.smem_bytes if self.smem_bytes else None

    @property
    def rereads(self) -> float:
        """How often each byte of A, B and out crosses between the SMs and L2, on average."""
        return self.l2_bytes / self.minimum_bytes if self.minimum_bytes else 0.0

    @property
    def flops_per_l2_byte(self) -> float:
        """Arithmetic intensity at L2."""
        return self.flops / self.l2_bytes if self.l2_bytes else 0.0

    def explanation(self, scattered_line: str, conflicts_line: str) -> str:
        """The most striking of these numbers in one sentence.

        scattered_line: a source line whose loads touch many more sectors than they need, or "".
        conflicts_line: the source line with most bank conflicts, or "".
        """
        if scattered_line:
            return f"neighboring lanes do not read neighboring elements of GMEM at {scattered_line}"
        if self.shared_conflicts * 8 > self.shared_wavefronts:
            share = self.shared_conflicts / self.shared_wavefronts
            return f"{share:.0%} of SMEM wavefronts are bank conflicts, most at {conflicts_line}"
        if not self.shared_requests and not self.tma_read_bytes:
            return "only L1 reuses data on chip"
        return f"A, B and out cross between the SMs and L2 {self.rereads:.1f} times"


def traffic(flops: int, minimum_bytes: int, counters: Mapping[str, int | Mapping[str, int]]) -> Traffic:
    """Traffic from counters by name, either totals or parts by kind, as in `tilewright.emulator.Counters`."""

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
