"""Every Config of the wgmma space against cuBLAS (through torch.matmul) in one process, written as JSON.

    python -m tilewright.bench.cublas --shape 8192,8192,8192 --json results/wgmma_vs_cublas.json

Needs torch and a Hopper GPU. All contenders read the same rotated random inputs, are verified before they are
timed, and are timed by the burst and settled protocols of tilewright.measure.
"""

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from tilewright.api import plan
from tilewright.bench import torch_on_gpu
from tilewright.jit.compile import nvrtc_version
from tilewright.kernels.registry import KERNELS
from tilewright.measure.protocol import Contender, burst, settled
from tilewright.measure.sensors import Sensors
from tilewright.measure.statistics import median_interval, paired_ratio
from tilewright.planner.plan import Plan

SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (4096, 28672, 8192))


class Inputs:
    """Random operands in layout nt, in as many copies as it takes to exceed twice the L2."""

    def __init__(self, torch: Any, m: int, n: int, k: int, dtype: Any, l2_bytes: int):
        copies = 1 + -(-2 * l2_bytes // (2 * (m * k + n * k + m * n)))

        def make(*shape: int) -> Any:
            return torch.randn(*shape, device="cuda", dtype=dtype)

        self.torch = torch
        self.sets = [(make(m, k), make(n, k).t(), make(m, n)) for _ in range(copies)]
        self.flops = 2.0 * m * n * k

    def verify(self, launch: Callable[..., Any]) -> float:
        """Largest relative error on 64 sampled rows in float64, of every set; NaN where something was not written."""
        worst = 0.0
        for a, b, out in self.sets:
            out.fill_(float("nan"))
            launch(a, b, out)
            rows = self.torch.randperm(a.shape[0], device="cuda")[:64]
            exact = a[rows].double() @ b.double()
            error = (out[rows].double() - exact).norm() / exact.norm()
            error = error + 0 * out.float().sum()  # a NaN anywhere must show
            worst = max(worst, float(error)) if error == error else float("nan")
        return worst

    def contender(self, launch: Callable[..., Any]) -> Contender:
        """Time launches on torch's current stream, walking round the sets."""
        turn = count()
        start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))

        def run(launches: int) -> float:
            start.record()
            for _ in range(launches):
                launch(*self.sets[next(turn) % len(self.sets)])
            stop.record()
            stop.synchronize()
            return float(start.elapsed_time(stop)) / 1e3

        return run


def wgmma_plans(inputs: Inputs, only: str | None) -> Iterator[tuple[str, Plan]]:
    """A plan for every Config that the wgmma kernel proposes for these inputs."""
    a, b, out = inputs.sets[0]
    first = plan(a, b, out=out, kernel="wgmma")
    for config in KERNELS["wgmma"].configs(first.problem, first.backend.hardware):
        name = ",".join(f"{key}={value}" for key, value in asdict(config).items())
        if only is None or only in name:
            yield name, plan(a, b, out=out, config=config)


def compare(shape: tuple[int, int, int], arguments: argparse.Namespace) -> dict[str, Any]:
    """Sweep the Configs, then measure the best of them against cuBLAS; the record of one shape."""
    import torch

    inputs = Inputs(torch, *shape, torch.bfloat16, torch.cuda.get_device_properties(0).L2_cache_size)

    def cublas(a: Any, b: Any, out: Any) -> None:
        torch.matmul(a, b, out=out)

    launches: dict[str, Callable[..., Any]] = {"cublas": cublas}
    errors = {"cublas": inputs.verify(cublas)}
    for name, chosen in wgmma_plans(inputs, arguments.only):

        def launch(a: Any, b: Any, out: Any, chosen: Plan = chosen) -> None:
            chosen(a, b, out=out)

        errors[name] = inputs.verify(launch)
        if errors[name] < 5e-3:
            launches[name] = launch
        else:
            print(f"WRONG: {name} has relative error {errors[name]:.2e}", file=sys.stderr)
    contenders = {name: inputs.contender(launch) for name, launch in launches.items()}
    sweep = settled(contenders, cycles=arguments.sweep_cycles, slice_seconds=arguments.sweep_slice)
    ranked = sorted((name for name in contenders if name != "cublas"), key=lambda name: median(sweep[name]))
    record: dict[str, Any] = {
        "m": shape[0], "n": shape[1], "k": shape[2], "dtype": "bf16", "layout": "nt", "data": "randn",
        "relative_errors": errors,
        "sweep": {name: paired_ratio(sweep[name], sweep["cublas"]).as_dict() for name in ranked},
        "measured": {},
    }  # fmt: skip
    # cuBLAS once per contender: each ratio compares neighbours in time.
    for name in ranked[: arguments.finalists]:
        pair = {"ours": contenders[name], "cublas": contenders["cublas"]}
        with Sensors() as sensors:
            cold = burst(pair, rounds=arguments.rounds)
            sensors.reading()
            warm = settled(pair, cycles=arguments.cycles, slice_seconds=arguments.slice)
            reading = sensors.reading()
        record["measured"][name] = {
            protocol: {
                "ratio_to_cublas": paired_ratio(samples["ours"], samples["cublas"]).as_dict(),
                "tflops": {who: inputs.flops / median_interval(times).median / 1e12 for who, times in samples.items()},
            }
            for protocol, samples in (("burst", cold), ("settled", warm))
        }
        record["measured"][name]["board"] = asdict(reading) if reading else None
    return record


def main() -> None:
    """Compare on each shape, print a table and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", help="M,N,K; may be repeated")
    parser.add_argument("--only", help="only Configs whose description contains this text")
    parser.add_argument("--finalists", type=int, default=2, help="Configs measured in full after the sweep")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the burst protocol")
    parser.add_argument("--cycles", type=int, default=9, help="cycles of the settled protocol")
    parser.add_argument("--slice", type=float, default=0.6, help="seconds of a settled slice")
    parser.add_argument("--sweep-cycles", type=int, default=2)
    parser.add_argument("--sweep-slice", type=float, default=0.2)
    parser.add_argument("--json", type=Path, help="where to write the record")
    arguments = parser.parse_args()
    torch = torch_on_gpu()
    shapes = [tuple(map(int, text.split(","))) for text in arguments.shape or ()] or SHAPES
    record: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(0),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": "python -m tilewright.bench.cublas " + " ".join(sys.argv[1:]),
        "versions": {"torch": torch.__version__, "cuda": torch.version.cuda, "nvrtc": nvrtc_version()},
        "shapes": [],
    }
    for shape in shapes:
        result = compare(shape, arguments)  # type: ignore[arg-type]
        record["shapes"].append(result)
        print(f"\n{'x'.join(map(str, shape))}: sweep (settled, ratio to cuBLAS)")
        for name, ratio in result["sweep"].items():
            print(f"  {ratio['median']:.3f}  {name}")
        for name, measured in result["measured"].items():
            print(f"  {name}")
            for protocol in ("burst", "settled"):
                ratio, rates = measured[protocol]["ratio_to_cublas"], measured[protocol]["tflops"]
                print(
                    f"    {protocol:8} {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]  "
                    f"{rates['ours']:.0f} against {rates['cublas']:.0f} TFLOP/s"
                )
            print(f"    {measured['board']}")
        if arguments.json:
            arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
