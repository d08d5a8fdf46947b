"""Tensor-core instructions of a group: registers to fragments and back, and the order of wgmma."""

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.emulator.errors import AsyncHazard, DivergedCollective, OutOfBounds, UnsupportedInstruction
from tilewright.emulator.lanes import WARP, Array, Group, Indices, Mask, Tiles, lanes_of
from tilewright.emulator.machine.access import of_parts
from tilewright.emulator.machine.asynchrony import CommitGroups
from tilewright.emulator.machine.operation import Operation, Queue, SharedRegion, WatchedRegisters
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import SHARED_START, first_difference
from tilewright.emulator.semantics.matrices import tensor_cores, wmma
from tilewright.emulator.semantics.matrices.tensor_cores import WgmmaForm
from tilewright.emulator.semantics.matrix_descriptor import Major, operand_chunks, operand_extent
from tilewright.emulator.semantics.scalars import Values
from tilewright.emulator.semantics.swizzle import CHUNK

_BANK_OF_WORDS = 2  # the bank of the register file with registers of 4 bytes


class TensorCores:
    """mma, wmma, wgmma, ldmatrix and stmatrix of a wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._arithmetic = wave.launch.arithmetic
        self.groups = CommitGroups("wgmma", wave.asynchrony, wave.topology.lanes, wave.tell)

    def load_matrix(self, site: int, group: Group, address: Array, count: int, transpose: bool) -> list[Array]:
        """ldmatrix: one array of words per matrix."""
        tiles = self._tiles(site, group)
        rows = self._rows(site, group, tiles, address, count, "ldmatrix")
        access = self._wave.access
        access.missing = None
        if access.unwritten is not None:
            access.missing = self._missing(group, tiles, access.unwritten, count, transpose)
            access.unwritten = None
        matrices = tensor_cores.ldmatrix(access.shared.bytes, rows, count, transpose)
        return [tiles.collect(matrix) for matrix in matrices]

    def _missing(self, group: Group, tiles: Tiles, unwritten: Mask, count: int, transpose: bool) -> Mask:
        """The words of an ldmatrix that come from rows with unwritten parts, (group, matrices): rows move as data."""
        marks = np.repeat(np.where(unwritten, np.uint8(1), np.uint8(0)), CHUNK.itemsize // unwritten.shape[1], axis=1)
        where = np.zeros(group.size, np.int64)
        where[group.thread % WARP < 8 * count] = CHUNK.itemsize * np.arange(len(unwritten))
        words = tensor_cores.ldmatrix(marks.reshape(-1), tiles.spread(where), count, transpose)
        return np.stack([tiles.collect(word) != 0 for word in words], axis=1)

    def store_matrix(self, site: int, group: Group, address: Array, values: list[Array], transpose: bool) -> None:
        """stmatrix: one array of words per matrix."""
        tiles = self._tiles(site, group)
        rows = self._rows(site, group, tiles, address, len(values), "stmatrix")
        words = np.stack([tiles.spread(value) for value in values])
        tensor_cores.stmatrix(self._wave.access.shared.bytes, rows, words, transpose)

    def _rows(self, site: int, group: Group, tiles: Tiles, address: Array, count: int, kind: str) -> Indices:
        """Byte offsets (W, 32, C) of the matrix rows; only the first 8 * count lanes of a warp have one."""
        if 8 * count == WARP:
            _, where = self._wave.access.locate(site, group, "shared", lanes_of(address, group.size), CHUNK.itemsize)
            self._wave.tell.accessed(site, kind, "shared", group, where, CHUNK.itemsize, None)
            return tiles.spread(where)
        here = group.thread % WARP < 8 * count
        used = np.where(here, address, np.uint32(SHARED_START))
        _, where = self._wave.access.locate(site, group, "shared", used, CHUNK.itemsize)
        if self._wave.tell.hear("accessed"):
            chosen = np.flatnonzero(here)
            self._wave.tell.accessed(site, kind, "shared", group, where[chosen], CHUNK.itemsize, chosen)
        return tiles.spread(where)

    def load_fragment(
        self, site: int, group: Group, fragment: wmma.Fragment, space: str, address: Values, stride: Values
    ) -> list[Array]:
        """wmma.load: the registers of a fragment; stride: elements between the starts of lines."""
        dtype, access = np.dtype(f"u{fragment.unit_bytes}"), self._wave.access
        elements: list[Array] = []
        missing: list[tuple[int, Mask | None]] = []
        for place, count in wmma.accesses(fragment, group.thread % WARP, address, stride):
            loaded = access.load(site, group, space, place, dtype, count, None)
            elements += [np.broadcast_to(element, (group.size,)) for element in loaded]
            missing.append((count, access.missing))
        if any(found is not None for _, found in missing):
            none = np.zeros((group.size, 1), np.bool_)
            marks = [of_parts(none if found is None else found, count).T.astype(dtype) for count, found in missing]
            words = wmma.registers_of_elements(fragment, [*np.concatenate(marks)])
            access.missing = np.stack(words, axis=1) != 0
        return wmma.registers_of_elements(fragment, elements)

    def store_fragment(
        self,
        site: int,
        group: Group,
        fragment: wmma.Fragment,
        space: str,
        address: Values,
        stride: Values,
        values: list[Array],
    ) -> None:
        """wmma.store of the registers of a fragment."""
        elements = wmma.elements_of_registers(fragment, [lanes_of(value, group.size) for value in values])
        start = 0
        for place, count in wmma.accesses(fragment, group.thread % WARP, address, stride):
            self._wave.access.store(site, group, space, place, list(elements[start : start + count]), None)
            start += count

    def of_warps(
        self,
        site: int,
        group: Group,
        function: Callable[..., Sequence[Array]],
        counted: tuple[str, str, tuple[str, str, str], int] | None,
        *fragments: list[Array],
    ) -> list[Array]:
        """Apply a function of fragments, each stacked to (registers, W, 32, C), to whole warps: mma and its siblings.

        counted: kind, shape, types (of accumulator, A and B) and number of the products of one warp, if it multiplies;
        such a function also takes the arithmetic.
        """
        tiles = self._tiles(site, group)
        stacked = [np.stack([tiles.spread(register) for register in registers]) for registers in fragments]
        multiplies = {} if counted is None else {"arithmetic": self._arithmetic}
        try:
            result = function(*stacked, **multiplies)
        except ValueError as error:
            raise UnsupportedInstruction(f"{self._wave.words.describe(site)}: {error}") from error
        if counted is not None:
            kind, shape, types, products = counted
            self._wave.tell.multiplied(site, group, kind, shape, types, products * tiles.count, 0)
        return [tiles.collect(register) for register in result]

    def multiply_async(
        self,
        site: int,
        group: Group,
        form: WgmmaForm,
        rows: slice | tuple[int, ...],
        fragments: tuple[int, ...],
        a: list[Array] | Array,
        b: Array,
        accumulate: Array,
    ) -> None:
        """wgmma.mma_async.

        rows: the rows of the accumulators in the register file.
        fragments: the registers of A, by their numbers among the watched ones.
        a: their values, or a descriptor per lane.
        """
        wave = self._wave
        tiles = require_whole(wave, site, group, group.warpgroups, "warpgroups")
        product = _WarpgroupProduct(wave, site, group, form, rows, a, b, accumulate)
        types, nbytes = (form.accumulator, form.a_type, form.b_type), product.operand_bytes * tiles.count
        wave.tell.multiplied(site, group, "wgmma", form.shape, types, tiles.count, nbytes)
        if wave.tell.hear("issued"):
            registers = WatchedRegisters(group, rows, fragments)
            wave.tell.issued(product.operation(self.groups.queue(product.owners), registers))
        self.groups.issue(product.owners, product.perform, product.remember_operands)

    def fence(self, site: int, group: Group) -> None:
        """wgmma.fence."""
        self._wave.tell.fenced(site, group, "wgmma", ())

    def _tiles(self, site: int, group: Group) -> Tiles:
        return require_whole(self._wave, site, group, group.warps, "warps")


def require_whole(wave: Wave, site: int, group: Group, tiles: Tiles, whole: str) -> Tiles:
    """Refuse an .aligned instruction that only part of a warp or of a warpgroup executes."""
    if not tiles.complete:
        message = f"{wave.words.describe(site)} needs whole {whole}, and only {wave.words.name(group)}, executed it"
        wave.tell.diverged(site, group, message)
        raise DivergedCollective(message)
    return tiles


class _WarpgroupProduct:
    """One wgmma of a group, with its operands as they were at issue.

    owners: the first lane of each warpgroup, (warpgroups * C,). A piece is a product of one of them, by its index.
    """

    def __init__(
        self,
        wave: Wave,
        site: int,
        group: Group,
        form: WgmmaForm,
        rows: slice | tuple[int, ...],
        a: list[Array] | Array,
        b: Array,
        accumulate: Array,
    ) -> None:
        tiles = group.warpgroups
        self._wave, self._site, self._group, self._form, self._rows = wave, site, group, form, rows
        self._lanes = tiles.spread(group.indices)  # (WG, 128, C)
        self.owners = self._lanes[:, 0].reshape(-1)
        self._base = wave.topology.shared_base[self._lanes[:, 0]]  # (WG, C)
        # The manual protects accumulators and fragments until the wait, but not these: they may be rewritten at once.
        self._accumulate = tiles.spread(accumulate)[:, 0].copy()
        if isinstance(a, list):
            self._a = np.stack([tiles.spread(register) for register in a])  # (4, WG, 128, C)
        else:
            self._a = tiles.spread(a)[:, 0].copy()
        self._b = tiles.spread(b)[:, 0].copy()
        for descriptors, extent, major in self._operands():
            self._check(descriptors, extent, major)
        self._remembered: list[bytes] = []

    @property
    def operand_bytes(self) -> int:
        """The bytes that a warpgroup reads from shared memory: rows of B, and of A unless that is in registers."""
        return tensor_cores.WGMMA_K_BYTES * sum(extent for _, extent, _ in self._operands())

    def _operands(self) -> list[tuple[Array, int, Major]]:
        """The descriptors (WG, C), rows and major of the operands in shared memory."""
        of_b = self._b, self._form.n, self._form.b_major
        return [of_b] if self._a.ndim == 4 else [of_b, (self._a, tensor_cores.WGMMA_M, self._form.a_major)]

    def _check(self, descriptors: Array, rows: int, major: Major) -> None:
        limit, what = self._wave.access.shared_limit, self._wave.words.describe(self._site)
        for descriptor in np.unique(descriptors):
            try:
                low, high = operand_extent(int(descriptor), rows, major)
            except ValueError as error:
                raise UnsupportedInstruction(f"{what}: {error}") from error
            if low < SHARED_START or high >= limit:
                raise OutOfBounds(
                    f"{what} reads shared addresses {low:#x} to {high:#x}, outside "
                    f"the CTA's {SHARED_START:#x} to {limit - 1:#x} (descriptor {int(descriptor):#018x})"
                )

    def operation(self, ends: Queue, registers: WatchedRegisters) -> Operation:
        """The operation as observers see it."""
        descriptors = np.stack([descriptors.reshape(-1) for descriptors, _, _ in self._operands()], axis=1)
        ctas = self._wave.topology.cta[self.owners][:, None]
        alike = [tuple(of_piece) for of_piece in descriptors.tolist()]
        read = SharedRegion(ctas, np.zeros(len(ctas), np.int64), 0, self._piece_chunks, alike)
        return Operation(self._site, "wgmma", self.owners, ends, reads=read, registers=registers)

    def _piece_chunks(self, piece: int) -> Indices:
        """The 16-byte chunks of its CTA's shared memory that a piece reads."""
        return np.concatenate(
            [
                operand_chunks(int(descriptors.reshape(-1)[piece]), rows, major).reshape(-1)
                for descriptors, rows, major in self._operands()
            ]
        )

    def remember_operands(self) -> None:
        """Remember the operands: they must not be written until the product is performed."""
        self._remembered = [self._operand_data(piece) for piece in range(self.owners.size)]

    def _operand_data(self, piece: int) -> bytes:
        """The data that a piece reads from shared memory."""
        chunks = self._wave.access.shared.bytes.view(CHUNK)
        base = int(self._base.reshape(-1)[piece]) // CHUNK.itemsize
        return chunks.take(self._piece_chunks(piece) + base).tobytes()

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
            self._multiply_one(piece)

    def _multiply_one(self, piece: int) -> None:
        warpgroup, cta = divmod(piece, len(self._base[0]))
        if self._remembered and (found := self._operand_data(piece)) != self._remembered[piece]:
            chunk, byte = divmod(first_difference(found, self._remembered[piece]), CHUNK.itemsize)
            warps = self._wave.topology.group(self._lanes[warpgroup, :, cta])
            words = self._wave.words
            raise AsyncHazard(
                f"{words.describe(self._site)} of {words.name(warps)}, had its operands in shared "
                "memory overwritten between issue and wgmma.wait_group: wait before the buffer is released, and for "
                "the data before it is multiplied",
                lane=warps.indices,
                address=CHUNK.itemsize * int(self._piece_chunks(piece)[chunk]) + byte,
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
        shared = self._wave.access.shared.bytes
        try:
            tensor_cores.wgmma(
                self._form, a, b, shared, base, d, accumulate=accumulate, arithmetic=self._wave.launch.arithmetic
            )
        except ValueError as error:
            raise UnsupportedInstruction(f"{self._wave.words.describe(self._site)}: {error}") from error

    def _accumulators(self) -> Array:
        bank = self._wave.banks[_BANK_OF_WORDS]
        return bank.view(np.float32) if self._form.accumulator == "f32" else bank
