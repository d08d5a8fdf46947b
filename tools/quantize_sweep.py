"""Measure `quantize`, Config by Config, beside the driver's copy of as many bytes.

For each shape, input, block, with and without the transposed codes, all in graphs, in turns, inputs past L2: the time
of a whole call without the host's part, and the bytes that must cross memory (x once or twice, codes and scales once)
per second. `share` divides that by what the driver's copy from device to device reaches with as many bytes.
Codes of every Config have the bits of the usual one's, which tests/gpu compares with NumPy. Ctrl-C keeps what is done.

examples:
  python tools/quantize_sweep.py quantize.json                                        what fits into 120 seconds
  python tools/quantize_sweep.py quantize.json --shapes 8192x8192 --blocks 1x128 --dtypes bf16
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import count, product
from math import ceil, prod
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from cuda.bindings import driver

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tilewright.backends.driver_calls import checked  # noqa: E402
from tilewright.backends.gpu import GpuBackend, backend  # noqa: E402
from tilewright.dtypes import DType, by_name  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.kernels.quantize import Quantization, QuantizeConfig, config_of, tiles_in  # noqa: E402
from tilewright.measure.graph import graph_work  # noqa: E402
from tilewright.measure.protocol import Work  # noqa: E402
from tilewright.operand import Operand, contiguous_strides  # noqa: E402
from tilewright.planner.quantizer import Quantizer  # noqa: E402
from tilewright.planner.quantizing import BLOCKS, Operands, Options, bind, forms  # noqa: E402
from tilewright.rounding import round_up  # noqa: E402

SHAPES = ("8192x8192", "4096x4096", "16384x4096", "4096x14336", "128x4096", "8192x8190")
ROUNDS, GRAPH_SECONDS = 9, 5e-3


def main() -> None:
    """Sweep and write the record after each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="where the record is written")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="MxK", help="default: six")
    parser.add_argument("--dtypes", nargs="+", choices=("bf16", "fp16", "fp32"), default=["bf16", "fp32"])
    parser.add_argument("--codes", choices=("fp8_e4m3", "fp8_e5m2", "int8"), default="fp8_e4m3")
    parser.add_argument("--blocks", nargs="+", choices=BLOCKS, default=BLOCKS)
    parser.add_argument("--usual", action="store_true", help="measure the usual Configs alone")
    parser.add_argument("--seconds", type=float, default=120, help="after which no case is begun (default: 120)")
    options = parser.parse_args()
    gpu, begun = backend(0), time.monotonic()
    record: dict[str, Any] = {
        "gpu": gpu.hardware.name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "tools/quantize_sweep.py", *sys.argv[1:]]),
        "columns": ["m", "k", "dtype", "codes", "block", "transposed", "config", "us", "TB/s", "share"],
        "launches": [],
    }
    with gpu.current():
        for shape, kind, block, transposed in product(options.shapes, options.dtypes, options.blocks, (False, True)):
            if (elapsed := time.monotonic() - begun) > options.seconds:
                break
            m, k = map(int, shape.split("x"))
            case = Options.of(options.codes, block, False, True, transposed)
            dtype = by_name(kind)
            assert dtype is not None
            print(f"{elapsed:4.0f} of {options.seconds:g} s, {shape} {kind} {block} {transposed=}", file=sys.stderr)
            try:
                for row in measured((m, k), dtype, case, gpu, only_usual=options.usual):
                    print(f"    {row}", file=sys.stderr)
                    record["launches"].append([m, k, kind, options.codes, block, transposed, *row])
            except KeyboardInterrupt:
                break
            options.record.write_text(json.dumps(record, indent=1))


