"""The microbenchmarks' kernels in the emulator: they break no rule, and their sums are right."""

import json
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from compile.test_inspection import needs_nvdisasm
from tilewright import hardware
from tilewright.bench.micro import banks, fma, loads, strides, wgmma
from tilewright.bench.micro.runners import EmulatedRunner, GpuRunner
from tilewright.cli import app
from tilewright.errors import ArgumentValueError, TilewrightError
from tilewright.hardware import A100, H200
from tilewright.jit.cache import build
from tilewright.jit.listing import instruction_mix, sass_listing

RUNNER = EmulatedRunner()


@pytest.mark.parametrize("n", [8, 72, 256])
@pytest.mark.parametrize("kind", wgmma.KINDS, ids=str)
def test_a_chain_of_wgmmas(kind, n):
    case = wgmma.Case(kind, n, warpgroups=2 if n == 72 else 1)
    kernel = build(case.unit())
    assert kernel.warnings == ()
    assert kernel.spill_bytes == 0
    assert wgmma.run(case, kernel, RUNNER, rounds=2).shape == (1,)


def test_wrong_sums_are_no_measurement(monkeypatch):
    """Rows that are not swizzled lie elsewhere than the descriptor says."""
    case = wgmma.Case(wgmma.KINDS[0], 16)
    monkeypatch.setattr(wgmma, "swizzle_of", lambda span: lambda offset: offset)
    with pytest.raises(TilewrightError, match="gives a wrong result on the emulator"):
        wgmma.run(case, build(case.unit()), RUNNER, rounds=1)


def test_the_clocks_are_those_between_the_first_begin_and_the_last_end(monkeypatch):
    class Clock(EmulatedRunner):
        def run(self, kernel, shape, read, written, numbers):
            super().run(kernel, shape, read, written, numbers)
            written[1][...] = [[[100, 900], [200, 1380]]]

    case = wgmma.Case(wgmma.KINDS[0], 8, warpgroups=2)
    found = wgmma.run(case, build(case.unit()), Clock(), rounds=2)
    np.testing.assert_array_equal(found, [1280 / (2 * 16 * 2)])


def test_extents_and_warpgroups_that_cannot_be():
    with pytest.raises(ArgumentValueError, match="n=12 is not an extent of wgmma"):
        wgmma.Case(wgmma.KINDS[0], 12)
    with pytest.raises(ArgumentValueError, match="use 1 or 2"):
        wgmma.Case(wgmma.KINDS[0], 8, 3)


def test_all_kinds_are_there():
    assert len(wgmma.KINDS) == len(set(map(str, wgmma.KINDS))) == 8
    assert len(wgmma.cases(wgmma.KINDS, wgmma.WGMMA_N, (1, 2))) == 8 * 32 * 2


def invoke(*arguments, code=0):
    done = CliRunner().invoke(app, ["bench", "micro", "wgmma", *arguments])
    assert done.exit_code == code, done.output
    return done


def test_the_command_in_the_emulator(tmp_path):
    path = tmp_path / "record.json"
    words = ("--n", "8", "--kind", "bf16:K:K", "--backend", "emulator")
    done = invoke(*words, "--output", str(path), "--json")
    record = json.loads(done.stdout)
    assert record == json.loads(path.read_text())
    assert record["gpu"] is None
    assert [(case["n"], case["warpgroups"], case["median"], case["model"]) for case in record["cases"]] == [
        (8, 1, None, 18),
        (8, 2, None, 18),
    ]
    assert invoke(*words, "--warpgroups", "1").stdout.startswith("1 kernels break no rule")


def test_the_emulator_takes_few_columns_and_says_how_to_get_all(monkeypatch):
    words = ("--kind", "bf16:K:K", "--warpgroups", "1", "--backend", "emulator", "--json")
    done = invoke(*words)
    assert [case["n"] for case in json.loads(done.stdout)["cases"]] == [8, 64]
    assert "those of n=8,64: --n all takes all" in done.stderr
    monkeypatch.setattr(hardware, "WGMMA_N", (8, 16, 24))
    done = invoke(*words, "--n", "all")
    assert [case["n"] for case in json.loads(done.stdout)["cases"]] == [8, 16, 24]
    assert done.stderr == ""


