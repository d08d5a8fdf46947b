"""The ladder under Nsight Compute: what the hardware counts of one launch of each rung."""

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import message_of
from tilewright.kernels.ladder import LADDER
from tilewright.ladder.profile import METRICS, Profile
from tilewright.ladder.result import RungResult
from tilewright.measure.ncu import find_ncu, profile

if TYPE_CHECKING:
    from tilewright.bench.inputs import Inputs


def profile_all(results: Sequence[RungResult], seed: int, progress: Callable[[float], None]) -> bool:
    """Verify every rung that is not skipped, and profile one launch of it; returns whether Ctrl-C ended it early.

    Another process launches them, since ncu counts what a process does. Raises UnavailableError if ncu is missing, or
    may not count.
    """
    ncu = find_ncu()
    running = [each for each in results if not each.skipped]
    if not running:
        return False
    with tempfile.TemporaryDirectory() as folder:
        wanted, done = Path(folder, "wanted.json"), Path(folder, "done.json")
        wanted.write_text(json.dumps({"seed": seed, "rungs": [_request(each) for each in running]}), encoding="utf-8")
        command = [sys.executable, "-m", "tilewright.ladder.profiled", str(wanted), str(done)]
        try:
            launches = iter(profile(ncu, command, METRICS))
        except KeyboardInterrupt:
            return True
        answers = json.loads(done.read_text(encoding="utf-8"))
    for each in running[len(answers) :]:
        each.skipped = "the process that launches the rungs ended before it"
    for each, answer in zip(running, answers, strict=False):
        each.skipped, each.verified, each.relative_error = answer["skipped"], answer["verified"], answer["error"]
        if answer["launched"]:
            each.profile = Profile.of(next(launches))
    progress(1.0)
    return False


def _request(result: RungResult) -> dict[str, Any]:
    shape = {"m": result.m, "n": result.n, "k": result.k, "dtype": result.dtype.name, "layout": result.rung.layout}
    return {"name": result.rung.name, "data": result.rung.data, "shape": shape, "config": asdict(result.config)}


def launch_all(wanted: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """What becomes of each rung; its inputs are those of the rung before, if they have the same shape and data."""
    from tilewright.bench import Absent, Inputs, Shape

    inputs: Inputs | None = None
    before: Any = None
    for request in wanted["rungs"]:
        answer: dict[str, Any] = {"launched": False, "verified": None, "error": None, "skipped": ""}
        try:
            if before != (request["shape"], request["data"]):
                inputs = None  # freed before others are made
                inputs = Inputs(Shape(**request["shape"]), data=request["data"], seed=wanted["seed"])
                before = request["shape"], request["data"]
            assert inputs is not None
            launch(request, inputs, answer)
        except Exception as error:  # any failure: the other rungs are still profiled
            answer["skipped"] = message_of(error) or f"{type(error).__name__}: {error}"
            answer["verified"] = None if isinstance(error, Absent) else False
            if inputs is None:
                before = None
        yield answer


def launch(request: dict[str, Any], inputs: "Inputs", answer: dict[str, Any]) -> None:
    """Launch a rung with all sets of inputs for the verdict, then with the first while the profiler counts."""
    from tilewright.bench import Tilewright

    torch, config_type = inputs.torch, LADDER[request["name"]].kernel.config_type
    with inputs.current():
        prepared = Tilewright(request["name"], config_type(**request["config"])).prepare(inputs)
        work = inputs.work(prepared.launch)
        verdict = inputs.verify(lambda: work.run(len(inputs.sets)), prepared.accumulator)
        answer["verified"] = verdict.verified
        answer["error"] = verdict.relative_error if isfinite(verdict.relative_error) else None
        torch.cuda.profiler.start()
        prepared.launch(0)
        torch.cuda.synchronize(inputs.device)
        torch.cuda.profiler.stop()
        answer["launched"] = True


def main() -> None:
    """Launch the rungs that a file asks for, and write what became of them into another."""
    wanted, done = map(Path, sys.argv[1:])
    answers = []
    for answer in launch_all(json.loads(wanted.read_text(encoding="utf-8"))):
        answers.append(answer)
        done.write_text(json.dumps(answers), encoding="utf-8")  # each time, as a launch may end the process


if __name__ == "__main__":
    main()
