"""Tensor-core instructions of a group: registers to fragments and back, and the order of wgmma."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator import tensor_cores
from tilewright.emulator.arithmetic import lanes_of
from tilewright.emulator.asynchrony import CommitGroups
from tilewright.emulator.errors import AsyncHazard, EmulatorError, OutOfBounds, UnsupportedInstruction
from tilewright.emulator.lanes import WARP, WARPGROUP, Array, Group, Indices, Tiles
from tilewright.emulator.matrix_descriptor import operand_chunks, operand_extent
from tilewright.emulator.memory import SHARED_START, first_difference
from tilewright.emulator.swizzle import CHUNK

if TYPE_CHECKING:
    from tilewright.emulator.checker import Checker
    from tilewright.emulator.machine import Machine

_BANK_OF_WORDS = 2  # of the register file: registers of 4 bytes
_WGMMA_ROWS = 64
_WGMMA_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}
_WGMMA_K_BYTES = 32  # of K values of every type
_OPTIONS = ("a_major", "b_major", "negate_a", "negate_b", "saturate")


class Tensor:
    """mma, wgmma, ldmatrix and stmatrix."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self.groups = CommitGroups(machine.asynchrony, machine.topology.lanes)

    def load_matrix(self, site: int, group: Group, address: Array, count: int, transpose: bool) -> list[Array]:
        """ldmatrix: one array of words per matrix."""
        tiles = self._tiles(site, group)
        rows = self._rows(site, group, tiles, address, count, "ld")
        matrices = tensor_cores.ldmatrix(self._machine.access.shared.bytes, rows, count, transpose)
        return [tiles.collect(matrix) for matrix in matrices]

    def store_matrix(self, site: int, group: Group, address: Array, values: list[Array], transpose: bool) -> None:
        """stmatrix: one array of words per matrix."""
        tiles = self._tiles(site, group)
        rows = self._rows(site, group, tiles, address, len(values), "st")
        words = np.stack([tiles.spread(value) for value in values])
        tensor_cores.stmatrix(self._machine.access.shared.bytes, rows, words, transpose)

    def _rows(self, site: int, group: Group, tiles: Tiles, address: Array, count: int, kind: str) -> Indices:
        """Byte offsets (W, 32, C) of the matrix rows; only the first 8 * count lanes of a warp have one."""
        access = self._machine.access
        used = np.where(group.thread % WARP < 8 * count, address, np.uint32(SHARED_START))
        _, where = access.locate(site, group, "shared", used, 16)
        rows = tiles.spread(where)
        if access.checker is not None:
            here = group.thread % WARP < 8 * count
            access.checker.access(kind, "shared", site, group, where[here], 16, np.flatnonzero(here))
        if access.counter is not None:
            access.counter.matrix(site, f"{kind}matrix", rows, count)
        return rows

    def of_warps(
        self,
        site: int,
        group: Group,
        function: Callable[..., Sequence[Array]],
        counted: tuple[str, str, tuple[str, str, str], int] | None,
        *fragments: list[Array],
    ) -> list[Array]:
        """A function of fragments, each stacked to (registers, W, 32, C), for whole warps: mma and its siblings.

        counted: kind, shape, types (of accumulator, A and B) and number of the products of one warp, if it multiplies.
        """
        tiles = self._tiles(site, group)
        stacked = [np.stack([tiles.spread(register) for register in registers]) for registers in fragments]
        try:
            result = function(*stacked)
        except ValueError as error:
            raise UnsupportedInstruction(f"{self._machine.describe(site)}: {error}") from error
        if counted is not None:
            kind, shape, types, products = counted
            self._machine.counters[site].multiply(kind, shape, types, products * tiles.count)
        return [tiles.collect(register) for register in result]

    def multiply_async(
        self,
        site: int,
        group: Group,
        form: tuple[int, str, str, str, str, str, bool, bool, bool],
        rows: slice | tuple[int, ...],
        fragments: tuple[int, ...],
        a: list[Array] | Array,
        b: Array,
        accumulate: Array,
        active: Any,
    ) -> None:
        """wgmma.mma_async.

        form: N, the types of A, B and the accumulators, the majors and negations of A and B, and whether sums
        saturate. rows: of the accumulators in the register file. fragments: the registers of A, as the checks number
        them. a: their values, or a descriptor per lane.
        """
        if active is not None:
            chosen = lanes_of(active, group.size)
            if not chosen.all():
                raise UnsupportedInstruction(f"a predicate on {self._machine.describe(site)} must hold for all lanes")
        product = _WarpgroupProduct(self._machine, site, group, form, rows, a, b, accumulate)
        n, a_type, b_type, accumulator = form[:4]
        shape = f"m{_WGMMA_ROWS}n{n}k{_WGMMA_K[a_type]}"
        counts = self._machine.counters[site]
        counts.multiply("wgmma", shape, (accumulator, a_type, b_type), group.warpgroups.count)
        counts.wgmma_read_bytes += product.operand_bytes * group.warpgroups.count
        if self._machine.checker is not None:
            self.groups.track(product.owners, product.check_operands(self._machine.checker))
            self._machine.checker.accumulators.multiply(site, group, rows, fragments, self._machine.checker.tick())
        self.groups.issue(product.owners, product.perform, product.remember_operands)

    def fence(self, site: int, group: Group) -> None:
        """wgmma.fence."""
        if self._machine.checker is not None:
            self._machine.checker.accumulators.fence(site, group)

    def _tiles(self, site: int, group: Group) -> Tiles:
        _require_whole(self._machine, site, group, group.warps, "warps")
        return group.warps