class Sets:
    """Copies of x and of the result, more than L2 holds, in one allocation; the first x has random numbers."""

    def __init__(self, shape: tuple[int, int], dtype: DType, options: Options, gpu: GpuBackend):
        self._gpu = gpu
        made = [(shape, dtype), *((form.allocated, form.dtype) for form in forms(options, shape))]
        sizes = [round_up(max(prod(extents) * kind.nbytes, 1), 256) for extents, kind in made]
        self._apart = sum(sizes)
        self.count = 1 + ceil(2 * gpu.l2_bytes / self._apart)
        self._offsets = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        self._base = gpu.memory.allocate(self.count * self._apart)
        x = np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype.numpy_dtype)
        for number in range(self.count):
            gpu.memory.copy_in(self.addresses(number)[0], x.ctypes.data, x.nbytes)
        self.operands = Operands(self._operand(0, shape, dtype), None, self._outs(options, shape))

    def addresses(self, number: int) -> list[int]:
        """Of x and what quantize makes, in set `number`; 0 for what is not made."""
        places = [self._base + number * self._apart + offset for offset in self._offsets[:-1]]
        return places + [0] * (5 - len(places))

    def results(self) -> "np.ndarray[Any, Any]":
        """The bytes of the result in the first set."""
        found = np.empty(self._apart - self._offsets[1], np.uint8)
        self._gpu.memory.copy_out(found.ctypes.data, self._base + self._offsets[1], found.nbytes)
        return found

    def forget(self) -> None:
        """Fill the results of the first set with what no Config writes everywhere."""
        junk = np.full(self._apart - self._offsets[1], 0xA5, np.uint8)
        self._gpu.memory.copy_in(self._base + self._offsets[1], junk.ctypes.data, junk.nbytes)

    def free(self) -> None:
        """Give the memory back."""
        self._gpu.memory.free(self._base)

    def half_of(self, nbytes: int) -> int:
        """What the driver copies to read and write as many bytes; no more than half of a set."""
        return min(nbytes, self._apart) // 512 * 256

    def copy(self, number: int, half: int, stream: int) -> None:
        """The driver copies the first bytes of a set behind themselves: numbers of x become numbers of x."""
        source = self._base + number * self._apart
        checked(driver.cuMemcpyDtoDAsync(source + half, source, half, driver.CUstream(stream)), "cuMemcpyDtoDAsync")

    def _operand(self, place: int, shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...] = ()) -> Operand:
        address, steps = self.addresses(0)[place], strides or contiguous_strides(shape)
        return Operand(address, shape, steps, dtype, self._gpu.device, True, None)

    def _outs(self, options: Options, shape: tuple[int, int]) -> list[Operand]:
        outs = []
        for place, form in enumerate(forms(options, shape), 1):
            strides = () if form.view is None else (1, form.allocated[1])
            outs.append(self._operand(place, form.shape, form.dtype, strides))
        return outs


def configs(question: Quantization) -> list[QuantizeConfig]:
    """The usual Config, and those that bring fewer or more tiles to L2 ahead."""
    usual = config_of(question)
    aheads = (0, *(tiles_in(kilobytes << 10, question, usual) for kilobytes in (48, 96, 144)))
    return list(dict.fromkeys((usual, *(replace(usual, ahead=ahead) for ahead in aheads))))


def measured(
    shape: tuple[int, int], dtype: DType, options: Options, gpu: GpuBackend, *, only_usual: bool
) -> Iterator[list[Any]]:
    """The last four columns of a row for each Config, the driver's copy last."""
    sets = Sets(shape, dtype, options, gpu)
    question, exchanged = bind(sets.operands, options)
    codes = prod(shape) * (2 if options.transposed else 1)
    nbytes = prod(shape) * dtype.nbytes * (2 if question.maxima_count else 1) + codes
    works: dict[QuantizeConfig | None, Work] = {}
    expected: Any = None
    with ExitStack() as until:
        until.callback(sets.free)
        for config in configs(question)[: 1 if only_usual else None]:
            try:
                quantizer = Quantizer(question, exchanged, gpu, lambda: False, config)
            except TilewrightError as error:
                print(f"  left out: {config}: {str(error).splitlines()[0]}", file=sys.stderr)
                continue
            sets.forget()
            quantizer(sets.addresses(0), 0)
            found = sets.results()
            expected = found if expected is None else expected
            if not np.array_equal(found, expected):
                print(f"  left out: {config} makes other codes", file=sys.stderr)
                continue
            works[config] = replays(launcher(quantizer, sets), sets, until)
        half = sets.half_of(nbytes)
        works[None] = replays(lambda number, stream: sets.copy(number, half, stream), sets, until)
        times: dict[QuantizeConfig | None, list[float]] = {config: [] for config in works}
        for turn in range(ROUNDS):
            for key in list(works)[:: -1 if turn % 2 else 1]:
                times[key].append(works[key].run(1) / works[key].launches)
    copy_rate = 2 * half / median(times[None])
    for key, each in times.items():
        rate = copy_rate if key is None else nbytes / median(each)
        named = "driver's copy" if key is None else asdict(key)
        yield [named, round(median(each) * 1e6, 2), round(rate * 1e-12, 3), round(rate / copy_rate, 3)]


def launcher(quantizer: Quantizer, sets: Sets) -> Callable[[int, int], object]:
    """Calls on set after set."""
    return lambda number, stream: quantizer(sets.addresses(number), stream)


def replays(launch: Callable[[int, int], object], sets: Sets, until: ExitStack) -> Work:
    """Replays of a graph of launches that take the sets in turn."""
    turn = count()

    def next_set(stream: int) -> None:
        launch(next(turn) % sets.count, stream)

    with graph_work(next_set, sets.count) as once:
        once.run(1)
        rounds = max(1, ceil(GRAPH_SECONDS / max(once.run(1), 1e-7)))
    work = until.enter_context(graph_work(next_set, rounds * sets.count))
    work.run(1)
    return work


if __name__ == "__main__":
    main()
