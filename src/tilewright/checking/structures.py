"""Structures that the caller passes by value, and the places in them where arrays and TMA descriptors go."""

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.checking.arguments import HostMap, Item, Pointer, Structure, TensorMapOf
from tilewright.emulator.semantics.tensor_map import TENSOR_MAP_BYTES
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.rounding import natural

ADDRESS_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A kernel argument: a structure by value with pointers and TMA descriptors in it, such as the Params of CUTLASS.

        tw.Struct(params, {"ptr_A": a, "mainloop.tma_load_b": tw.TensorMap(b, (64, 64)), 320: out})

    data: all its bytes: a ctypes.Structure, a NumPy scalar of a structured dtype, or bytes.
    places: what lies where in it. A place is the name of a field ("outer.inner" in a nested structure) or an offset in
    bytes, for a pointer a multiple of 8. A NumPy array or a torch tensor on the CPU puts its address there, in 8 bytes;
    None is a null pointer; a TensorMap puts its 128 bytes there, or its address into a field of 8.
    """

    data: "bytes | ctypes.Structure | np.generic"
    places: Mapping[str | int, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a structure: the offset, and the size if a field says it, in bytes; and what the caller puts there."""

    offset: int
    size: int | None
    value: Any


def places_of(label: str, struct: Struct) -> Iterator[tuple[str, Place]]:
    """The places of a structure with their names in messages and reports.

    Raises:
        ArgumentTypeError, ArgumentValueError: for what is no place, or lies outside.
    """
    if not isinstance(struct.places, Mapping):
        raise ArgumentTypeError(
            f"{label}: places={struct.places!r} must be a dictionary, of arrays by the names of their fields or by "
            'their offsets in bytes: {"ptr_A": a, 320: out}'
        )
    for place, value in struct.places.items():
        if isinstance(place, str):
            yield f"{label}.{place}", Place(*_field(label, struct.data, place), value)
        else:
            yield f"{label}[{place!r}]", Place(natural(f"{label}: the offset", place), None, value)


def filled(label: str, struct: Struct, parts: Mapping[str, tuple[Place, Item]]) -> Structure:
    """The structure with these parts at their places, by their names.

    Raises:
        ArgumentTypeError, ArgumentValueError: for data that is no structure, and for a part that is no address or
        descriptor, does not fit its field, or overlaps another.
    """
    data = _bytes_of(label, struct)
    placed: dict[int, Pointer | TensorMapOf | HostMap] = {}
    taken: dict[int, str] = {}
    for name, (place, item) in parts.items():
        if not isinstance(item, Pointer | TensorMapOf):
            raise ArgumentTypeError(
                f"{name} is a {type(place.value).__name__}: put a NumPy array, a torch tensor on the CPU, a TensorMap, "
                "or None for a null pointer there; all else is part of the structure's data"
            )
        if isinstance(item, TensorMapOf) and place.size == ADDRESS_BYTES:
            item = replace(item, by_address=True)
        size = TENSOR_MAP_BYTES if isinstance(item, TensorMapOf) and not item.by_address else ADDRESS_BYTES
        end = place.offset + size
        if place.size not in (None, size) or end > len(data):
            room = f"the field has {place.size}" if place.size else f"the structure ends after {len(data)}"
            raise ArgumentValueError(
                f"{name} takes {size} bytes from {place.offset} on, and {room}: name a fitting place"
            )
        if size == ADDRESS_BYTES and place.size is None:
            _require_pointer_at(name, struct.data, place.offset)
        for byte in range(place.offset, end):
            if taken.setdefault(byte, name) != name:
                raise ArgumentValueError(f"{name} and {taken[byte]} overlap in {label}: give each a place of its own")
        placed[place.offset] = item
    return Structure(data, placed)


def _bytes_of(label: str, struct: Struct) -> bytes:
    data = struct.data
    if isinstance(data, np.generic) and not data.dtype.hasobject:
        return data.tobytes()
    if isinstance(data, bytes | bytearray | ctypes.Structure):
        return bytes(data)
    raise ArgumentTypeError(
        f"{label} is a Struct of a {type(data).__name__}: give its data as a ctypes.Structure, a NumPy scalar of a "
        "structured dtype (array[()] is one), or bytes"
    )


def _require_pointer_at(name: str, data: Any, offset: int) -> None:
    """Refuse an offset where no pointer lies, as far as the type of the data says it."""
    if offset % ADDRESS_BYTES:
        raise ArgumentValueError(
            f"{name} puts an address at {offset}, and a pointer lies at a multiple of {ADDRESS_BYTES}: give the offset "
            "of one, or the name of a field"
        )
    kind, start, size = _type_of(data), 0, 0
    while holding := [each for each in _fields(kind).values() if 0 <= offset - start - each[0] < each[1]]:
        inside, size, kind = holding[0]
        start += inside
    if _is_number(kind) and (start, size) != (offset, ADDRESS_BYTES):
        raise ArgumentValueError(
            f"{name} puts an address into a field of {size} bytes at {start}, and a pointer takes a field of "
            f"{ADDRESS_BYTES}: give the offset of one, or its name"
        )


def _field(label: str, data: Any, name: str) -> tuple[int, int]:
    """Offset and size of a field, by its name."""
    kind = _type_of(data)
    start = size = 0
    for part in name.split("."):
        fields = _fields(kind)
        if part not in fields:
            has = ", ".join(fields) or "none"
            raise ArgumentValueError(
                f"{label} has no field {name!r}: the fields of {_title(kind)} are {has}; name one, or give its "
                "offset in bytes"
            )
        offset, size, kind = fields[part]
        start += offset
    return start, size


def _type_of(data: Any) -> Any:
    return data.dtype if isinstance(data, np.generic) else type(data)


def _is_number(kind: Any) -> bool:
    """Whether a type is of numbers, and no structure, array or opaque bytes."""
    if isinstance(kind, np.dtype):
        return kind.kind in "biufc"
    return isinstance(kind, type) and issubclass(kind, ctypes._SimpleCData)


def _fields(kind: Any) -> dict[str, tuple[int, int, Any]]:
    """Offset, size and type of the fields of a structure; empty for other types."""
    if isinstance(kind, np.dtype):
        named: Mapping[str, Any] = kind.fields or {}
        return {name: (named[name][1], named[name][0].itemsize, named[name][0]) for name in kind.names or ()}
    if not (isinstance(kind, type) and issubclass(kind, ctypes.Structure)):
        return {}
    declared = [one for base in reversed(kind.__mro__) for one in vars(base).get("_fields_", ())]
    return {name: (getattr(kind, name).offset, ctypes.sizeof(of), of) for name, of, *_ in declared}


def _title(kind: Any) -> str:
    return f"a {kind}" if isinstance(kind, np.dtype) else kind.__name__
