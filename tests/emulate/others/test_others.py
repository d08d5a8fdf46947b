"""Kernels of other compilers are right and not reported; their faulty twins are reported, with the user's own line."""

import os
import zlib

import numpy as np
import pytest

import tilewright as tw
from emulate.others.corpus import ARCHIVES, FOLDER, Case, Launch, Twin, all_cases, archive
from tilewright.emulator.errors import lines_of

SCHEDULES = 1 if os.environ.get("TILEWRIGHT_TESTS") == "all" else 0
"""Random orders, besides eager and lazy completion."""

COMPILED = sorted({case.compiler for case in all_cases() if archive(case.compiler).version})
RUN = [case for case in all_cases() if case.compiler in COMPILED]
TWINS = [(case, twin) for case in RUN for twin in case.twins]
MOST_BYTES = 3 << 20


def run(case: Case, define: str | None, launch: Launch):
    return tw.check(
        archive(case.compiler).texts[case.member(define)],
        *launch.arguments,
        entry=case.entry,
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        shared_bytes=launch.shared_bytes,
        schedules=SCHEDULES,
    )


def generator(case: Case) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(str(case).encode()))


@pytest.mark.parametrize("case", RUN, ids=str)
def test_right_and_not_reported(case):
    launch = case.launch(generator(case))
    result = run(case, None, launch)
    assert result.verified, "\n\n".join(str(report) for report in result.reports) or result.error
    assert not result.warnings
    for index, expected in launch.expected.items():
        argument = launch.arguments[index]
        found = argument.array if isinstance(argument, tw.TensorMap) else argument
        assert found.shape == expected.shape
        if launch.tolerance:
            error = np.abs(found.astype(np.float64) - expected).max() / np.abs(expected).max()
            assert error <= launch.tolerance, f"argument {index} has an error of {error:.2e}"
        else:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.planted_fault
@pytest.mark.parametrize(("case", "twin"), TWINS, ids=lambda value: getattr(value, "define", None) or str(value))
def test_faulty_twin_is_reported_with_its_line(case: Case, twin: Twin):
    lines = case.reported_lines(twin.define)
    assert lines, f"{case.source.name} has no comment `reported: {twin.define}`"
    result = run(case, twin.define, (twin.launch or case.launch)(generator(case)))
    found = {(report["kind"], location) for report in result.reports for location in report["locations"]}
    naming = {kind for kind, location in found if lines.intersection(lines_of(location))}
    assert twin.kind in naming, f"{lines} not in {sorted(found)}"


@pytest.mark.parametrize("case", RUN, ids=str)
def test_ptx_is_of_this_source(case):
    for define in case.variants():
        made_from = archive(case.compiler).digests.get(case.member(define))
        assert made_from == case.digest(define), f"run `python tests/emulate/others/compile.py {case.compiler}`"


def test_every_kernel_of_the_folders_is_a_case():
    known = {path for case in all_cases() for path in (case.source, *case.also)}
    assert set(FOLDER.glob("*/*.cu")) <= known


def test_archives_are_small():
    assert sum(path.stat().st_size for path in ARCHIVES.glob("*.tar.xz")) <= MOST_BYTES
