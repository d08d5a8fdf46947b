"""The files of the kernel cache: their format, and what keeps a reader from believing a file that is none of ours."""

import contextlib
import hashlib
import json
import os
import stat
from math import isfinite
from pathlib import Path
from typing import Any

from tilewright.jit.compile import CompiledKernel, MachineCode

SUFFIX = ".kernel"
MAX_ENTRY_BYTES = 1 << 28
"""The size beyond which a file is no entry, so that reading it cannot exhaust memory."""
ROOT = 0
"""The user whom every other one trusts."""

_OF_KERNEL = tuple(name for name in CompiledKernel._fields if name not in ("ptx", "machine_code"))
_OF_MACHINE_CODE = tuple(name for name in MachineCode._fields if name != "cubin")
METADATA_FIELDS = _OF_KERNEL + _OF_MACHINE_CODE
"""What the header of an entry says of a kernel, the last ones only where it has machine code."""
_KINDS = CompiledKernel.__annotations__ | MachineCode.__annotations__


class CorruptEntry(Exception):
    """A cache file differs from what was written."""


def encode_entry(kernel: CompiledKernel, key: str) -> bytes:
    """A line with the digest of the rest, a line of JSON, then the PTX and, of machine code, the cubin."""
    ptx = kernel.ptx.encode()
    metadata = {name: getattr(kernel, name) for name in (METADATA_FIELDS if kernel.machine_code else _OF_KERNEL)}
    header = {"key": key, "ptx_bytes": len(ptx), "kernel": metadata}
    rest = json.dumps(header).encode() + b"\n" + ptx + (kernel.cubin if kernel.machine_code else b"")
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def decode_entry(content: bytes, key: str) -> CompiledKernel:
    """The inverse of `encode_entry`. Raises CorruptEntry for content that it did not make under this key."""
    digest, _, rest = content.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        raise CorruptEntry("its checksum does not match")
    line, _, payload = rest.partition(b"\n")
    try:
        header = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorruptEntry(f"its header is not JSON ({error})") from error
    header = _members(header, "header", {"key": str, "ptx_bytes": int, "kernel": dict})
    if header["key"] != key:
        raise CorruptEntry(f"it is the entry of {header['key']}")
    ptx_bytes = header["ptx_bytes"]
    if ptx_bytes > len(payload):
        raise CorruptEntry(f"it holds {len(payload)} bytes, and {ptx_bytes} of PTX alone are promised")
    names = METADATA_FIELDS if payload[ptx_bytes:] else _OF_KERNEL
    found = _members(header["kernel"], "kernel", {name: _KINDS[name] for name in names})
    metadata = {name: found.pop(name) for name in _OF_KERNEL}
    metadata["warnings"] = tuple(metadata["warnings"])
    machine_code = MachineCode(payload[ptx_bytes:], **found) if found else None
    try:
        return CompiledKernel(ptx=payload[:ptx_bytes].decode(), machine_code=machine_code, **metadata)
    except UnicodeDecodeError as error:
        raise CorruptEntry(f"its PTX is not UTF-8 ({error})") from error


def _members(value: Any, name: str, kinds: dict[str, Any]) -> dict[str, Any]:
    """A JSON object with exactly these members, each of its kind."""
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise CorruptEntry(f"its {name} does not have the members {', '.join(kinds)}")
    for member, kind in kinds.items():
        if not _is(value[member], kind):
            raise CorruptEntry(f"{member} in its {name} is not what was written")
    return value


def _is(value: Any, kind: Any) -> bool:
    if kind == tuple[str, ...]:
        return isinstance(value, list) and all(isinstance(element, str) for element in value)
    return type(value) is kind and (kind not in (int, float) or (isfinite(value) and value >= 0))


def read_entry(path: Path, key: str) -> CompiledKernel:
    """The kernel in a file. Raises OSError where it cannot be read, and CorruptEntry where it is no entry of `key`."""
    # Opening a FIFO for reading would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CorruptEntry("it is not a regular file")
        if status.st_mode & stat.S_IWOTH and os.name == "posix":
            raise CorruptEntry("every user may write to it")
        if status.st_size > MAX_ENTRY_BYTES:
            raise CorruptEntry(f"it has {status.st_size} bytes, and an entry at most {MAX_ENTRY_BYTES}")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(status.st_size)
    finally:
        os.close(descriptor)
    return decode_entry(content, key)


def write_entry(path: Path, kernel: CompiledKernel, key: str) -> None:
    """Write a file whole or not at all. Raises OSError, and then leaves nothing behind.

    A process that is killed leaves a file that `abandoned` finds.
    """
    import tempfile  # most processes write nothing

    # A random name that must not exist, and that a link cannot stand in for.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{key}.", suffix=".tmp")
    try:
        with open(descriptor, "wb") as file:
            file.write(encode_entry(kernel, key))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def abandoned(folder: Path, key: str = "*") -> list[tuple[str, Path]]:
    """The files that processes write, or were killed writing, each with its key."""
    return [(path.name.split(".")[0], path) for path in folder.glob(f"{key}.*tmp")]


def distrusted(folder: Path, any_owner: bool = False) -> str | None:
    """Why kernels in a directory may be others' code; None if only its owner, or its group, can have put them there.

    The owner must be this user or root, or with `any_owner` anybody. A directory that is not there is trusted.
    """
    if not hasattr(os, "geteuid"):  # other systems have other means than owners and modes
        return None
    try:
        status = folder.stat()
    except OSError:
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"every user may write to it (mode {stat.S_IMODE(status.st_mode):o}): chmod o-w {folder}"
    if not any_owner and status.st_uid not in (ROOT, os.geteuid()):
        return f"it belongs to user {status.st_uid}, and you are user {os.geteuid()}: name a directory of your own"
    return None