def _require_whole(machine: "Machine", site: int, group: Group, tiles: Tiles, whole: str) -> None:
    """Refuse an .aligned instruction that a part of a warp or of a warpgroup executes."""
    if tiles.complete:
        return
    message = f"{machine.describe(site)} needs whole {whole}, and only {machine.name(group)} executed it"
    if machine.checker is not None:
        machine.checker.report("divergent-collective", (), message, (site,), group, None)
    raise EmulatorError(message, reported=machine.checker is not None)


class _WarpgroupProduct:
    """One wgmma of a group, with its operands as they were when it was issued.

    owners: the first lane of each warpgroup, (warpgroups * C,).
    """

    def __init__(
        self,
        machine: "Machine",
        site: int,
        group: Group,
        form: tuple[int, str, str, str, str, str, bool, bool, bool],
        rows: slice | tuple[int, ...],
        a: list[Array] | Array,
        b: Array,
        accumulate: Array,
    ) -> None:
        tiles = group.warpgroups
        _require_whole(machine, site, group, tiles, "warpgroups")
        self._machine, self._site, self._group, self._rows = machine, site, group, rows
        self._n, self._a_type, self._b_type, self._accumulator = form[:4]
        self._options = dict(zip(_OPTIONS, form[4:], strict=True))
        self._lanes = tiles.spread(group.indices)  # (WG, 128, C)
        self.owners = self._lanes[:, 0].reshape(-1)
        self._base = machine.topology.shared_base[self._lanes[:, 0]]  # (WG, C)
        # The manual protects accumulators and fragments until the wait, not these: they may be rewritten at once.
        self._accumulate = tiles.spread(accumulate)[:, 0].copy()
        if isinstance(a, list):
            self._a = np.stack([tiles.spread(register) for register in a])  # (4, WG, 128, C)
        else:
            self._a = tiles.spread(a)[:, 0].copy()
            self._check(self._a, _WGMMA_ROWS, form[4])
        self._b = tiles.spread(b)[:, 0].copy()
        self._check(self._b, self._n, form[5])
        self._remembered: list[bytes] = []

    @property
    def operand_bytes(self) -> int:
        """What a warpgroup reads from shared memory: rows of B, and of A unless that is in registers."""
        return _WGMMA_K_BYTES * (self._n if self._a.ndim == 4 else self._n + _WGMMA_ROWS)

    def _check(self, descriptors: Array, rows: int, major: Any) -> None:
        limit = self._machine.access.shared_limit
        for descriptor in np.unique(descriptors):
            try:
                low, high = operand_extent(int(descriptor), rows, major)
            except ValueError as error:
                raise UnsupportedInstruction(f"{self._machine.describe(self._site)}: {error}") from error
            if low < SHARED_START or high >= limit:
                raise OutOfBounds(
                    f"{self._machine.describe(self._site)} reads shared addresses {low:#x} to {high:#x}, outside "
                    f"the CTA's {SHARED_START:#x} to {limit - 1:#x} (descriptor {int(descriptor):#018x})"
                )

    def check_operands(self, checker: "Checker") -> Callable[[Indices], None]:
        """Check the order of what is read, and return what is to be done for some owners when they have waited."""
        ctas = len(self._base[0])
        time = 0
        descriptors = np.stack([self._b] if self._a.ndim == 4 else [self._b, self._a])  # (operands, WG, C)
        for warpgroup in range(len(self._base)):
            alike: dict[tuple[int, ...], list[int]] = {}  # CTAs by their descriptors
            for cta, key in enumerate(zip(*descriptors[:, warpgroup].tolist(), strict=True)):
                alike.setdefault(key, []).append(cta)
            for some in alike.values():
                chunks = np.concatenate([c.reshape(-1) for c in self._operand_chunks(warpgroup, some[0])])
                time = checker.agents.read_by_wgmma(self._site, self._lanes[warpgroup][:, some].T, chunks)

        def retire(chosen: Indices) -> None:
            for piece in chosen.tolist():
                warpgroup, cta = divmod(piece, ctas)
                lanes = self._lanes[warpgroup, :, cta]
                number = int(self._machine.topology.thread[lanes[0]]) // WARPGROUP
                checker.agents.retire("wgmma", number, lanes, time)
                checker.accumulators.retire(int(lanes[0]), time + 1)

        return retire

    def _operand_chunks(self, warpgroup: int, cta: int) -> list[Indices]:
        """The 16-byte chunks of a CTA's shared memory that one warpgroup reads."""
        operands = [(self._b, self._n, self._options["b_major"])]
        if self._a.ndim == 2:
            operands.append((self._a, _WGMMA_ROWS, self._options["a_major"]))
        return [operand_chunks(int(descriptors[warpgroup, cta]), rows, major) for descriptors, rows, major in operands]

    def remember_operands(self) -> None:
        """Note what the operands are now: nobody may write them until the product is performed."""
        ctas = len(self._base[0])
        self._remembered = [self._operand_bytes(*divmod(piece, ctas)) for piece in range(self.owners.size)]

    def _operand_bytes(self, warpgroup: int, cta: int) -> bytes:
        """What one warpgroup reads from shared memory."""
        chunks = self._machine.access.shared.bytes.view(CHUNK)
        base = self._base[warpgroup, cta] >> 4
        return b"".join(chunks.take(places + base).tobytes() for places in self._operand_chunks(warpgroup, cta))

    def perform(self, chosen: Indices | None) -> None:
        """Multiply for all warpgroups, or for those of some owners."""
        warpgroups, ctas = self._accumulate.shape
        same = bool(self._accumulate.all()) or not self._accumulate.any()
        lanes = self._group.lanes
        if chosen is None and same and isinstance(lanes, slice) and self._group.warpgroups.is_reshape:
            d = self._accumulators()[self._rows, lanes]
            d = d.reshape(len(d), 4 * warpgroups, WARP, ctas)  # a view, unless the rows are scattered
            self._multiply(self._a, self._b, self._base[0], d, bool(self._accumulate[0, 0]))
            if not isinstance(self._rows, slice):
                self._accumulators()[self._rows, lanes] = d.reshape(len(d), -1)
            return
        for piece in range(warpgroups * ctas) if chosen is None else chosen.tolist():
            self._multiply_one(*divmod(piece, ctas))

    def _multiply_one(self, warpgroup: int, cta: int) -> None:
        piece = warpgroup * len(self._base[0]) + cta
        if self._remembered and (found := self._operand_bytes(warpgroup, cta)) != self._remembered[piece]:
            chunks = np.concatenate([places.reshape(-1) for places in self._operand_chunks(warpgroup, cta)])
            chunk, byte = divmod(first_difference(found, self._remembered[piece]), CHUNK.itemsize)
            warps = self._machine.topology.group(self._lanes[warpgroup, :, cta])
            raise AsyncHazard(
                f"{self._machine.describe(self._site)} of {self._machine.name(warps)} had its operands in shared "
                "memory overwritten between issue and wgmma.wait_group: wait before the buffer is released, and for "
                "the data before it is multiplied",
                lane=warps.indices,
                address=CHUNK.itemsize * int(chunks[chunk]) + byte,
            )
        place = np.ix_(np.r_[self._rows], self._lanes[warpgroup, :, cta])
        d = self._accumulators()[place].reshape(-1, 4, WARP, 1)
        one = (slice(warpgroup, warpgroup + 1), ..., slice(cta, cta + 1))
        a = self._a[:, *one] if self._a.ndim == 4 else self._a[one]
        keep = bool(self._accumulate[warpgroup, cta])
        self._multiply(a, self._b[one], self._base[warpgroup, cta : cta + 1], d, keep)
        self._accumulators()[place] = d.reshape(len(d), -1)

    def _multiply(self, a: Array, b: Array, base: Indices, d: Array, accumulate: bool) -> None:
        if a.ndim == 4:
            a = a.reshape(len(a), -1, WARP, a.shape[-1])
        shared = self._machine.access.shared.bytes
        options: dict[str, Any] = self._options
        try:
            tensor_cores.wgmma(
                self._n, self._a_type, self._b_type, self._accumulator, a, b, shared, base, d,
                accumulate=accumulate, **options,
            )  # fmt: skip
        except ValueError as error:
            raise UnsupportedInstruction(f"{self._machine.describe(self._site)}: {error}") from error

    def _accumulators(self) -> Array:
        bank = self._machine.banks[_BANK_OF_WORDS]
        return bank.view(np.float32) if self._accumulator == "f32" else bank