def test_the_table_of_a_gpu(monkeypatch):
    """With a runner that says that it is a GPU of one SM, and has a clock."""

    class Gpu(EmulatedRunner):
        name = "gpu"
        hardware = H200._replace(sm_count=1)

        def run(self, kernel, shape, read, written, numbers):
            super().run(kernel, shape._replace(smem_bytes=8192 + 2048), read, written, numbers)
            written[1][...] = [[[0, 20 * 16 * numbers[0]]]]

    monkeypatch.setattr("tilewright.cli.bench.micro.chains.wants_gpu", lambda backend: True)
    monkeypatch.setattr("tilewright.bench.micro.runners.GpuRunner", Gpu)
    monkeypatch.setattr("tilewright.bench.micro.wgmma.measure", partial(wgmma.measure, rounds=1))
    done = invoke("--n", "16", "--kind", "bf16:K:K", "--warpgroups", "1")
    assert done.stdout.splitlines()[1].split() == ["bf16:K:K", "16", "1", "20.00", "20.00", "20.00", "20"]


@pytest.mark.parametrize(("chains", "warps", "model"), [(1, 1, 4), (3, 1, 4 / 3), (1, 16, 2), (8, 4, 1), (2, 5, 3 / 2)])
def test_a_chain_of_multiply_adds(chains, warps, model):
    case = fma.Case(chains, warps)
    kernel = build(case.unit())
    assert kernel.spill_bytes == 0
    assert fma.run(case, kernel, RUNNER, rounds=2).shape == (1,)
    assert fma.model_clocks(case, H200) == pytest.approx(model, abs=0.001)


def test_an_a100_issues_a_multiply_add_every_other_clock():
    assert fma.model_clocks(fma.Case(8), A100) == 2


def test_the_multiply_adds_are_single_instructions():
    assert instruction_mix(build(fma.Case(3).unit()).ptx, "ptx")["fma.rn.f32"] == 3 * fma.STEPS


def test_the_command_for_chains():
    done = CliRunner().invoke(
        app, ["bench", "micro", "fma", "--chains", "2", "--warps", "1,4", "--backend", "emulator"]
    )
    assert done.stdout.startswith("2 kernels break no rule")
    refused = CliRunner().invoke(app, ["bench", "micro", "fma", "--chains", "99", "--backend", "emulator"])
    assert refused.exit_code == 2
    assert "chains=99 are not in one CTA: use 1 to 32" in refused.stderr


OPCODES = {
    loads.Case("SMEM"): "ld.shared.", loads.Case("SMEM", "atomic"): "atom.shared.",
    loads.Case("SMEM", "index"): "ld.shared.",
    loads.Case("DSMEM"): "ld.shared::cluster.", loads.Case("DSMEM", "atomic"): "atom.shared::cluster.",
    loads.Case("L1"): "ld.global.ca.", loads.Case("L2"): "ld.global.cg.", loads.Case("L2", "atomic"): "atom.global.",
}  # fmt: skip


@pytest.mark.parametrize("case", OPCODES, ids=lambda case: f"{case.place}-{case.operation}")
def test_a_chain_of_loads(case):
    kernel = build(case.unit())
    assert kernel.spill_bytes == 0
    assert loads.run(case, kernel, RUNNER, rounds=3).shape == (2,)
    mix = instruction_mix(kernel.ptx, "ptx")
    counted = sum(count for name, count in mix.items() if name.startswith(OPCODES[case]))
    assert counted >= 2 * loads.STEPS  # once to warm up, once with clocks


def test_all_chains_are_tested():
    assert set(loads.CASES) == OPCODES.keys()


def test_a_chain_of_indices_computes_an_address_in_each_step():
    plain, indexed = (build(loads.Case("SMEM", each).unit()).ptx for each in ("load", "index"))

    def computed(ptx):
        mix = instruction_mix(ptx, "ptx")
        return sum(count for name, count in mix.items() if name.startswith(("shl.", "add.", "mad.", "mul.")))

    assert computed(indexed) >= computed(plain) + 2 * loads.STEPS


def test_a_chain_goes_through_all_entries_and_back():
    order = loads.chain(64)
    seen, at = [], 0
    for _ in range(64):
        seen.append(at)
        at = int(order[at])
    assert at == 0
    assert sorted(seen) == list(range(64))


def test_a_chain_that_ends_elsewhere_is_no_measurement(monkeypatch):
    case = loads.Case("SMEM")
    kernel = build(case.unit())
    monkeypatch.setattr(loads, "STEPS", 31)
    with pytest.raises(TilewrightError, match="gives a wrong result on the emulator"):
        loads.run(case, kernel, RUNNER, rounds=1)


