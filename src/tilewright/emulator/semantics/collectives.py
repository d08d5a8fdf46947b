"""Warp-wide exchange: shfl, vote, match, redux, elect. Source: PTX ISA, the instructions of these names.

All work on tiles of shape (warps, 32, C). The group holds the lanes that execute the instruction together (see
meetings); lanes of its warps that are not present take no part.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeAlias

import numpy as np

from tilewright.emulator.lanes import FULL_WARP, WARP, Array, Group, Mask, Tiles, lanes_of
from tilewright.emulator.semantics.scalars import Values
from tilewright.emulator.semantics.unset_bits import whole

Collective: TypeAlias = Callable[..., Any]
"""A function of a group, the member mask of its lanes, and operands."""

_LANE = np.arange(WARP, dtype=np.int64)
POISON = np.uint32(0xFFFFFFFF)
"""The value of undefined results, as of unwritten memory: NaN as a number."""

BIT = np.left_shift(np.uint32(1), np.arange(WARP, dtype=np.uint32))[:, None]
"""(32, 1), the bit of each lane in a member mask."""


def by_mask(collective: Collective) -> Collective:
    """Let a collective see one member mask per warp: if a warp's lanes have several, each mask has a turn."""

    @wraps(collective)
    def apply(group: Group, mask: Values, *operands: Any) -> Any:
        masks = lanes_of(mask, group.size)
        if (masks == masks[0]).all():
            return collective(group, mask, *operands)
        turns = [np.flatnonzero(group.warps.collect(party)) for _, party in parties(group.warps, masks)]
        results = []
        for turn in turns:
            of_turn = [o if isinstance(o, str) else lanes_of(o, group.size)[turn] for o in operands]
            results.append(collective(group.topology.group(group.indices[turn]), masks[turn], *of_turn))
        order = np.argsort(np.concatenate(turns))
        if isinstance(results[0], tuple):
            return tuple(np.concatenate(parts)[order] for parts in zip(*results, strict=True))
        return np.concatenate(results)[order]

    return apply


def shuffle(
    group: Group, mask: Values, mode: str, value: Values, lane: Values, clamp: Values, unset: Values | None
) -> tuple[Array, Array, Array | None]:
    """shfl.sync: another lane's value, whether that lane is in range, and its bits without a value.

    PTX leaves open what a lane reads from one that takes no part, or that is not in its member mask: here it is poison.
    unset: the bits without a value to give, None if all have one.
    """
    warps = group.warps
    values = warps.spread(value)
    if np.ndim(lane) == 0 and np.ndim(clamp) == 0:
        source, in_range = _source_lane(mode, _LANE, np.asarray(lane, np.int64), np.asarray(clamp, np.int64))
        source, in_range = (np.broadcast_to(of_lane[:, None], values.shape) for of_lane in (source, in_range))
    else:
        of_lane, of_clamp = (warps.spread(operand).astype(np.int64) for operand in (lane, clamp))
        source, in_range = _source_lane(mode, _LANE[:, None], of_lane, of_clamp)
    found = np.take_along_axis(values, source, axis=1)
    lost = None if unset is None else np.take_along_axis(warps.spread(unset), source, axis=1)
    if not (warps.complete and (mask == FULL_WARP).all()):
        partner = warps.spread(mask) >> source.astype(np.uint32) & np.uint32(1) != 0
        if warps.present is not None:
            partner &= np.take_along_axis(warps.present, source, axis=1)
        found = np.where(partner, found, POISON)
        absent = whole(~partner, np.uint32)
        lost = absent if lost is None else lost | absent
    return warps.collect(found), warps.collect(in_range), None if lost is None else warps.collect(lost)


def _source_lane(mode: str, own: Array, lane: Array, clamp: Array) -> tuple[Array, Array]:
    """The lane to read (a lane's own if the wanted one is out of range), and whether it is in range."""
    segment, limit, lane = clamp >> 8 & 31, clamp & 31, lane & 31
    start = own & segment
    last = start | (limit & ~segment)
    match mode:
        case "up":
            wanted = own - lane
            in_range = wanted >= last
        case "down":
            wanted = own + lane
            in_range = wanted <= last
        case "bfly":
            wanted = own ^ lane
            in_range = wanted <= last
        case _:
            wanted = start | (lane & ~segment)
            in_range = wanted <= last
    return np.where(in_range, wanted, own), in_range


