"""Compare the times that model/cost.py predicts with measured ones, and fit its Costs to them.

A record is one like results/calibration_h200.json or ping_pong_h200.json, what tools/sweep.py writes, or what
`tilewright bench --configs all --protocol burst` writes. The model picks one of the Configs that were measured of a
product, and its rate is compared with the best one's. With two times of each launch, `us` and `again`, the best is the
one of the least `us`, and the rates are those of `again`: else luck makes the best look better than it is.

examples:
  python tools/calibrate.py                               how good the Costs are, on the record that they were fitted to
  python tools/calibrate.py results/sweep_h200.json       and on random products, batches among them
  python tools/calibrate.py record.json --fit 300         look for better ones for another record, for five minutes
  python tools/calibrate.py results/sweep_h200.json --fit-times 300    the same for the times that people see
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tilewright.checking.product import Product  # noqa: E402
from tilewright.errors import ArgumentValueError, TilewrightError  # noqa: E402
from tilewright.expression.grammar import parse  # noqa: E402
from tilewright.hardware import Hardware, recognize  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.kernels.wgmma.config import WgmmaConfig  # noqa: E402
from tilewright.kernels.wgmma.operands import finish, operands_of, promotion, row_bytes, scattered  # noqa: E402
from tilewright.kernels.wgmma.space import tiles_of  # noqa: E402
from tilewright.measure.elements import Elements  # noqa: E402
from tilewright.model.cost import COSTS, Costs, fixed, found_of, prepare  # noqa: E402
from tilewright.model.prediction import TIMES  # noqa: E402
from tilewright.model.tiling.tiles import Array, Tiles  # noqa: E402
from tilewright.operand import contiguous_strides  # noqa: E402
from tilewright.planner.copies import Copied, copied  # noqa: E402
from tilewright.problem import OperandForm, Problem, cuts_k  # noqa: E402

RECORD = ROOT / "results" / "calibration_h200.json"

TEMPERATURE = 0.03
"""Of the softmax over logarithms of predicted times: Configs within 3% of the best may be picked."""
ERROR_WEIGHT = 0.25
"""Of the rms error of times in the loss; with much less, a fit spreads times apart only to make the softmax sharper."""

GOOD, MOST_ERROR = 1.25, 0.5
"""Times a product's least time, up to which a Config is good; and the largest error, in logarithms, that counts."""
WHOLE_BOXES = "2026-11-29T20"
"""When records began whose tiles of, say, 200 columns are stored by TMA as one box, not as 13 of 16 columns."""
HELD = ("clock", "multiply")
"""What is a fact of the GPU, as far as times go."""


class Launch(NamedTuple):
    """A Config with its time in us, and with that of other launches; the same where a record has no others."""

    config: WgmmaConfig
    us: float
    again: float


class Shape(NamedTuple):
    """A product, or a batch of them, with its layout and the text of its Elements; fused: its epilogue."""

    m: int
    n: int
    k: int
    batch: int = 1
    layout: str = "nt"
    elements: str = "bf16"
    fused: str = ""

    def __str__(self) -> str:
        text = f"{self.layout} {self.m}x{self.n}x{self.k}"
        text += "" if self.elements == "bf16" else f" {self.elements}"
        text += f" {self.fused}" if self.fused else ""
        return text if self.batch == 1 else f"{self.batch} of {text}"


class Measured(NamedTuple):
    """The Configs of one product that one run measured, with their times and cuBLAS's in us, NaN if not measured.

    solved: the problem with copies of operands, if it takes them. again: as in Launch. stored: which Configs store out
    in a way that those of the space have today.
    """

    hardware: Hardware
    shape: Shape
    solved: Problem
    tiles: Tiles
    us: Array
    again: Array
    cublas: float
    stored: NDArray[np.bool_]

    def is_as_today(self, record: str) -> bool:
        """Whether it was measured as the kernel is today: with scales of blocks, only in records of this name."""
        return record.startswith("sweep_blocks_near") or not cuts_k(self.solved.recipe)

    def share(self, costs: Costs) -> float:
        """The rate of the Config that the model picks over the best one's, more than 1 if other launches say so."""
        return float(self.again[self.us.argmin()] / self.again[predict(self, costs).argmin()])

    def share_today(self, ranked: Array) -> float:
        """The same of the Config that has the least of these times, among those that store out as they do today."""
        best, picked = (np.where(self.stored, times, np.inf).argmin() for times in (self.us, ranked))
        return float(self.again[best] / self.again[picked])


class Share(NamedTuple):
    """Rates of picked Configs over other rates: the geometric mean, the least, and the product that has it."""

    mean: float
    least: float
    shape: Shape

    def __str__(self) -> str:
        return f"{self.mean:.4f}, at least {self.least:.3f} (at {self.shape})"