def test_the_model_stands_beside_chains():
    by_model = {(case.place, case.operation): loads.model_clocks(case, H200) for case in loads.CASES}
    assert [by_model[place, "load"] for place in loads.PLACES] == [29, 180, 41, 263]
    assert [by_model[place, "atomic"] for place in ("SMEM", "DSMEM", "L2")] == [29, 187, 367]
    assert by_model["SMEM", "index"] == 29
    assert loads.model_clocks(loads.Case("L2", "atomic"), A100) is None
    with pytest.raises(ArgumentValueError, match="DSMEM is not on A100"):
        loads.model_clocks(loads.Case("DSMEM"), A100)
    with pytest.raises(ArgumentValueError, match="L1:atomic does not exist"):
        loads.Case("L1", "atomic")
    with pytest.raises(ArgumentValueError, match="L2:index is not measured: use SMEM:index"):
        loads.Case("L2", "index")


def test_the_command_for_loads():
    words = ["bench", "micro", "loads", "--place", "DSMEM", "--backend", "emulator"]
    done = CliRunner().invoke(app, [*words, "--json"])
    cases = json.loads(done.stdout)["cases"]
    assert [(case["place"], case["operation"], case["median"], case["model"]) for case in cases] == [
        ("DSMEM", "load", None, 180),
        ("DSMEM", "atomic", None, 187),
    ]
    refused = CliRunner().invoke(app, [*words, "--place", "L3"])
    assert "--place='L3' is unknown: use SMEM, DSMEM, L1, L2" in refused.stderr


@pytest.mark.parametrize("case", banks.CASES, ids=lambda case: f"{case.addresses}-{case.width}-{case.access}")
def test_reads_by_bank(case):
    kernel = build(case.unit())
    assert kernel.spill_bytes == 0
    assert banks.run(case, kernel, RUNNER, rounds=3).shape == (1,)
    mix = instruction_mix(kernel.ptx, "ptx")
    instruction = "ldmatrix." if case.access == "ldmatrix" else "ld.shared."
    assert sum(count for name, count in mix.items() if name.startswith(instruction)) == banks.LOADS


@needs_nvdisasm
@pytest.mark.parametrize("case", [banks.Case("lane*4"), banks.Case("lane*16", 16), banks.CASES[-1]], ids=str)
def test_ptxas_makes_each_read(case):
    """It makes one of equal ones."""
    mix = instruction_mix(sass_listing(build(case.unit(), "sm_90a")), "sass")
    assert sum(count for name, count in mix.items() if name.startswith("LDS")) == banks.LOADS


def test_the_passes_of_reads_are_the_models():
    found = {(case.addresses, case.width): case.passes for case in banks.CASES}
    assert [found[f"lane*{stride}", 4] for stride in (0, 4, 8, 16, 32, 64, 128, 132)] == [1, 1, 2, 4, 8, 16, 32, 1]
    assert [found[each] for each in (("lane*8", 8), ("lane*16", 16), ("lane//2*16", 16))] == [2, 4, 2]
    assert [case.passes for case in banks.CASES if case.access == "ldmatrix"] == [32, 4, 4]


def test_a_read_of_other_words_is_no_measurement():
    class Elsewhere(EmulatedRunner):
        def run(self, kernel, shape, read, written, numbers):
            super().run(kernel, shape, [read[0] // 2, read[1]], written, numbers)

    case = banks.Case("lane*8")
    with pytest.raises(TilewrightError, match="bank_reads_ld_4_1280 gives a wrong result on the emulator"):
        banks.run(case, build(case.unit()), Elsewhere(), rounds=1)


def test_the_clocks_of_a_read_are_those_of_all_warps_of_an_sm():
    class Clock(EmulatedRunner):
        def run(self, kernel, shape, read, written, numbers):
            super().run(kernel, shape, read, written, numbers)
            written[1][..., 0] = 100 + np.arange(banks.WARPS)
            written[1][..., 1] = 1700 + np.arange(banks.WARPS)

    case = banks.Case("lane*4")
    found = banks.run(case, build(case.unit()), Clock(), rounds=2)
    np.testing.assert_array_equal(found, [1615 / (2 * banks.LOADS * banks.WARPS)])


def test_the_command_for_banks():
    words = ["bench", "micro", "banks", "--backend", "emulator"]
    many = ["--addresses", "lane*128", "--addresses", "lane*132"]
    cases = json.loads(CliRunner().invoke(app, [*words, *many, "--json"]).stdout)["cases"]
    assert [(case["addresses"], case["median"], case["model"]) for case in cases] == [
        ("lane*128", None, 32),
        ("lane*132", None, 1),
    ]
    matrices = ["--addresses", "lane*16", "--access", "ldmatrix"]
    (case,) = json.loads(CliRunner().invoke(app, [*words, *matrices, "--json"]).stdout)["cases"]
    assert (case["width"], case["access"], case["model"]) == (16, "ldmatrix", 4)
    for wrong, said in (
        (["--width", "8"], "--width and --access say how --addresses are read"),
        ([*matrices, "--width", "4"], "width=4 of ldmatrix is not measured"),
        (["--addresses", "lane*2"], "lane 1 accesses 4 bytes at 2"),
        (["--addresses", "lane*4000"], "are not all from 0 to 32,768 bytes"),
        (["--addresses", "lane*4 if lane < 8 else None"], "give each lane one there"),
    ):
        refused = CliRunner().invoke(app, [*words, *wrong])
        assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--n", "9"), "n=9 is not an extent of wgmma"),
        (("--n", "a"), "--n='a' is no list of natural numbers"),
        (("--kind", "fp64"), "--kind='fp64' is unknown: use bf16:K:K"),
        (("--warpgroups", "4"), "use 1 or 2"),
        (("--output", "/nowhere/record.json"), "is in a folder that does not exist"),
    ],
)
def test_what_the_command_refuses(words, said):
    assert said in invoke(*words, code=2).stderr


