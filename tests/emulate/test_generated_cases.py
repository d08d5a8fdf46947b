"""tools/generated_cases.py: the protocol between the process that launches and those that judge."""

from multiprocessing import Pipe
from threading import Thread

import generated_cases
import numpy as np
import pytest

import tilewright as tw
from support.memory import Buffer
from tilewright.backends.emulated import EmulatedBackend

JOBS = [("simt", 3, "1/simt/0", 0), ("mma", 2, "1/mma/0", 7), (generated_cases.COPIED, 1, "1", 0)]


def emulated(case, contents, **changes):
    """What `launch_on_gpu` does, in the emulator."""
    buffers = {name: Buffer(view) for name, view in case.views().items()}
    for name, buffer in buffers.items():
        buffer.bytes[:] = contents[name]
    arrays = {name: buffer.array for name, buffer in buffers.items()}
    if case.in_place:
        arrays["c"] = arrays["out"]
    a, b, c = (arrays.get(name) for name in "abc")
    tw.matmul(a, b, c, backend=EmulatedBackend(), **(case.keywords(arrays) | changes))
    return {name: buffer.bytes for name, buffer in buffers.items()}


def served(launch, jobs, referees=2):
    """The numbers of right cases that threads tell, each of which asks for its launches."""
    pipes, told = [], []
    for first in range(referees):
        here, there = Pipe()
        Thread(target=generated_cases.referee, args=(jobs[first::referees], there, launch is not None)).start()
        pipes.append(here)
    generated_cases.serve(pipes, launch, told.append)
    return sorted(told)


@pytest.mark.parametrize("launch", [None, emulated])
def test_all_cases_of_all_jobs_are_judged(launch):
    assert served(launch, JOBS) == [1, 2, 3]


def test_a_byte_that_a_launch_changes_ends_the_run_with_the_case_that_it_is_of():
    def wrong(case, contents, **changes):
        after = {name: np.array(content) for name, content in emulated(case, contents, **changes).items()}
        after["a"][0] ^= 1
        return after

    with pytest.raises(AssertionError, match="1 bytes of a's memory changed") as failed:
        served(wrong, JOBS[:1], referees=1)
    assert "case of simt, seed '1/simt/0': Case(" in failed.value.__notes__[0]


def test_an_error_of_a_launch_names_its_case():
    def refused(case, contents, **changes):
        raise tw.TilewrightError("no GPU")

    with pytest.raises(tw.TilewrightError) as failed:
        served(refused, JOBS[:1], referees=1)
    assert failed.value.__notes__[0].startswith("launched for Case(")
