"""Checks of any compiler's PTX: one kernel of a module, launched on arguments that each run gets anew."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.backends.emulation_limit import share_together
from tilewright.checking.arguments import Arguments
from tilewright.checking.asynchrony import Asynchrony, asynchronies
from tilewright.checking.memory import available_memory
from tilewright.checking.names import in_cpp, listed
from tilewright.checking.parameters import fit
from tilewright.checking.registers import Place, RegisterTrace
from tilewright.checking.result import CheckResult, Findings
from tilewright.checking.runs import Results, Run, ignored, run_under_each
from tilewright.checking.time_limit import TimeLimit
from tilewright.checking.wording import HOST_ADDRESSES, Wording, in_words
from tilewright.emulator import Counters, Coverage, Device, Kernel
from tilewright.emulator.checks.reporting.waivers import Waiver
from tilewright.emulator.memory import WHOSE
from tilewright.emulator.ptx.parser import COMPILED, source_files
from tilewright.emulator.semantics.matrices.accumulation import Arithmetic
from tilewright.errors import ArgumentValueError
from tilewright.reference import Array

COPIES = 5
"""The most copies of a buffer in memory: initially, on two devices, and as the results of two runs."""

SPARE_BYTES = 1 << 24
"""Device memory beyond the buffers: redzones, parameters and variables of the module."""

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A PTX module: its text, and its name in messages."""

    name: str
    text: str

    @classmethod
    def read(cls, path: Path) -> "Source":
        """The module of a file; raises an ArgumentValueError if the file does not hold one."""
        try:
            text = path.read_text(encoding="utf-8").rstrip("\0")
        except OSError as error:
            raise ArgumentValueError(f"{path} cannot be read: {error.strerror}; name a PTX file") from error
        except UnicodeDecodeError as error:
            raise ArgumentValueError(
                f"{path} is not text, so no PTX: `cuobjdump -ptx` extracts the PTX of a binary"
            ) from error
        except ValueError as error:  # a path with a null character
            raise ArgumentValueError(f"{str(path)!r} cannot be read: {error}; name a PTX file") from error
        return cls(str(path), text)

    def load(self, entry: str | None, words: Wording) -> Kernel:
        """The kernel of that name, or the only one whose name contains it.

        Raises:
            ArgumentValueError: if there are none or several.
            EmulatorError: if the PTX is wrong or not emulated.
        """
        if not self.text.strip():
            raise ArgumentValueError(f"{self.name} is empty: give {COMPILED}")
        return Device(memory_bytes=SPARE_BYTES).load(self.text, self.entry_named(entry, words))

    def entry_named(self, wanted: str | None, words: Wording) -> str:
        """The entry of that name, or the only one whose name contains it; raises as `load` does."""
        entries = Device.entries(self.text)
        if wanted in entries:
            return str(wanted)
        fitting = [entry for entry in entries if wanted is None or wanted in entry or wanted in in_cpp(entry)]
        if named := [entry for entry in fitting if wanted in (in_cpp(entry), in_cpp(entry).partition("<")[0])]:
            fitting = named
        if len(fitting) == 1:
            return fitting[0]
        if not entries:
            raise ArgumentValueError(
                f"{self.name} has no entry: compile a __global__ function, of a template an instantiation"
            )
        some = "several" if fitting else "none"
        given = "" if wanted is None else f", and {words.written('entry', wanted)} names {some} of them"
        names = "".join(f"\n  {name}" for name in listed(fitting or entries))
        count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
        choose = words.written("entry", "NAME")
        raise ArgumentValueError(f"{self.name} has {count}{given}: choose with {choose}, or a part of a name:{names}")


