"""Checks of any compiler's PTX: a kernel of a file, launched on arguments that the command line describes."""

import re
import sys
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.cli.check_arguments import Arguments, parse_arguments
from tilewright.cli.check_parameters import fit
from tilewright.cli.check_result import Checked, Schedule, run_schedules, schedules_of
from tilewright.cli.memory import available_memory
from tilewright.cli.output import progress
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.cli.check_result import Array, Run
    from tilewright.emulator import Counters, Device

COPIES = 5
"""How often a buffer is in memory at most: initially, on two devices, and as the results of two schedules."""

SPARE_BYTES = 1 << 24
"""Of device memory beyond the buffers: redzones, parameters and variables of the module."""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """--entry, --grid, --block, --cluster, --smem and --arg as given; None where an option is missing."""

    entry: str | None
    grid: str | None
    block: str | None
    cluster: str | None
    smem: int
    arguments: tuple[str, ...]


def check_ptx(path: Path, options: LaunchOptions, schedules: list[Schedule], seed: int) -> Checked:
    """Run a kernel of a PTX file under every schedule; its buffers must end up the same.

    Raises:
        ValueError: for a file that cannot be read, and options that do not fit the kernel.
        EmulatorError: for PTX that is wrong or not emulated, and launches that no GPU takes.
    """
    from tilewright.cli.time_limit import TimeLimit, share_together
    from tilewright.emulator import Device

    text = _read(path)
    arguments = parse_arguments(options.arguments)
    _require_memory(arguments)
    with progress(f"reading {path.name}"):
        kernel = Device(memory_bytes=SPARE_BYTES).load(text, _entry(path, Device.entries(text), options.entry))
    fit(arguments, options.arguments, kernel)
    directives = kernel.program.entry.directives
    grid = _extents("--grid", options.grid, (1,))
    block = _extents("--block", options.block, directives.get("reqntid"))
    cluster = _extents("--cluster", options.cluster, directives.get("reqnctapercluster") or (1,))
    initial = arguments.initial(seed)
    result = Checked(kernel.name, path.name)

    def prepare(schedule: Schedule, device_options: dict[str, Any]) -> "tuple[Device, Run]":
        device = Device(memory_bytes=arguments.nbytes + SPARE_BYTES, **device_options)
        addresses = {name: device.upload(array) for name, array in initial.items()}
        result.named = partial(_named, addresses=addresses, arrays=initial)

        def run() -> "tuple[dict[str, Array], Counters | None]":
            loaded = device.load(text, kernel.name)
            values = arguments.values(device, addresses)
            counters = device.launch(
                loaded, grid, block, values, cluster=cluster, smem=options.smem, max_steps=sys.maxsize
            )
            return {name: _download(device, addresses[name], array) for name, array in initial.items()}, counters

        return device, run

    together, several = share_together(prod(grid), prod(block), prod(cluster)), prod(grid) > 1
    ctas = f"{len(schedules)} schedules of {prod(grid):,} CTA{'s' * several}"
    smaller = ["a smaller --grid"] * several + ["fewer --schedules"] * (len(schedules) > len(schedules_of(0, 0)))
    remedy = f"take {' or '.join(smaller)}" if smaller else "give the kernel less to do"
    run_schedules(result, schedules, prepare, TimeLimit(ctas, together / len(schedules), remedy))
    return result


def _read(path: Path) -> str:
    from tilewright.emulator.ptx_parser import COMPILED

    try:
        text = path.read_text(encoding="utf-8").rstrip("\0")
    except OSError as error:
        raise ArgumentValueError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ArgumentValueError(
            f"{path} is not text, so no PTX: `cuobjdump -ptx` extracts the PTX of a binary"
        ) from error
    if not text.strip():
        raise ArgumentValueError(f"{path} is empty: give {COMPILED}")
    return text


def _entry(path: Path, entries: list[str], wanted: str | None) -> str:
    """The entry of that name, else the only one whose name has it as a part."""
    if wanted in entries:
        return str(wanted)
    fitting = [entry for entry in entries if (wanted or "") in entry]
    if len(fitting) == 1:
        return fitting[0]
    if not entries:
        raise ArgumentValueError(f"{path} has no entry: compile a __global__ function, of a template an instantiation")
    given = "" if wanted is None else f", and --entry {wanted} names {'several' if fitting else 'none'} of them"
    names = "".join(f"\n  {entry}" for entry in fitting or entries)
    count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    raise ArgumentValueError(f"{path} has {count}{given}: choose with --entry NAME, or a part of a name:{names}")


def _download(device: "Device", address: int, like: "Array") -> "Array":
    return device.read(address, like.nbytes).view(like.dtype).reshape(like.shape)


def _named(text: str, addresses: dict[str, int], arrays: "dict[str, Array]") -> str:
    """The text with the array and the offset in bytes behind each address in one."""

    def with_name(match: re.Match[str]) -> str:
        for name, start in addresses.items():
            if 0 <= (offset := int(match[0], 16) - start) < arrays[name].nbytes:
                return f"{match[0]} ({name}{f' + {offset}' if offset else ''})"
        return match[0]

    return re.sub(r"\b0x[0-9a-f]+\b", with_name, text)


def _require_memory(arguments: Arguments) -> None:
    limit = available_memory() / 2
    if COPIES * arguments.nbytes > limit:
        raise ArgumentValueError(
            f"the arrays of --arg take {arguments.nbytes / 1e9:,.1f} GB, {COPIES} times that in the check, and half of "
            f"what is available here is {limit / 1e9:,.1f} GB: take smaller ones"
        )


def _extents(option: str, text: str | None, default: tuple[int, ...] | None) -> tuple[int, ...]:
    """(x, y, z) of "X", "X,Y" or "X,Y,Z", with x for commas as in a shape."""
    if text is None:
        if default is None:
            raise ArgumentValueError(f"{option} is missing and the PTX does not say it: give it, such as {option} 128")
        return default
    parts = text.lower().replace("x", ",").split(",")
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts) or prod(map(int, parts)) < 1:
        raise ArgumentValueError(f"{option}={text!r} must be one to three positive numbers, such as 4 or 4,2 or 4x2x1")
    return tuple(map(int, parts))
