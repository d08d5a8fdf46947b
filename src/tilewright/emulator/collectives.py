"""Warp-wide exchange: shfl, vote, match, redux, elect. Source: PTX ISA, the instructions of these names.

All work on tiles of shape (warps, 32, C); lanes that are not present count as not taking part.
"""

import numpy as np

from tilewright.emulator.arithmetic import Values
from tilewright.emulator.lanes import FULL_WARP, WARP, Array, Group, Mask, Tiles

_LANE = np.arange(WARP, dtype=np.int64)
POISON = np.uint32(0xFFFFFFFF)
"""What stands for an undefined value, as in memory that nobody has written: NaN, if it is a number."""

_BIT = np.left_shift(np.uint32(1), np.arange(WARP, dtype=np.uint32))[:, None]


def shuffle(
    group: Group, mode: str, value: Values, lane: Values, clamp: Values, mask: Values, active: Values | None
) -> tuple[Array, Array]:
    """shfl.sync: the value of another lane of the warp, and whether that lane is in range.

    PTX leaves open what a lane reads from one that takes no part, or that is not in its member mask: it is poison.
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
    if not (warps.complete and active is None and (mask == FULL_WARP).all()):
        partner = np.take_along_axis(taking_part(warps, active), source, axis=1)
        partner &= warps.spread(mask) >> source.astype(np.uint32) & np.uint32(1) != 0
        found = np.where(partner, found, POISON)
    return warps.collect(found), warps.collect(in_range)


def taking_part(warps: Tiles, active: Values | None) -> Mask:
    """Which lanes of each warp are present and active."""
    executing: Mask = warps.spread(np.asarray(True if active is None else active, np.bool_))
    return executing if warps.present is None else executing & warps.present


def misnamed(group: Group, mask: Values, active: Values | None) -> tuple[Array, Array]:
    """Which lanes execute a collective outside their own mask, and which are in the mask of another but do not."""
    warps = group.warps
    executing, masks = taking_part(warps, active), warps.spread(mask)
    outside = executing & (masks & _BIT == 0)
    named = np.bitwise_or.reduce(np.where(executing, masks, np.uint32(0)), axis=1, keepdims=True)
    idle = ~executing & (named & _BIT != 0)
    return warps.collect(outside), warps.collect(idle)


def _source_lane(mode: str, own: Array, lane: Array, clamp: Array) -> tuple[Array, Array]:
    """The lane to read, the own one where the wanted one is out of range, and whether it is in range."""
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


def vote(group: Group, mode: str, condition: Values, mask: Values, active: Values | None) -> Array:
    """vote.sync over the lanes of the mask; lanes whose guard is false do not vote."""
    warps = group.warps
    members = members_of(warps, mask)
    if active is not None:
        members = members & warps.spread(active)
    conditions = warps.spread(condition)
    yes = members & conditions
    if mode == "ballot":
        return _to_lanes(warps, _bits(yes))
    everyone: Array = np.asarray((~members | conditions).all(axis=1))
    if mode == "all":
        return _to_lanes(warps, everyone)
    anyone: Array = np.asarray(yes.any(axis=1))
    return _to_lanes(warps, anyone if mode == "any" else everyone | ~anyone)


def match(group: Group, mode: str, value: Values, mask: Values) -> tuple[Array, Array]:
    """match.sync: the lanes of the mask with the same value, and, for `all`, whether these are all."""
    warps = group.warps
    values, members = warps.spread(value), members_of(warps, mask)
    same = (values[:, :, None] == values[:, None]) & members[:, None]
    found = np.where(same, _BIT, np.uint32(0)).sum(axis=2, dtype=np.uint32)
    if mode == "any":
        return warps.collect(found), np.ones(group.size, np.bool_)
    complete = np.broadcast_to((found == _bits(members)[:, None]).all(axis=1, keepdims=True), found.shape)
    return warps.collect(np.where(complete, found, np.uint32(0))), warps.collect(complete)


def reduce(group: Group, operation: str, value: Values, mask: Values) -> Array:
    """redux.sync: the combination of the values of the lanes of the mask."""
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


def elect(group: Group, mask: Values) -> tuple[Array, Array]:
    """elect.sync: the lowest lane of the mask, and whether this lane is it."""
    warps = group.warps
    leader = members_of(warps, mask).argmax(axis=1).astype(np.uint32)
    chosen = _to_lanes(warps, leader)
    return chosen, chosen == group.thread % WARP


def active_mask(group: Group) -> Array:
    """activemask: the lanes of the warp that run together now."""
    return _to_lanes(group.warps, _bits(members_of(group.warps, np.uint32(0xFFFFFFFF))))


def members_of(warps: Tiles, mask: Values) -> Mask:
    """Which lanes of each warp are in its mask and present."""
    members: Mask = warps.spread(mask) & _BIT != 0
    return members if warps.present is None else members & warps.present


def _bits(flags: Mask) -> Array:
    """One word per warp from a flag per lane."""
    words: Array = np.where(flags, _BIT, np.uint32(0)).sum(axis=1, dtype=np.uint32)
    return words


def _to_lanes(warps: Tiles, per_warp: Array) -> Array:
    """A value per warp (warps, C), for every lane."""
    return warps.collect(np.broadcast_to(per_warp[:, None], warps.shape))
