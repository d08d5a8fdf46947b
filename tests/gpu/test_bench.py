"""`tilewright bench` on a GPU: every timed contender is verified. No time is asserted."""

import json
import math

import pytest
from typer.testing import CliRunner

from tilewright.bench import (
    Contender,
    Cublas,
    CublasLt,
    Inputs,
    Prepared,
    Quack,
    Settled,
    Shape,
    Tilewright,
    TilewrightTuned,
    Triton,
    compare,
)
from tilewright.cli import app

SMALL = Shape(256, 320, 192)
QUICK = Settled(cycles=1, slice_seconds=0.04, warmup_seconds=0.02)


@pytest.fixture(scope="module", autouse=True)
def _torch(torch):
    """Inputs are torch's."""


@pytest.fixture(scope="module")
def small():
    return Inputs(SMALL)


def test_a_small_product_is_verified_and_its_record_is_complete():
    options = ["--shape", "256,320,192", "--contender", "tilewright", "--contender", "cublas"]
    done = CliRunner().invoke(app, ["bench", *options, "--rounds", "1", "--cycles", "1", "--slice", "0.05", "--json"])
    assert done.exit_code == 0, (done.stderr, done.exception)
    record = json.loads(done.stdout)
    assert record["versions"].keys() >= {"tilewright", "python", "torch", "cuda", "nvrtc"}
    (product,) = record["products"]
    assert (product["m"], product["n"], product["k"], product["dtype"], product["layout"]) == (
        256,
        320,
        192,
        "bf16",
        "nt",
    )
    assert product["input_bytes"] >= min(2 * product["l2_bytes"], 1024 * product["input_bytes"] / product["input_sets"])
    assert [entry["contender"] for entry in product["contenders"]] == ["tilewright", "cublas"]
    for entry in product["contenders"]:
        assert entry["verified"] is True
        assert 0 < entry["relative_error"] < 2.0**-8
        for protocol in ("burst", "settled"):
            found = entry[protocol]
            assert found["time_us"] > 0
            assert found["tflops"] == pytest.approx(2 * 256 * 320 * 192 / found["time_us"] / 1e6)
            assert found["ratio"]["median"] > 0
            assert len(found["samples_us"]) == 1
    assert product["contenders"][0]["kernel"]
    assert product["contenders"][0]["config"]


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_right_results_are_right_in_every_layout_and_dtype(layout, dtype):
    inputs = Inputs(Shape(129, 200, 500, dtype, layout), data="randn" if layout[0] == "n" else "uniform")
    assert inputs.problem.layout == layout
    record = compare([Tilewright(), Cublas()], inputs, [])
    assert [(entry.status, entry.reason) for entry in record.entries] == [("right", "")] * 2


@pytest.mark.parametrize("layout", ["ss", "st", "ns"])
def test_strided_operands_are_multiplied_beside_a_library_that_copies_them(layout):
    inputs = Inputs(Shape(129, 200, 500, "bf16", layout))
    for letter, operand in zip(layout, inputs.sets[0], strict=False):
        assert (min(operand.stride()) > 1) == (letter == "s")
    record = compare([Tilewright(), Cublas()], inputs, [])
    assert [(entry.status, entry.reason) for entry in record.entries] == [("right", "")] * 2


@pytest.mark.parametrize("layout", ["nn", "tn"])
def test_of_four_neighbors_along_k_the_larger_two_stay(layout, torch):
    shape = Shape(512, 512, 512, "fp16", layout)
    for (dense, _, _), (sparse, _, _) in zip(Inputs(shape).sets, Inputs(shape, data="2:4").sets, strict=True):
        assert dense.stride() == sparse.stride()
        assert bool(((sparse == dense) | (sparse == 0)).all())
        dense_groups, groups = (a.unflatten(1, (-1, 4)).abs().float().sort(dim=2).values for a in (dense, sparse))
        assert bool((groups[:, :, :2] == 0).all())
        assert torch.equal(groups[:, :, 2:], dense_groups[:, :, 2:])


def test_groups_of_four_need_a_k_of_whole_groups():
    with pytest.raises(ValueError, match=r"k is 30: make k a multiple of 4"):
        Inputs(Shape(64, 64, 30), data="2:4")


def test_the_ladder_is_verified_and_measured_beside_cublas():
    rungs = "mma_swizzled,volta_mma,sparse_mma,mma"
    done = CliRunner().invoke(app, ["ladder", "--rungs", rungs, "--shape", "256", "--json"])
    assert done.exit_code == 0, (done.stderr, done.exception)
    record = json.loads(done.stdout)
    assert record["verified"] is True
    found = {rung["name"]: rung for rung in record["rungs"]}
    assert found["sparse_mma"]["data"] == "2:4"
    assert all(rung["cublas_ratio"] > 0 for rung in found.values())
    gains = {name: rung["gain"] for name, rung in found.items() if "gain" in rung}
    assert gains == {"mma": pytest.approx(found["mma_swizzled"]["time_us"] / found["mma"]["time_us"])}