def test_a_gpu_without_wgmma_is_refused():
    class Older(EmulatedRunner):
        hardware = A100

    with pytest.raises(ArgumentValueError, match="A100 has no wgmma"):
        next(wgmma.measure([wgmma.Case(wgmma.KINDS[0], 8)], Older()))


@pytest.mark.parametrize("stride", [32, 48, 4096])
def test_reads_by_stride(stride):
    """Of 2 CTAs: some threads read several sectors, some none, and the last sector is whole."""
    kernel = build(strides.unit())
    assert kernel.spill_bytes == 0
    assert strides.run(strides.Case(stride), kernel, RUNNER, 1 << 20) is None


def test_a_sector_that_is_not_read_is_no_measurement():
    class Forgetful(EmulatedRunner):
        def run(self, kernel, shape, read, written, numbers):
            super().run(kernel, shape, read, written, [numbers[0] - 1, numbers[1]])

    with pytest.raises(TilewrightError, match="strided_read gives a wrong result on the emulator"):
        strides.run(strides.Case(64), build(strides.unit()), Forgetful(), 1 << 16)


def test_the_command_for_strides(tmp_path):
    path = tmp_path / "record.json"
    words = ["bench", "micro", "strides", "--stride", "32,1024", "--fetch", "32", "--backend", "emulator"]
    done = CliRunner().invoke(app, [*words, "--output", str(path), "--json"])
    record = json.loads(done.stdout)
    assert record == json.loads(path.read_text())
    assert [(case["stride"], case["measured"], case["model"]) for case in record["cases"]] == [
        (32, None, 4.8e12),
        (1024, None, pytest.approx(1.117e12, rel=1e-3)),
    ]
    assert CliRunner().invoke(app, words).stdout.startswith("2 reads break no rule")
    for wrong, said in (("16", "stride=16 is not measured"), ("40", "whole pieces of 16")):
        refused = CliRunner().invoke(app, [*words, "--stride", wrong])
        assert (refused.exit_code, said in refused.stderr) == (2, True)
    assert "fetch=48 is no limit of L2: use 32, 64, 128" in CliRunner().invoke(app, [*words, "--fetch", "48"]).stderr


def test_strides_on_a_gpu_show_the_rate_of_wanted_sectors(monkeypatch):
    class Gpu(GpuRunner):
        hardware = H200._replace(sm_count=1)

        def __init__(self):
            pass

        @contextmanager
        def fetching(self, nbytes):
            assert nbytes == 64
            yield

        def seconds(self, kernel, shape, ones, written, numbers):
            RUNNER.run(kernel, shape, [np.ones(ones, np.uint32)], written, numbers)
            return 1e-6

    monkeypatch.setattr("tilewright.cli.bench.micro.reads.wants_gpu", lambda backend: True)
    monkeypatch.setattr("tilewright.bench.micro.runners.GpuRunner", Gpu)
    monkeypatch.setattr("tilewright.bench.micro.strides.BYTES", 1 << 20)
    done = CliRunner().invoke(app, ["bench", "micro", "strides", "--stride", "128", "--fetch", "64"])
    assert done.stdout.splitlines()[1].split() == ["128", "64", "0.26", "2.23"]
