"""The record of how the emulator compares with hardware."""

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from support.gpu_process import GpuFailure
from support.launches import emulate
from tilewright.emulator import UnsupportedInstruction

EQUAL = "equal"
EXPLAINED = "explained"

_EMULATOR = Path(__file__).parents[2] / "src" / "tilewright" / "emulator"


def emulator_digest():
    """A digest of the emulator's sources, for which alone a record holds."""
    sources = (path.relative_to(_EMULATOR).as_posix() + path.read_text() for path in sorted(_EMULATOR.rglob("*.py")))
    return sha256("".join(sources).encode()).hexdigest()


def compared(case, emulated, hardware, explain, run):
    """The outcome of a case, and sentences about its differences.

    explain: takes both results, and gives the reason why they may differ, if there is one; or None.
    """
    differences = case.differences(emulated, hardware, run)
    if not differences:
        return EQUAL, []
    reason = explain and explain(emulated, hardware)
    return (EXPLAINED, [reason, *differences]) if reason else ("different", differences)


def outcome_on(gpu, case, explain=None):
    """The outcome of a case on both machines, as `compared` has it.

    gpu: a GpuProcess. Failures of either machine are outcomes too.
    """
    launch = case.launch()
    try:
        gpu.submit(launch)
        emulated, refusal = _emulated(launch)
        hardware = gpu.result()
    except GpuFailure as error:
        return "failed on the GPU", [str(error)[:300]]
    if emulated is None:
        return refusal
    return compared(case, emulated, hardware, explain, lambda other: emulate(other, checks=False))


def _emulated(launch):
    """The buffers after the launch and None, or None and the outcome that is to be recorded."""
    try:
        return emulate(launch, checks=False), None
    except UnsupportedInstruction as error:
        return None, ("not emulated", [str(error)[:300]])
    except Exception as error:  # whatever it is, the launch on the GPU goes on and the others are still to come
        return None, ("failed in the emulator", [f"{type(error).__name__}: {error}"[:300]])


_SHOWN = 6
_EXAMPLES = 10
"""Of each form that differs."""


class Proof:
    """Outcomes by part: how many forms were tried, how many were equal, and all that were not, with examples."""

    def __init__(self):
        self._outcomes = defaultdict(Counter)
        self._differing = defaultdict(list)
        self._extra = {}

    def add(self, part, name, outcome, examples=()):
        """Note one form: its outcome is `EQUAL` or says what happened instead."""
        self._outcomes[part][outcome] += 1
        if outcome != EQUAL:
            self._differing[part].append({"form": name, "outcome": outcome, "examples": list(examples)[:_EXAMPLES]})

    def attach(self, part, **extra):
        """Keep further data of a part, such as a table."""
        self._outcomes[part] += Counter()
        self._extra[part] = extra

    def tabulate(self, name, hardware, counted, compared):
        """Add a line to the table of the counters: both machines' numbers of one kernel, and which were compared."""
        keys = (
            "global_requests", "global_sectors", "shared_requests", "shared_wavefronts", "shared_conflicts",
            "tma_loaded_bytes", "tma_read_bytes", "tma_stored_bytes",
        )  # fmt: skip
        emulator = {key: counted[key] for key in keys if key in counted}
        self._extra["counters"]["table"].append(
            {"kernel": name, "compared": compared, "ncu": hardware, "emulator": emulator}
        )

    def parts(self):
        """All of it as plain data, which `merge` takes."""
        return {
            part: [dict(outcomes), self._differing[part], self._extra.get(part, {})]
            for part, outcomes in self._outcomes.items()
        }

    def merge(self, parts):
        """Add what another process has noted."""
        for part, (outcomes, differing, extra) in parts.items():
            self._outcomes[part].update(outcomes)
            self._differing[part] += differing
            if extra:
                self._extra[part] = {**self._extra.get(part, {}), **extra}

    def as_dict(self):
        """By part: tried, equal, other outcomes, and those that are not equal."""
        return {
            part: {
                "tried": outcomes.total(),
                "equal": outcomes[EQUAL],
                "outcomes": dict(outcomes),
                **self._extra.get(part, {}),
                "differing": sorted(self._differing[part], key=lambda each: each["form"]),
            }
            for part, outcomes in sorted(self._outcomes.items())
        }

    def write(self, path, **about):
        """Write the record, below what it is about and when it was made.

        Parts that were not compared now stay from an earlier record, if it is about the same, the emulator included.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        about["emulator_digest"] = emulator_digest()
        earlier = json.loads(path.read_text()) if path.exists() else {}
        same = all(earlier.get(key) == value for key, value in about.items())
        parts = {**(earlier.get("parts", {}) if same else {}), **self.as_dict()}
        content = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            **about,
            "parts": dict(sorted(parts.items())),
        }
        path.write_text(json.dumps(content, indent=1) + "\n")

    def summary(self):
        """A line for each of the first that differ, and at the end one for each part."""
        for part, differing in self._differing.items():
            for entry in differing[:_SHOWN]:
                yield f"  {part}: {entry['form'][:90]}: {'; '.join(entry['examples'])[:120]}"
            if len(differing) > _SHOWN:
                yield f"  {part}: and {len(differing) - _SHOWN} more"
        for part, outcomes in self._outcomes.items():
            others = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items() if outcome != EQUAL)
            note = self._extra.get(part, {}).get("ncu", "")[-200:] if not outcomes else ""
            totals = f"{part:14} {outcomes.total():5} tried, {outcomes[EQUAL]:5} equal"
            yield "; ".join(filter(None, (totals, others, note)))
