"""Measure the copies of operands that TMA cannot address, Config by Config, beside the products that read them.

For each product of odd extents, all in graphs, in turns, inputs past L2: every Config of `repack`, whose copies are
compared with the operands, alone and ahead of the product in memory that is there; the driver's copy of as many bytes
from device to device; the call of a plan, with the first Config, which allocates its workspace; the product of the
copies; and the aligned product, whose extents are rounded up to 64. TB/s counts reads and writes.
Ctrl-C keeps what is done.

examples:
  python tools/repack_sweep.py repack.json                                        what fits into 45 seconds
  python tools/repack_sweep.py repack.json --products 128x4096x4100 --layouts nn  one product
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from cuda.bindings import driver

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import Shape, posed  # noqa: E402
from sweep import ROUNDS, text_of, timed  # noqa: E402

from tilewright.backends.driver_calls import checked  # noqa: E402
from tilewright.backends.gpu import GpuBackend, backend  # noqa: E402
from tilewright.backends.protocol import Executable  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.jit.compile import CompiledKernel  # noqa: E402
from tilewright.jit.pool import CompilerPool, compilations  # noqa: E402
from tilewright.jit.source import TranslationUnit  # noqa: E402
from tilewright.kernels.kernel import Launch  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.kernels.repack import RepackConfig  # noqa: E402
from tilewright.measure.protocol import Work  # noqa: E402
from tilewright.planner.copies import REPACK, Copied, CopyingExecutable, copied  # noqa: E402
from tilewright.planner.tuning.candidates import Candidate  # noqa: E402
from tilewright.planner.tuning.stand import GpuStand  # noqa: E402
from tilewright.problem import OPERANDS, Problem  # noqa: E402
from tilewright.rounding import round_up  # noqa: E402

PRODUCTS = (
    "2047x2047x2047", "4095x4095x4095", "128x4096x4097", "1023x1023x1023", "255x257x259", "8191x8191x8191",
    "511x511x511", "1x4096x4097", "128x4096x4100",
)  # fmt: skip
ALIGNED = 64


def main() -> None:
    """Sweep and write the record after each product."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="where the record is written")
    parser.add_argument("--products", nargs="+", default=PRODUCTS, metavar="MxNxK", help="default: nine")
    parser.add_argument("--layouts", nargs="+", choices=("nt", "nn", "tn", "tt"), default=["nt", "nn"])
    parser.add_argument("--seconds", type=float, default=45, help="after which no product is begun (default: 45)")
    options = parser.parse_args()
    gpu, begun = backend(0), time.monotonic()
    about = {
        "gpu": gpu.hardware.name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "tools/repack_sweep.py", *sys.argv[1:]]),
        "digest": REPACK.digest,
        "columns": {"launches": ["m", "n", "k", "layout", "kind", "config", "us", "TB/s", "predicted"]},
    }
    launches: list[list[Any]] = []
    with CompilerPool(compilations()) as pool:
        for layout, text in product(options.layouts, options.products):
            if (elapsed := time.monotonic() - begun) > options.seconds:
                break
            m, n, k = map(int, text.split("x"))
            problem = posed(Shape(m, n, k, 1, layout))
            print(f"{elapsed:4.0f} of {options.seconds:g} s, {problem}", file=sys.stderr)
            try:
                for row in _measured(problem, gpu, pool):
                    print(f"    {row}", file=sys.stderr)
                    launches.append([m, n, k, layout, *row])
            except KeyboardInterrupt:
                break
            options.record.write_text(text_of(about, launches))


def _measured(problem: Problem, gpu: GpuBackend, pool: CompilerPool) -> Iterator[list[Any]]:
    """The last five columns of a row for each launch; of copies, the quickest comes first."""
    wgmma, hardware = KERNELS["wgmma"], gpu.hardware
    copies = copied(problem, wgmma, hardware)
    if not isinstance(copies, Copied) or copies.repacking is None:
        print(f"  TMA reads {problem} where it is", file=sys.stderr)
        return
    yield from _of_copies(problem, copies, gpu, pool)
    m, n, k = (round_up(extent, ALIGNED) for extent in (problem.m, problem.n, problem.k))
    aligned = posed(Shape(m, n, k, 1, problem.layout))
    for kind, posed_so in (("product of copies", copies.problem), ("aligned", aligned)):
        config = wgmma.best(posed_so, hardware)
        candidate = Candidate(wgmma, config, wgmma.assemble(config, posed_so, hardware))
        predicted = wgmma.predict(config, posed_so, hardware)
        for each, us in timed([candidate], posed_so, gpu, pool):
            yield [kind, asdict(each.config), us, None, round(predicted.seconds * 1e6, 2) if predicted else None]