class Quality(NamedTuple):
    """How good the model is: what it picks against the best Config and against cuBLAS, and its times' median error."""

    of_best: Share
    of_cublas: Share
    error: float

    def __str__(self) -> str:
        shares = {"of best": self.of_best, "of cuBLAS": self.of_cublas}
        lines = [f"picked, {name}: {share}" for name, share in shares.items() if isfinite(share.mean)]
        return "\n".join([*lines, f"median error: {self.error:.1%}"])


def main() -> None:
    """Evaluate the model; with --fit, look for better Costs and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", type=Path, default=[RECORD], help=f"by default results/{RECORD.name}")
    parser.add_argument("--fit", type=float, metavar="SECONDS", help="search; Ctrl-C ends it and keeps the best")
    parser.add_argument("--fit-times", type=float, metavar="SECONDS", help="the same for TIMES of model/prediction.py")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default: 0)")
    options = parser.parse_args()
    try:
        measured = [each for path in options.records for each in load(path)]
    except TilewrightError as error:
        parser.error(str(error))
    print(f"{sum(each.us.size for each in measured)} launches of {len(measured)} products")
    print(evaluate(measured, COSTS))
    if options.fit is not None:
        costs = _fit_for(options.fit, fit(measured, COSTS, options.seed))
        print(f"\n{evaluate(measured, costs)}\n\nCosts({_constants(costs)})")
    if options.fit_times is not None:
        costs = _fit_for(options.fit_times, fit(measured, TIMES, options.seed, time_loss, HELD))
        print(f"\nerror of good Configs: {time_loss(measured, costs):.1%}\n\nCosts({_constants(costs)})")


def _constants(costs: Costs) -> str:
    return ", ".join(f"{name}={value:.4g}" for name, value in costs._asdict().items())


def load(path: Path) -> list[Measured]:
    """The products of a record; an ArgumentValueError if it is none, or of a GPU that hardware.py does not know."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        read = _of_bench if "products" in record else of_runs
        launches = list(read(record))
        hardware = recognize(record["gpu"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArgumentValueError(f"{path} is no record of measured Configs ({error!r}): see --help for two") from error
    if hardware is None or hardware.arch != "sm_90a" or not launches:
        about = f"{len(launches)} products with Configs of wgmma, on {record['gpu']}"
        raise ArgumentValueError(f"{path} has {about}: measure with bench --configs all on a Hopper GPU of hardware.py")
    return [measured_of(hardware, *each, date=record.get("date", "")) for each in launches]


def of_runs(record: dict[str, Any]) -> Iterator[tuple[Shape, list[Launch], float]]:
    """The products of a record whose columns are a Shape's and a Launch's: their launches, and cuBLAS's time or NaN."""
    names = record["columns"]["launches"]
    of_shape = [name for name in names if name in Shape._fields]
    for run in record.get("runs", [record]):
        products: dict[Shape, list[Launch]] = {}
        for row in run["launches"]:
            values = dict(zip(names, row, strict=True))
            us = values.pop("us")
            again = values.pop("again", us)
            shape = Shape(**{name: values.pop(name) for name in of_shape})
            products.setdefault(shape, []).append(Launch(WgmmaConfig(**values), us, again))
        library = {Shape(*fields): us for *fields, us in run.get("cublas", ())}
        for shape, launches in products.items():
            yield shape, launches, library.get(shape, nan)


def _of_bench(record: dict[str, Any]) -> Iterator[tuple[Shape, list[Launch], float]]:
    for product in record["products"]:
        timed = [(entry, entry["burst"]["time_us"]) for entry in product["contenders"] if entry.get("burst")]
        launches = [
            Launch(WgmmaConfig(**entry["config"]), us, us) for entry, us in timed if entry.get("kernel") == "wgmma"
        ]
        cublas = [us for entry, us in timed if entry["contender"] == "cublas"]
        if launches:
            shape = Shape(product["m"], product["n"], product["k"], 1, product["layout"], product["dtype"])
            yield shape, launches, next(iter(cublas), nan)


def _is_stored_as_today(config: WgmmaConfig, date: str) -> bool:
    """Whether boxes of out, if there are any, are not of 16 columns, as before WHOLE_BOXES, nor of 32, nor at the cost
    of a third stage.
    """
    if config.epilogue == "direct" or config.swap_ab or config.tile_n % 64 == 0 or config.tile_n == 224:
        return True
    return config.tile_n % 32 > 0 and config.stages > 2 and date >= WHOLE_BOXES


def measured_of(
    hardware: Hardware, shape: Shape, launches: list[Launch], cublas: float = nan, date: str = ""
) -> Measured:
    """The launches of one product, as the model sees them; date: of the record, if it has one."""
    taken = copied(posed(shape), KERNELS["wgmma"], hardware)
    assert isinstance(taken, Copied)
    problem = taken.problem
    configs, us, again = zip(*launches, strict=True)
    tiles = tiles_of(
        configs,
        hardware,
        operands_of(problem).mn_major,
        scattered(problem),
        promotion(problem),
        finish(problem),
        problem.out.dtype.nbytes,
    )
    stored = [_is_stored_as_today(config, date) for config in configs]
    return Measured(hardware, shape, problem, tiles, np.array(us), np.array(again), cublas, np.array(stored))


def posed(shape: Shape) -> Problem:
    """The product, of packed operands and an out whose rows are contiguous; its epilogue may read a bias."""
    a, b, out, recipe, fast = Elements.parse(shape.elements)
    bias = [OperandForm("bias", False, True)] if "bias" in shape.fused else []
    problem = Product(
        shape.m,
        shape.n,
        shape.k,
        a,
        out,
        shape.layout,
        expression=parse(shape.fused, [form.name for form in bias]) if shape.fused else None,
        forms=tuple(bias),
        b_dtype=b,
        recipe=recipe,
        fast_accumulation=fast,
    ).problem
    if shape.batch == 1:
        return problem
    stored = {
        name: getattr(problem, name)._replace(batch_strides=contiguous_strides((shape.batch, rows * columns))[:-1])
        for name, (rows, columns) in ((name, problem.extents(name)) for name in ("a", "b", "out"))
    }
    return problem._replace(batch=(shape.batch,)).with_operands(stored)


def predict(measured: Measured, costs: Costs) -> Array:
    """The time of each Config in us."""
    solved = measured.solved
    prepared = prepare(measured.tiles, "wgmma", solved.a.dtype, measured.hardware, costs)
    return found_of(fixed(prepared, solved.n, solved.k, solved.batch_count, row_bytes(solved)), solved.m).us


def evaluate(measured: list[Measured], costs: Costs) -> Quality:
    """The Quality of the model with `costs`."""
    rates, errors = [], []
    for each in measured:
        predicted = predict(each, costs)
        rates.append((each.share(costs), each.cublas / each.us[predicted.argmin()]))
        errors.append(np.abs(predicted / each.us - 1))
    best, cublas = np.array(rates).T
    return Quality(_share(best, measured), _share(cublas, measured), float(np.median(np.concatenate(errors))))


def _share(rates: Array, measured: list[Measured]) -> Share:
    return Share(float(np.exp(np.log(rates).mean())), float(rates.min()), measured[int(rates.argmin())].shape)


def loss(measured: list[Measured], costs: Costs) -> float:
    """The mean log of measured over best time, by the softmax of predicted times, and a little of the rms error."""
    regrets, squares = [], []
    for each in measured:
        log, us = np.log(predict(each, costs)), np.log(each.us)
        weights = np.exp((log.min() - log) / TEMPERATURE)
        regrets.append(weights @ (us - us.min()) / weights.sum())
        squares.append(np.square(log - us))
    return float(np.mean(regrets) + ERROR_WEIGHT * np.sqrt(np.mean(np.concatenate(squares))))


def time_loss(measured: list[Measured], costs: Costs) -> float:
    """The mean log of predicted over measured times, of the Configs that are good for their products."""
    errors = []
    for each in measured:
        good = each.us <= GOOD * each.us.min()
        off = np.abs(np.log(predict(each, costs)[good] / each.us[good]))
        errors.append(np.minimum(off, MOST_ERROR).mean())
    return float(np.mean(errors))


Loss = Callable[[list[Measured], Costs], float]


def fit(
    measured: list[Measured], start: Costs, seed: int, loss: Loss = loss, held: Sequence[str] = ()
) -> Iterator[tuple[float, Costs]]:
    """The best loss and Costs after each step, without end: a step changes a few constants by random factors.

    held: the constants that stay. Zeros and infinities stay, too.
    """
    random = np.random.default_rng(seed)
    free = np.array([name not in held for name in Costs._fields])
    with np.errstate(divide="ignore"):
        best, costs, width = loss(measured, start), np.log(start), 0.1
    while True:
        chosen = free & (random.permutation(len(costs)) < random.integers(1, 4))
        tried = costs + chosen * random.normal(0, width, len(costs))
        if (found := loss(measured, Costs(*np.exp(tried).tolist()))) < best:
            best, costs, width = found, tried, min(0.5, width * 1.5)
        else:
            width = max(0.005, width * 0.97)
        yield best, Costs(*np.exp(costs).tolist())


def _fit_for(seconds: float, steps: Iterator[tuple[float, Costs]]) -> Costs:
    """What a fit finds in so many seconds, or until Ctrl-C."""
    costs, start = COSTS, time.monotonic()
    try:
        for step, (least, costs) in enumerate(steps, 1):  # noqa: B007
            elapsed = time.monotonic() - start
            if step % 20 == 0:
                print(f"{elapsed:.0f} of {seconds:g} s, step {step}, loss {least:.5f}", end="\r", file=sys.stderr)
            if elapsed >= seconds:
                break
    except KeyboardInterrupt:
        print("\nStopped: what follows is the best so far.", file=sys.stderr)
    return costs


if __name__ == "__main__":
    main()