@dataclass(frozen=True, slots=True)
class Launch:
    """A loaded kernel, with everything that launches it.

    grid, cluster: CTAs. block: threads.
    title: the kernel's name in results; by default the one in the PTX.
    dependent: whether the grid may start before the one ahead of it has ended.
    remedies: the words of the kernel's language for those of CUDA C++, in reports.
    """

    source: Source
    kernel: Kernel
    arguments: Arguments
    grid: Extents
    block: Extents
    cluster: Extents
    shared_bytes: int
    words: Wording
    title: str = ""
    dependent: bool = False
    remedies: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise an ArgumentValueError for arguments that do not fit the kernel, or the memory of this machine."""
        limit = available_memory() / 2
        if COPIES * self.arguments.nbytes > limit:
            raise ArgumentValueError(
                f"the arrays take {self.arguments.nbytes / 1e9:,.1f} GB, {COPIES} times that in the check, and half of "
                f"what is available here is {limit / 1e9:,.1f} GB: take smaller ones"
            )
        fit(self.arguments, self.kernel, self.words)

    def check(
        self,
        orders: Sequence[Asynchrony],
        seed: int = 0,
        *,
        waivers: Sequence[Waiver] = (),
        coverage: Coverage | None = None,
        at: Place | None = None,
        tensor_cores: Arithmetic = "exact",
        progress: Callable[[float], None] = ignored,
    ) -> tuple[CheckResult, Results | None]:
        """The findings under every order, and the contents of the buffers after the first run that ended.

        coverage: notes what this launch exercises too, besides others of one call.
        at: a line and a thread whose registers the result has, from the first order.
        tensor_cores: how they add (see `Device`).

        Raises:
            ArgumentValueError: for a thread that a CTA does not have.
            EmulatorError: for PTX that is wrong or not emulated, and for launches that no GPU accepts.
        """
        arguments, kernel, threads = self.arguments, self.kernel, prod(self.block)
        if at is not None and at.thread >= threads:
            raise ArgumentValueError(
                f"{at} names thread {at.thread}, and a CTA has {threads}: take one of 0..{threads - 1}"
            )
        initial = arguments.initial(seed)
        has_bytes = any(isinstance(item, bytes | np.void) for item in arguments.items)
        remedies = dict(self.remedies) | ({WHOSE: HOST_ADDRESSES} if has_bytes else {})
        findings = Findings(self.title or kernel.name, Path(self.source.name).name, waivers=waivers, coverage=coverage)

        trace = None if at is None else RegisterTrace(at)

        def prepare(order: Asynchrony, options: dict[str, Any]) -> tuple[Device, Run]:
            ignore = [str(waiver) for waiver in waivers]
            printed = sys.stderr.write if order is orders[0] else ignored  # once, and apart from results
            memory_bytes = arguments.nbytes + SPARE_BYTES
            if trace is not None and order is orders[0]:
                options = {**options, "observers": [*options["observers"], trace], "trace": [trace.place.line]}
            device = Device(
                memory_bytes=memory_bytes, ignore=ignore, printed=printed, tensor_cores=tensor_cores, **options
            )
            addresses = {name: _upload(device, array, arguments.buffers[name].skew) for name, array in initial.items()}
            findings.named = lambda text: in_words(_named(text, addresses, initial), remedies)

            def run() -> tuple[Results, Counters | None]:
                loaded = device.load(self.source.text, kernel.name)
                counters = device.launch(
                    loaded,
                    self.grid,
                    self.block,
                    arguments.values(device, addresses),
                    cluster=self.cluster,
                    shared_bytes=self.shared_bytes,
                    dependent=self.dependent,
                    max_steps=sys.maxsize,
                )
                return {name: _download(device, addresses[name], array) for name, array in initial.items()}, counters

            return device, run

        limit = self._time_limit(len(orders))

        def go_on(done: float) -> None:
            progress(done)
            limit(done)

        results = run_under_each(orders, prepare, findings, go_on)
        files = {"PTX": self.source.name, **source_files(self.source.text)}
        return replace(findings.result(), files=files, registers=None if trace is None else trace.found), results

    def _time_limit(self, runs: int) -> TimeLimit:
        ctas = prod(self.grid)
        smaller = [f"a smaller {self.words.name('grid')}"] * (ctas > 1)
        smaller += [f"fewer {self.words.name('schedules')}"] * (runs > len(asynchronies(0)))
        remedy = f"take {' or '.join(smaller)}" if smaller else "give the kernel less to do"
        together = share_together(ctas, prod(self.block), prod(self.cluster))
        return TimeLimit(f"{runs} schedules of {ctas:,} CTA{'s' * (ctas > 1)}", together / runs, remedy)


def launch_of(
    source: Source,
    entry: str | None,
    arguments: Arguments,
    words: Wording,
    *,
    grid: Extents | None = None,
    block: Extents | None = None,
    cluster: Extents | None = None,
    shared_bytes: int = 0,
    title: str = "",
    dependent: bool = False,
    remedies: Mapping[str, str] | None = None,
) -> Launch:
    """A launch of a kernel of the source; by default one CTA, and of block and cluster what the PTX requires.

    Raises:
        ArgumentValueError: for an entry or arguments that do not fit, and if block is missing.
        EmulatorError: if the PTX is wrong or not emulated.
    """
    kernel = source.load(entry, words)
    directives = kernel.program.entry.directives
    if block is None and "reqntid" not in directives:
        said = f"{words.name('block')} is missing and the PTX does not say it: give {words.written('block', 128)}"
        if grid is None:
            said += f"; {words.name('grid')} is 1 unless you give it"
        try:
            fit(arguments, kernel, words)
        except ArgumentValueError as error:  # the parameters too are said at once
            said += f"\n{error}"
        raise ArgumentValueError(said)
    return Launch(
        source,
        kernel,
        arguments,
        grid or (1,),
        block or directives["reqntid"],
        cluster or directives.get("reqnctapercluster") or (1,),
        shared_bytes,
        words,
        title,
        dependent,
        remedies or {},
    )


def _upload(device: Device, array: Array, skew: int) -> int:
    address = device.allocate(max(array.nbytes, 1), skew=skew)
    device.write(address, array)
    return address


def _download(device: Device, address: int, like: Array) -> Array:
    return device.read(address, like.nbytes).view(like.dtype).reshape(like.shape)


def _named(text: str, addresses: Mapping[str, int], arrays: Mapping[str, Array]) -> str:
    """The text, in which each address in an array is followed by the array and the offset in bytes."""

    def with_name(match: re.Match[str]) -> str:
        for name, start in addresses.items():
            if 0 <= (offset := int(match[0], 16) - start) < arrays[name].nbytes:
                return f"{match[0]} ({name}{f' + {offset}' if offset else ''})"
        return match[0]

    return re.sub(r"\b0x[0-9a-f]+\b", with_name, text)
