"""Compare the times that `tilewright explain` predicts with measured ones, for the Configs that were measured.

A record is what `tilewright bench SUITE --output` or tools/sweep.py writes. Of a sweep, each product's Config counts
that the planner would take among those measured; sweeps are timed at clocks between burst and settled. The model's
constants were fitted to sweeps alone, and the suites judge them.

examples:
  python tools/explain_accuracy.py                       those in results/; writes results/explain_accuracy.json
  python tools/explain_accuracy.py llama.json            another record; writes nothing
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import Shape, of_runs, posed  # noqa: E402

from tilewright.errors import ArgumentValueError, TilewrightError  # noqa: E402
from tilewright.hardware import Hardware, recognize  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.model.prediction import Power  # noqa: E402
from tilewright.planner.copies import Copied, copied  # noqa: E402
from tilewright.problem import Problem  # noqa: E402

SUITES = (
    "proof", "wgmma_vs_cublas", "batch_invariant", "few_rows", "odd_suite", "odd_small", "batches",
    "chains", "low_precision",
)  # fmt: skip
"""Those of an H200."""
SWEEPS = ("sweep_h200", "sweep_layouts_h200")
RECORD = ROOT / "results" / "explain_accuracy.json"

NEAR = 0.10
"""The error that most launches should stay within."""
FAR, FAR_US = 0.25, 0.5
"""The error that all should: this share or so many us, whichever is more."""


class Launch(NamedTuple):
    """A measured launch and its prediction in us; power: burst, settled, or swept."""

    product: str
    kernel: str
    config: str
    power: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Of the prediction, over the measured time."""
        return self.predicted / self.measured - 1

    @property
    def is_far(self) -> bool:
        """Whether it is further off than any launch should be."""
        return abs(self.predicted - self.measured) > max(FAR * self.measured, FAR_US)

    def __str__(self) -> str:
        return f"{self.product} {self.power}: {self.predicted:.2f} us for {self.measured:.2f} ({self.error:+.1%})"


def main() -> None:
    """Compare, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", type=Path, metavar="RECORD", help="by default those in results/")
    options = parser.parse_args()
    paths = options.records or [ROOT / "results" / f"{name}.json" for name in (*SUITES, *SWEEPS)]
    try:
        found = {path.stem: load(path) for path in paths}
    except TilewrightError as error:
        parser.error(str(error))
    about = {name: summaries(launches) for name, launches in found.items()}
    for name, powers in about.items():
        for power, summary in powers.items():
            print(
                f"{name}, {power}: {summary['within_tenth']:.0%} of {summary['launches']} launches within {NEAR:.0%}, "
                f"{summary['far']} too far off, median {summary['median_error']:+.1%}, worst {summary['worst']}"
            )
    suites = [launch for name, launches in found.items() if name not in SWEEPS for launch in launches]
    if suites:
        near = sum(abs(launch.error) <= NEAR for launch in suites) / len(suites)
        print(f"suites: {near:.1%} of {len(suites)} launches within {NEAR:.0%}; too far off:")
        print("\n".join(f"  {launch}" for launch in suites if launch.is_far) or "  none")
    if not options.records:
        record = {
            "command": "python tools/explain_accuracy.py", "near": NEAR, "far": FAR, "far_us": FAR_US,
            "suites_within_tenth": near, "suites_far": [str(launch) for launch in suites if launch.is_far],
            "records": about,
        }  # fmt: skip
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def summaries(launches: Sequence[Launch]) -> dict[str, dict[str, Any]]:
    """What launches amount to, by power state."""
    return {
        power: _summary([launch for launch in launches if launch.power == power])
        for power in dict.fromkeys(launch.power for launch in launches)
    }


def _summary(launches: Sequence[Launch]) -> dict[str, Any]:
    errors = [launch.error for launch in launches]
    return {
        "launches": len(launches),
        "within_tenth": sum(abs(error) <= NEAR for error in errors) / len(errors),
        "far": sum(launch.is_far for launch in launches),
        "median_error": median(errors),
        "worst": str(max(launches, key=lambda launch: abs(launch.error))),
    }


def load(path: Path) -> list[Launch]:
    """The launches of a record; an ArgumentValueError if it is none, or of a GPU that hardware.py does not know."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        gpu = recognize(record["gpu"])
        read = _of_bench if "products" in record else _of_sweep
        launches = [] if gpu is None else list(read(record, gpu))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArgumentValueError(f"{path} is no record of measured Configs ({error!r}): see --help for two") from error
    if not launches:
        raise ArgumentValueError(f"{path} has no launch of a kernel with a Config on a known GPU: name another record")
    return launches


def _of_bench(record: dict[str, Any], gpu: Hardware) -> Iterator[Launch]:
    powers: tuple[Power, ...] = ("burst", "settled")
    for product in record["products"]:
        batch, layout = product.get("batch") or 1, product["layout"]
        problem = posed(Shape(product["m"], product["n"], product["k"], batch, layout, product["dtype"]))
        for entry in product["contenders"]:
            kernel = KERNELS.get(entry.get("kernel"))
            if kernel is None or not entry.get("config"):
                continue
            config = kernel.config_type(**entry["config"])
            for power in powers:
                if entry.get(power):
                    predicted = _predicted(kernel.name, config, problem, gpu, power)
                    name = f"{problem} {entry['contender']}"
                    yield Launch(name, kernel.name, str(config), power, entry[power]["time_us"], predicted)


def _of_sweep(record: dict[str, Any], gpu: Hardware) -> Iterator[Launch]:
    for shape, measured, _ in of_runs(record):
        problem = posed(shape)
        ranked = [_predicted("wgmma", config, problem, gpu, "recorded") for config, *_ in measured]
        config, us, _ = measured[ranked.index(min(ranked))]
        yield Launch(
            str(problem), "wgmma", str(config), "swept", us, _predicted("wgmma", config, problem, gpu, "settled")
        )


def _predicted(name: str, config: Any, problem: Problem, gpu: Hardware, power: Power) -> float:
    """The prediction in us, with that of copies."""
    kernel = KERNELS[name]
    taken = copied(problem, kernel, gpu)
    found = kernel.predict(config, taken.problem, gpu, power) if isinstance(taken, Copied) else None
    if not isinstance(taken, Copied) or found is None:
        raise ArgumentValueError(f"{name} does not take {problem}: the record is of another version of the kernels")
    return (found.seconds + taken.seconds(gpu)) * 1e6


if __name__ == "__main__":
    main()