def test_epilogues_are_verified_beside_the_plain_product():
    texts = ("gelu(acc + bias) -> acc,amax,column_sums", "acc * scale + residual", "silu(x) * y")
    chosen = [word for text in texts for word in ("--epilogue", text)]
    forms = [word for form in ("bias=n", "scale=m,1", "residual=m,n") for word in ("--operand", form)]
    gates = ["--gate", "stacked", "--gate", "interleaved"]
    quick = ["--rounds", "1", "--cycles", "1", "--slice", "0.05", "--json"]
    done = CliRunner().invoke(app, ["bench", "--shape", "256,320,192", *chosen, *forms, *gates, *quick])
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    plain, *others = json.loads(done.stdout)["products"][0]["contenders"]
    assert plain["contender"] == "tilewright"
    assert len(others) == 4
    assert all(entry["verified"] and entry["burst"]["cost"] > -1 for entry in others)


class Faulty(Contender):
    """The product, and then one element of one set is spoilt."""

    def __init__(self, name, spoil, number=0):
        self.name, self.spoil, self.number = name, spoil, number

    def prepare(self, inputs, choice=None):
        right = Cublas().prepare(inputs).launch

        def launch(number):
            right(number)
            if number == self.number:
                self.spoil(inputs.sets[number][2])

        return Prepared(launch)


def test_one_wrong_element_in_one_set_is_seen(small):
    last = len(small.sets) - 1
    faults = [
        Faulty("none", lambda out: None),
        Faulty("added", lambda out: out[-1, 7].add_(8)),
        Faulty("not written", lambda out: out[100, 3].fill_(math.nan)),  # wherever it is, sampled or not
        Faulty("infinite", lambda out: out[101, 3].fill_(math.inf)),
        Faulty("in the last set", lambda out: out[0, 0].add_(8), last),
        Faulty("transposed", lambda out: out[:256, :256].copy_(out[:256, :256].t().clone()), last),
    ]
    record = compare(faults, small, [])
    assert [entry.status for entry in record.entries] == ["right"] + ["wrong"] * 5


def test_outs_are_poisoned_so_that_what_another_left_is_no_result(small):
    class Idle(Contender):
        """Multiplies nothing."""

        name = "idle"

        def prepare(self, inputs, choice=None):
            return Prepared(lambda number: None)

    record = compare([Cublas(), Idle()], small, [])
    assert [entry.status for entry in record.entries] == ["right", "wrong"]


def test_a_graph_walks_all_sets_and_is_verified(small):
    work = small.work(Tilewright().prepare(small).launch, graph=True)
    assert work.launches % len(small.sets) == 0
    assert small.verify(lambda: work.run(1)).verified


def test_launches_that_overlap_and_those_that_do_not_are_right_as_graphs(small):
    record = compare([Tilewright(), Tilewright(serial=True), Tilewright("gemv", serial=True)], small, [QUICK])
    assert record.graphs
    assert [entry.status for entry in record.entries] == ["right"] * 3


def test_a_kernel_that_does_not_take_the_product_is_absent(small):
    record = compare([Tilewright("simt"), Tilewright("mma")], small, [QUICK], baseline="tilewright:mma")
    refused, taken = record.entries
    assert refused.status == "absent"
    assert "simt" in refused.reason
    assert taken.about["kernel"] == "mma"
    assert len(taken.seconds("settled")) == 1


def test_triton_and_cublaslt_are_both_right_as_graphs(small):
    for module in ("triton", "nvmath"):
        pytest.importorskip(module)
    record = compare([Triton(), CublasLt(), Cublas()], small, [])
    assert record.graphs
    assert [(entry.status, entry.reason) for entry in record.entries] == [("right", "")] * 3


@pytest.mark.parametrize(
    ("peer", "module"),
    [(TilewrightTuned, "torch"), (CublasLt, "nvmath"), (Triton, "triton"), (Quack, "quack")],
)
def test_what_a_tuner_chose_is_used_again(peer, module):
    """The choice goes through JSON, as in a record, and the product is right with it."""
    pytest.importorskip(module)
    from torch._inductor import config

    inputs, choices = Inputs(Shape(1024, 768, 512)), {}
    with config.patch(force_disable_caches=True):  # a compiler that finds its cache tunes nothing
        first = compare([peer()], inputs, [], choices=choices)
        assert [entry.status for entry in first.entries] == ["right"], first.entries[0].reason
        kept = json.loads(json.dumps(choices))
        assert list(kept) == [peer.name]
        again = compare([peer()], inputs, [], choices=kept)
    assert [entry.status for entry in again.entries] == ["right"], again.entries[0].reason
    assert kept == choices


def test_a_record_is_gone_on_with(tmp_path):
    path = tmp_path / "record.json"
    options = ["--shape", "256,320,192", "--shape", "512,320,192", "--rounds", "1", "--cycles", "1", "--slice", "0.05"]
    words = ["bench", *options, "--contender", "tilewright", "--contender", "cublas", "--resume", str(path)]
    for left in (1, 0):
        done = CliRunner().invoke(app, [*words, "--time-limit", "0"])
        assert done.exit_code == 0, (done.stderr, done.exception)
        record = json.loads(path.read_text())
        assert len(record["left"]) == left
    assert [product["session"] for product in record["products"]] == [0, 1]
    assert {session["driver"] for session in record["sessions"]}


def test_triton_multiplies_by_a_kernel_of_its_own(small):
    pytest.importorskip("triton")
    torch = small.torch
    with small.current():
        launch = Triton().prepare(small).launch
        launch(0)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            launch(1)
            torch.cuda.synchronize()
    kernels = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    assert len(kernels) == 1
    assert kernels[0].startswith("triton")