@by_mask
def vote(group: Group, mask: Values, mode: str, condition: Values) -> Array:
    """vote.sync over the lanes of the mask."""
    warps = group.warps
    members = members_of(warps, mask)
    conditions = warps.spread(condition)
    yes = members & conditions
    if mode == "ballot":
        return _to_lanes(warps, bits_of(yes))
    everyone: Array = np.asarray((~members | conditions).all(axis=1))
    if mode == "all":
        return _to_lanes(warps, everyone)
    anyone: Array = np.asarray(yes.any(axis=1))
    return _to_lanes(warps, anyone if mode == "any" else everyone | ~anyone)


@by_mask
def match(group: Group, mask: Values, mode: str, value: Values) -> tuple[Array, Array]:
    """match.sync: the lanes of the mask with the same value, and, for `all`, whether these are all."""
    warps = group.warps
    values, members = warps.spread(value), members_of(warps, mask)
    same = (values[:, :, None] == values[:, None]) & members[:, None]
    found = np.where(same, BIT, np.uint32(0)).sum(axis=2, dtype=np.uint32)
    if mode == "any":
        return warps.collect(found), np.ones(group.size, np.bool_)
    complete = np.broadcast_to((found == bits_of(members)[:, None]).all(axis=1, keepdims=True), found.shape)
    return warps.collect(np.where(complete, found, np.uint32(0))), warps.collect(complete)


@by_mask
def reduce(group: Group, mask: Values, operation: str, value: Values) -> Array:
    """redux.sync: the combined values of the lanes of the mask."""
    warps = group.warps
    values, members = warps.spread(value), members_of(warps, mask)
    limits = np.iinfo(values.dtype)
    function, neutral = {
        "add": (np.add, 0),
        "min": (np.minimum, limits.max),
        "max": (np.maximum, limits.min),
        "and": (np.bitwise_and, -1 if limits.min else limits.max),
        "or": (np.bitwise_or, 0),
        "xor": (np.bitwise_xor, 0),
    }[operation]
    taken = np.where(members, values, values.dtype.type(neutral))
    return _to_lanes(warps, function.reduce(taken, axis=1, dtype=values.dtype))


@by_mask
def elect(group: Group, mask: Values) -> tuple[Array, Array]:
    """elect.sync: the lowest lane of the mask, and whether this lane is it."""
    warps = group.warps
    leader = members_of(warps, mask).argmax(axis=1).astype(np.uint32)
    chosen = _to_lanes(warps, leader)
    return chosen, chosen == group.thread % WARP


def active_mask(group: Group) -> Array:
    """activemask: the lanes of the warp that run together now."""
    return _to_lanes(group.warps, bits_of(members_of(group.warps, np.uint32(0xFFFFFFFF))))


def members_of(warps: Tiles, mask: Values) -> Mask:
    """The lanes of each warp that are in its mask and present."""
    members: Mask = warps.spread(mask) & BIT != 0
    return members if warps.present is None else members & warps.present


def parties(warps: Tiles, masks: Array) -> Iterator[tuple[Array, Mask]]:
    """The lanes of each warp that share a member mask, one mask of each warp at a time.

    masks: (lanes,). Yields the masks, (warps, 1, C), 0 in warps without a further one, and the lanes that have them,
    (warps, 32, C).
    """
    of_lane = warps.spread(masks)
    left = np.ones(warps.shape, np.bool_) if warps.present is None else warps.present.copy()
    while (more := left.any(axis=1, keepdims=True)).any():
        mask = np.take_along_axis(of_lane, left.argmax(axis=1)[:, None], axis=1)
        party = left & (of_lane == mask)
        yield np.where(more, mask, np.uint32(0)), party
        left &= ~party


def bits_of(flags: Mask) -> Array:
    """One word per warp from a flag per lane."""
    words: Array = np.where(flags, BIT, np.uint32(0)).sum(axis=1, dtype=np.uint32)
    return words


def _to_lanes(warps: Tiles, per_warp: Array) -> Array:
    """A value per warp (warps, C), for every lane."""
    return warps.collect(np.broadcast_to(per_warp[:, None], warps.shape))