def _of_copies(problem: Problem, copies: Copied, gpu: GpuBackend, pool: CompilerPool) -> Iterator[list[Any]]:
    """The rows of each Config of `repack`, of the driver's copy and of the whole call."""
    repacking, hardware = copies.repacking, gpu.hardware
    assert repacking is not None
    configs = list(REPACK.configs(repacking, hardware))
    launches = [REPACK.assemble(config, repacking, hardware) for config in configs]
    wgmma = KERNELS["wgmma"]
    multiply = wgmma.assemble(wgmma.best(copies.problem, hardware), copies.problem, hardware)
    compiled: dict[TranslationUnit, CompiledKernel] = {}
    for source, built in pool.build_all([launch.source for launch in (*launches, multiply)], hardware.arch):
        if isinstance(built, TilewrightError):
            raise built
        compiled[source] = built

    def prepared(launch: Launch) -> Executable:
        return gpu.prepare(compiled[launch.source], launch.shape, launch.arguments)

    multiplies = prepared(multiply)
    with GpuStand(problem, gpu) as stand, ExitStack() as until:
        bench = _Copies(problem, copies, stand, until)
        works: dict[tuple[str, RepackConfig | None], Work] = {}
        for config, launch in zip(configs, launches, strict=True):
            executable = prepared(launch)
            if fault := bench.fault(executable):
                print(f"  left out: {config}: {fault}", file=sys.stderr)
                continue
            works["repack", config] = stand.replays(bench.launcher(executable), until)
            both = bench.calls(CopyingExecutable(copies, executable, multiplies, bench, multiply.exchanged))
            works["both launches", config] = stand.replays(both, until)
        call = CopyingExecutable(copies, prepared(launches[0]), multiplies, gpu, multiply.exchanged)
        works["call", configs[0]] = stand.replays(bench.calls(call), until)
        works["driver's copy", None] = stand.replays(bench.copy_as_much, until)
        times: dict[tuple[str, RepackConfig | None], list[float]] = {key: [] for key in works}
        for turn in range(ROUNDS):
            for key in list(works)[:: -1 if turn % 2 else 1]:
                times[key].append(works[key].run(1) / works[key].launches * 1e6)
    for (kind, of), each in sorted(times.items(), key=lambda item: (item[0][0], median(item[1]))):
        us, rate, predicted = median(each), None, None
        if kind in ("repack", "driver's copy"):
            rate = round(2 * bench.nbytes / us * 1e-6, 3)
        if kind == "repack" and of is not None:
            predicted = round(REPACK.predict(of, repacking, hardware).seconds * 1e6, 2)
        yield [kind, asdict(of) if of is not None else {}, round(us, 3), rate, predicted]


class _Copies:
    """Workspaces for the copies of a stand's operands, one a set, of which calls get the next."""

    def __init__(self, problem: Problem, copies: Copied, stand: GpuStand, until: ExitStack):
        self._problem, self._copies, self._stand = problem, copies, stand
        memory = stand.backend.memory
        self._apart = round_up(copies.nbytes, 256)
        self._base = memory.allocate(stand.sets * self._apart)
        until.callback(memory.free, self._base)
        self._next = self._base
        elements = 0
        for name in copies.copies:
            rows, columns = problem.extents(name)
            elements += rows * columns
        self.nbytes = elements * problem.a.dtype.nbytes

    def launcher(self, executable: Executable) -> Callable[[int, int], object]:
        """Launches of `repack` on set after set."""

        def launch(number: int, stream: int) -> None:
            pointers, workspace = self._stand.pointers(number), self._base + number * self._apart
            to = [workspace + self._copies.offsets[name] if name in self._copies.offsets else 0 for name in ("a", "b")]
            executable([pointers[0], pointers[1], *to, 0], 1.0, 1.0, stream)

        return launch

    def prepare_workspace(self) -> None:
        """They are there."""

    @contextmanager
    def workspace(self, nbytes: int, stream: int) -> Iterator[int]:
        """That of the set whose turn it is."""
        yield self._next

    def calls(self, executable: CopyingExecutable) -> Callable[[int, int], object]:
        """Calls on set after set."""

        def call(number: int, stream: int) -> None:
            self._next = self._base + number * self._apart
            executable(self._stand.pointers(number), 1.0, 0.0, stream)

        return call

    def copy_as_much(self, number: int, stream: int) -> None:
        """The driver copies as many bytes from the set's first operand on."""
        source, workspace = self._stand.pointers(number)[0], self._base + number * self._apart
        checked(driver.cuMemcpyDtoDAsync(workspace, source, self.nbytes, driver.CUstream(stream)), "cuMemcpyDtoDAsync")

    def fault(self, executable: Executable) -> str:
        """What is wrong with the copies of the first set, in words; empty if nothing is."""
        memory = self._stand.backend.memory
        junk = np.full(self._copies.nbytes, 0xA5, np.uint8)
        memory.copy_in(self._base, junk.ctypes.data, junk.nbytes)
        self.launcher(executable)(0, 0)
        for name, offset in self._copies.offsets.items():
            rows, columns = self._problem.extents(name)
            source, copy = getattr(self._problem, name), getattr(self._copies.problem, name)
            if not source.is_row_major:
                rows, columns, source, copy = columns, rows, source.transposed, copy.transposed
            address = self._stand.pointers(0)[OPERANDS.index(name)]
            expected, found = (
                _read(memory, place, rows, columns, matrix.row_stride)
                for place, matrix in ((address, source), (self._base + offset, copy))
            )
            if wrong := int((expected != found).sum()):
                return f"{wrong} elements of the copy of {name} are wrong"
        return ""


def _read(memory: Any, address: int, rows: int, columns: int, stride: int) -> Any:
    """The bits of a matrix of elements of two bytes, row-major."""
    flat = np.zeros(rows * stride, np.uint16)
    memory.copy_out(flat.ctypes.data, address, 2 * ((rows - 1) * stride + columns))
    return flat.reshape(rows, stride)[:, :columns]


if __name__ == "__main__":
    main()
