"""tools/generated_cases.py: the protocol between the process that launches and those that judge."""

import re
from multiprocessing import Pipe
from threading import Thread

import generated_cases
import numpy as np
import pytest

import tilewright as tw
from support.further_cases import COPIED, FURTHER, drawn_cases
from support.memory import Buffer
from support.runs import multiply_emulated
from tilewright.backends.emulated import EmulatedBackend
from tilewright.hardware import H200

JOBS = [
    ("simt", 3, "1/simt/0", 0), ("mma", 2, "1/mma/0", 7), (COPIED, 1, "1", 0), ("code_sums", 1, "1", 0),
    ("quantize", 4, "1", 7),
]  # fmt: skip


def emulated(case, contents, **changes):
    """What `launch_on_gpu` does, in the emulator."""
    buffers = {name: Buffer(view) for name, view in case.views().items()}
    for name, buffer in buffers.items():
        buffer.bytes[:] = contents[name]
    arrays = {name: buffer.array for name, buffer in buffers.items()}
    if case.in_place:
        arrays["c"] = arrays["out"]
    case.call(arrays, EmulatedBackend(), **changes)
    return {name: buffer.bytes for name, buffer in buffers.items()}


def served(launch, jobs, referees=2):
    """The numbers of right cases that threads tell, each of which asks for its launches."""
    pipes, told = [], []
    for first in range(referees):
        here, there = Pipe()
        Thread(target=generated_cases.referee, args=(jobs[first::referees], there, launch and H200)).start()
        pipes.append(here)
    generated_cases.serve(pipes, launch, told.append)
    return sorted(told)


def test_cases_are_shared_out_over_all_kernels_or_over_those_that_are_asked_for():
    counts = generated_cases.counts_of(15200, [])
    assert (counts["wgmma"], counts["wgmma_basic"]) == (2000, 200)
    assert [counts[name] for name in FURTHER] == [500] * len(FURTHER)
    assert generated_cases.counts_of(101, ["column_sums", "quantize"]) == {"column_sums": 51, "quantize": 51}


@pytest.mark.parametrize("launch", [None, emulated])
def test_all_cases_of_all_jobs_are_judged(launch):
    assert served(launch, JOBS) == [1, 1, 2, 3, 4]


@pytest.mark.parametrize(("job", "read", "written"), [(JOBS[0], "a", "out"), (JOBS[-1], "x", "out[0]")])
def test_a_byte_that_a_launch_changes_ends_the_run_with_the_case_that_it_is_of(job, read, written):
    def wrong(name, index):
        def launch(case, contents, **changes):
            after = {name: np.array(content) for name, content in emulated(case, contents, **changes).items()}
            after[name][index] ^= 1
            return after

        return launch

    with pytest.raises(AssertionError, match=rf"1 bytes of {read}'s memory changed") as failed:
        served(wrong(read, 0), [job], referees=1)
    assert f"case of {job[0]}, seed '{job[2]}': " in failed.value.__notes__[0]
    with pytest.raises(AssertionError, match=rf"1 bytes of {re.escape(written)}'s memory changed"):
        served(wrong(written, -1), [job], referees=1)


def test_an_error_of_a_launch_names_its_case():
    def refused(case, contents, **changes):
        raise tw.TilewrightError("no GPU")

    with pytest.raises(tw.TilewrightError) as failed:
        served(refused, JOBS[:1], referees=1)
    assert failed.value.__notes__[0].startswith("launched for Case(")


class NamingBackend(EmulatedBackend):
    """An emulated GPU with all checks that keeps the names of what is launched."""

    def __init__(self):
        super().__init__(checks=True)
        self.names = []

    def prepare(self, compiled, shape, arguments):
        launch = super().prepare(compiled, shape, arguments)

        def named(*call):
            self.names.append(compiled.name)
            return launch(*call)

        return named


@pytest.mark.parametrize(("name", "kernel"), [(name, "repack" if name == COPIED else name) for name in FURTHER])
def test_cases_of_further_kernels_launch_them_and_are_right(name, kernel):
    for case, changes in drawn_cases(name, 3, "further"):
        backend = NamingBackend()
        multiply_emulated(case, backend, **changes)
        assert any(launched.startswith(kernel) for launched in backend.names), (case, backend.names)
