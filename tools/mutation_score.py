"""Run every mutant of every kernel in the emulator; write the number of reports to results/mutation_score.json.

python tools/mutation_score.py [--processes N] [--only SUBJECT] [--new] [--list]

Ctrl-C stops within one mutant per process and leaves the results unchanged.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.equivalents import argument_for  # noqa: E402
from support.mutants import Mutant  # noqa: E402
from support.mutation import RECORD, SUBJECTS, Subject, finding, on_record  # noqa: E402
from tilewright.jit.compile import nvrtc_version  # noqa: E402

Name: TypeAlias = tuple[str, str]
"""The name of a subject, and that of a mutant."""
Found: TypeAlias = dict[Name, str | None]
"""What was found about each; None for nothing."""
Runs: TypeAlias = dict[str, dict[str, str]]
"""When subjects were run, and the digest of the PTX, by name."""
Row: TypeAlias = tuple[Subject, Mutant, str | None, str | None]
"""A mutant, what was found, and the argument that it is equivalent."""

LONGEST = 300
"""Seconds after which a mutant counts as reported, because it never ends; all others take a few."""

CRASH = "crash"
"""Prefix of a finding that is a bug of the emulator itself; such a mutant does not count as reported."""


def main() -> None:
    """Run and show the mutants; write the record if none was left out."""
    options = _options()
    subjects = [subject for subject in SUBJECTS if options.only in subject.name]
    if options.list:
        _list(subjects)
        return
    found, runs = _kept(subjects) if options.new else ({}, {})
    jobs = [(subject.name, mutant.name) for subject in subjects for mutant in subject.mutants()]
    found |= _run([job for job in jobs if job not in found], options.processes)
    record = _record(subjects, found, runs)
    _show(record)
    if subjects == list(SUBJECTS):
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many mutants run at a time")
    parser.add_argument("--only", default="", metavar="TEXT", help="subjects whose name has it; nothing is written")
    parser.add_argument("--new", action="store_true", help="keep what the record has of subjects that are as they were")
    parser.add_argument("--list", action="store_true", help="say which mutants there are, and run none")
    return parser.parse_args()


def _kept(subjects: list[Subject]) -> tuple[Found, Runs]:
    """What the record has of subjects whose Config, product, PTX and mutants are the same, and their runs.

    Older runs lack the digest of their PTX.
    """
    found: Found = {}
    runs: Runs = {}
    record = json.loads(RECORD.read_text())
    for subject in subjects if record["nvrtc"] == str(nvrtc_version()) else ():
        details, mutants = on_record(subject)
        ptx = _digest(subject)
        same = details.items() >= _identity(subject).items() and details.get("ptx", ptx) == ptx
        if same and mutants.keys() == {mutant.name for mutant in subject.mutants()}:
            found |= {(subject.name, name): how for name, how in mutants.items()}
            runs[subject.name] = {key: details[key] for key in ("date", "ptx") if key in details}
    return found, runs


def _identity(subject: Subject) -> dict[str, str]:
    """What a subject is, as the record has it."""
    return {"config": str(subject.config), "product": subject.described}


def _digest(subject: Subject) -> str:
    """SHA-256 of the PTX whose mutants run."""
    return hashlib.sha256(subject.plain.encode()).hexdigest()


def _run(jobs: list[Name], processes: int) -> Found:
    """The finding about each (subject, mutant), by names."""
    found: Found = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_start)
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("mutants", total=len(jobs))
            futures = {pool.submit(find, *job): job for job in jobs}
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                progress.advance(task)
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        sys.exit(f"Stopped after {len(found)} of {len(jobs)} mutants; {RECORD.name} is as it was.")
    pool.shutdown()
    return found


def _start() -> None:
    """Ignore Ctrl-C in each worker; the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def find(subject_name: str, mutant_name: str) -> str | None:
    """The finding about one mutant; bugs of the emulator itself are marked."""
    subject = next(subject for subject in SUBJECTS if subject.name == subject_name)
    mutant = next(mutant for mutant in subject.mutants() if mutant.name == mutant_name)

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError

    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(LONGEST)
    try:
        return finding(subject, mutant.apply(subject.plain))
    except TimeoutError:
        return f"not ended within {LONGEST} s"
    except Exception as error:
        return f"{CRASH}: {type(error).__name__}: {error}"
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.alarm(0)


def _record(subjects: list[Subject], found: Found, runs: Runs) -> dict[str, Any]:
    """The record: numbers by kernel and by kind, and for each subject how each mutant was reported.

    runs: those of subjects that have not been run now.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [
        (subject, mutant, found[subject.name, mutant.name], argument_for(subject, mutant))
        for subject in subjects
        for mutant in subject.mutants()
    ]
    kernels = list(dict.fromkeys(subject.kernel for subject in subjects))
    kinds = sorted({mutant.kind for _, mutant, _, _ in rows})
    return {
        "command": "python tools/mutation_score.py",
        "nvrtc": str(nvrtc_version()),
        "date": now,
        "total": _numbers(rows),
        "kernels": {kernel: _numbers([row for row in rows if row[0].kernel == kernel]) for kernel in kernels},
        "kinds": {kind: _numbers([row for row in rows if row[1].kind == kind]) for kind in kinds},
        "subjects": {
            subject.name: {
                **runs.get(subject.name, {"date": now, "ptx": _digest(subject)}),
                **_identity(subject),
                **_details([row for row in rows if row[0] is subject]),
            }
            for subject in subjects
        },
    }


def _numbers(rows: list[Row]) -> dict[str, Any]:
    """Mutants generated, reported, and left out as equivalent; the score is the reported share of the others."""
    reported = sum(is_reported(how) for _, _, how, _ in rows)
    equivalent = sum(not is_reported(how) and argument is not None for _, _, how, argument in rows)
    counted = len(rows) - equivalent
    score = round(reported / counted, 4) if counted else None
    return {"generated": len(rows), "reported": reported, "equivalent": equivalent, "score": score}


def _details(rows: list[Row]) -> dict[str, Any]:
    survivors = [
        {
            "mutant": mutant.name,
            "original": mutant.original,
            "replacement": mutant.replacement,
            "place": mutant.place,
            "argument": argument,
            **({"found": how} if how else {}),
        }
        for _, mutant, how, argument in rows
        if not is_reported(how)
    ]
    return {
        **_numbers(rows),
        "survivors": survivors,
        "reported_as": {mutant.name: how for _, mutant, how, _ in rows if is_reported(how)},
    }


def is_reported(how: str | None) -> bool:
    """Whether a finding is a report about the kernel."""
    return how is not None and not how.startswith(CRASH)


def _show(record: dict[str, Any]) -> None:
    for title in ("kinds", "kernels"):
        for name, row in record[title].items():
            print(f"{row['reported']:4} of {row['generated']:4}, {row['equivalent']:2} equivalent  {name}")
    for name, row in record["subjects"].items():
        for survivor in row["survivors"]:
            what = "survivor" if survivor["argument"] is None else "equivalent"
            print(f"{what} in {name}: {survivor['mutant']} [{survivor['original']}] {survivor.get('found', '')}")
    print(f"total: {record['total']}")


def _list(subjects: list[Subject]) -> None:
    every = [(subject, mutant) for subject in subjects for mutant in subject.mutants()]
    for subject, mutant in every:
        print(f"{subject.name}: {mutant.name}", mutant.place, sep="\n  ")
        print(f"  {mutant.original} -> {mutant.replacement or 'nothing'}")
    for kind, count in sorted(Counter(mutant.kind for _, mutant in every).items()):
        print(f"{count:4} {kind}")


if __name__ == "__main__":
    main()
