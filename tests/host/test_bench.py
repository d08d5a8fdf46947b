"""Comparisons of fake contenders, on a clock that only they move."""

import json
import re
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from support.contenders import SHAPE, FakeContender, FakeInputs
from tilewright.backends.gpu import GpuBackend
from tilewright.bench import (
    Absent,
    Burst,
    CublasLt,
    Inputs,
    Quack,
    Settled,
    Tilewright,
    TilewrightTuned,
    Triton,
    compare,
    contenders,
    inputs,
    peers,
    session,
    suites,
)
from tilewright.bench.contenders import EVERY_PEER, READ, contenders_named
from tilewright.bench.session import Settings, best, disagreement, measure
from tilewright.dtypes import fp32
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.ladder.hopper import ScheduleConfig
from tilewright.kernels.parameters import LaunchShape
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.measure.sensors import Reading

PROTOCOLS = (Burst(cycles=3), Settled(cycles=2, slice_seconds=0.1, warmup_seconds=0.1))


@pytest.fixture(autouse=True)
def no_rest(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def test_contenders_that_are_right_are_timed_by_each_protocol():
    record = compare(
        [FakeContender("ours", 1e-3), FakeContender("theirs", 1.25e-3)], FakeInputs(), PROTOCOLS, baseline="theirs"
    )
    assert not record.interrupted
    assert not record.graphs
    for name, cycles in (("burst", 3), ("settled", 2)):
        assert record.entry("ours").seconds(name) == pytest.approx([1e-3] * cycles)
        assert record.ratio(name, "ours", "theirs").median == pytest.approx(1.25)
    ours, theirs = record.as_dict()["contenders"]
    assert ours["verified"] is theirs["verified"] is True
    assert ours["burst"]["tflops"] == pytest.approx(2 * 4096 * 2048 * 1024 / 1e-3 / 1e12)
    assert ours["burst"]["time_us"] == pytest.approx(1000)
    assert ours["burst"]["speed_of_light_share"] == pytest.approx(0.1)
    assert ours["settled"]["ratio"]["median"] == pytest.approx(1.25)
    assert theirs["settled"]["ratio"]["median"] == pytest.approx(1)


def test_a_wrong_result_is_reported_and_not_timed():
    wrong = FakeContender("wrong", right=False)
    record = compare([FakeContender("ours"), wrong], FakeInputs(), PROTOCOLS, baseline="wrong")
    entry = record.entry("wrong")
    assert (entry.status, entry.verified, entry.samples) == ("wrong", False, {})
    assert "not the product" in entry.reason
    assert wrong.launch.count == len(FakeInputs.sets)
    assert record.baseline is None
    assert record.as_dict()["contenders"][1]["relative_error"] is None  # JSON has no NaN
    assert record.entry("ours").samples.keys() == {"burst", "settled"}


def test_a_read_is_not_verified_and_others_have_their_share_of_it():
    read = FakeContender(READ, 0.9e-3, right=False, multiplies=False)
    comparison = compare([FakeContender("tilewright"), FakeContender("cublas", 1.2e-3), read], FakeInputs(), PROTOCOLS)
    record = {entry["contender"]: entry for entry in comparison.as_dict()["contenders"]}
    assert (record[READ]["status"], record[READ]["verified"]) == ("read", None)
    shares = {name: entry["burst"]["read_share"] for name, entry in record.items()}
    assert shares == pytest.approx({"tilewright": 0.9, "cublas": 0.75, READ: 1.0})
    assert session.quickest_peer(comparison, "burst") == "cublas"  # a read is no peer
    alone = compare([FakeContender("tilewright")], FakeInputs(), PROTOCOLS).as_dict()
    assert "read_share" not in alone["contenders"][0]["burst"]


def test_who_is_absent_or_fails_is_listed_with_the_reason_and_the_others_are_timed():
    others = [FakeContender("there", absent="is not installed"), FakeContender("broken", error=OSError("no compiler"))]
    record = compare([*others, FakeContender("ours")], FakeInputs(), PROTOCOLS).as_dict()
    listed = {entry["contender"]: entry for entry in record["contenders"]}
    assert (listed["there"]["status"], listed["there"]["why"]) == ("absent", "is not installed")
    assert (listed["broken"]["status"], listed["broken"]["why"]) == ("failed", "OSError: no compiler")
    assert listed["there"]["verified"] is listed["broken"]["verified"] is None
    assert listed["ours"]["burst"]["time_us"] == pytest.approx(1000)


def test_all_are_replayed_from_graphs_where_one_is_short_and_are_verified_so():
    fakes = FakeInputs()
    short, long = FakeContender("short", 20e-6), FakeContender("long", 1e-3)
    deaf = FakeContender("deaf", 30e-6, captures=False)
    record = compare([short, long, deaf], fakes, PROTOCOLS)
    assert record.graphs
    assert fakes.graphs == [short.launch, long.launch]
    assert record.entry("short").seconds("burst") == pytest.approx([20e-6] * 3)
    assert record.entry("deaf").status == "failed"
    assert "in a CUDA graph" in record.entry("deaf").reason
    assert record.entry("deaf").samples == {}


def test_results_are_looked_for_where_the_contender_leaves_them():
    """Of several that are verified again as graphs, one makes its own outs and the others write those of the sets."""
    fakes = FakeInputs()
    trio = [FakeContender("before", 2e-5), FakeContender("own", 2e-5, own=True), FakeContender("behind", 2e-5)]
    record = compare(trio, fakes, PROTOCOLS)
    assert fakes.graphs == [each.launch for each in trio]
    assert [entry.status for entry in record.entries] == ["right"] * 3


@pytest.fixture
def triton(monkeypatch):
    """torch's compiler, as far as Triton calls it: what it tunes, what it is told, and a torch for the inputs."""
    torch = SimpleNamespace(
        __version__="2.9",
        _dynamo=SimpleNamespace(reset=lambda: None),
        compile=lambda function, **settings: function,
        empty_like=lambda out: f"memory like {out}",
    )
    patched, savers = [], []
    known = dict.fromkeys(("test_configs.autotune_choice_name_regex", "test_configs.autotune_choice_desc_regex"))
    settings = SimpleNamespace(get_config_copy=lambda: known, patch=lambda wanted: nullcontext(patched.append(wanted)))
    selecting = SimpleNamespace(add_feedback_saver=savers.append, clear_feedback_savers=savers.clear)
    modules = {
        "triton": SimpleNamespace(__version__="3.5"),
        "torch._inductor.config": settings,
        "torch._inductor.select_algorithm": selecting,
    }
    monkeypatch.setattr(peers, "imported", lambda module, package: modules[module])
    tuned = []

    def mm(a, b):
        for saver in savers if tuned else ():
            saver({each: each.seconds for each in tuned}, "mm", "other arguments")
        return f"{a} @ {b}"

    torch.mm = mm
    return SimpleNamespace(torch=torch, tuned=tuned, patched=patched, savers=savers)


def test_triton_replaces_results_of_its_own_and_leaves_the_inputs_alone(triton):
    given = SimpleNamespace(
        torch=triton.torch, elements=SHAPE.elements, sets=(("a0", "b0", "out0"), ("a1", "b1", "out1"))
    )
    prepared = Triton().prepare(given)
    assert list(prepared.outs) == ["a0 @ b0", "memory like out1"]
    prepared.launch(1)
    assert list(prepared.outs) == ["a0 @ b0", "a1 @ b1"]
    assert given.sets == (("a0", "b0", "out0"), ("a1", "b1", "out1"))
    assert prepared.choice is None  # nothing was tuned, as where the compiler finds its own cache


def test_triton_keeps_the_winner_and_compiles_no_other_the_next_time(triton):
    class Choice(SimpleNamespace):
        __hash__ = object.__hash__

    triton.tuned += [
        Choice(name="triton_mm_3", description="BLOCK_M=64", seconds=2.0),
        Choice(name="triton_mm_persistent_tma_12", description="BLOCK_M=128, EVEN_K=(True)", seconds=1.0),
    ]
    given = SimpleNamespace(torch=triton.torch, elements=SHAPE.elements, sets=(("a0", "b0", "out0"),))
    choice = Triton().prepare(given).choice
    assert choice == {"template": "triton_mm_persistent_tma", "parameters": "BLOCK_M=128, EVEN_K=(True)"}
    assert not triton.savers
    assert triton.patched.pop() == {}
    triton.tuned.clear()
    assert Triton().prepare(given, choice).choice == choice
    name, parameters = triton.patched.pop().values()
    assert re.search(name, "triton_mm_persistent_tma_7")
    assert not re.search(name, "triton_mm_7")
    assert re.search(parameters, "BLOCK_M=128, EVEN_K=(True)")
    assert not re.search(parameters, "BLOCK_M=128, EVEN_K=(True), GROUP_M=8")


def test_an_interruption_leaves_the_complete_cycles():
    launches = 3 + 2 + 2 * 13 * 2 + 20  # verifying, a look at the time, two cycles of burst, and a part of the third
    record = compare([FakeContender("ours", interrupts=launches)], FakeInputs(), PROTOCOLS)
    assert record.interrupted
    assert len(record.entry("ours").seconds("burst")) == 2
    assert record.as_dict()["interrupted"] is True
    assert "settled" not in record.as_dict()["contenders"][0]


def test_an_interruption_while_preparing_leaves_what_is_known():
    contenders = [FakeContender("ours"), FakeContender("theirs", error=KeyboardInterrupt())]
    record = compare(contenders, FakeInputs(), PROTOCOLS)
    assert record.interrupted
    ours, theirs = record.entry("ours"), record.entry("theirs")
    assert (ours.status, ours.verified, ours.samples) == ("right", True, {})
    assert (theirs.status, theirs.verified, theirs.relative_error) == ("unfinished", None, None)


def test_an_interruption_while_verifying_leaves_no_verdict():
    record = compare([FakeContender("ours", interrupts=1)], FakeInputs(), PROTOCOLS)
    assert record.interrupted
    assert record.as_dict()["contenders"][0]["verified"] is None


def test_what_was_prepared_is_given_up_once_also_where_it_is_wrong_or_interrupted():
    wrong, cut = FakeContender("wrong", right=False), FakeContender("cut", interrupts=100)
    assert compare([wrong, cut], FakeInputs(), PROTOCOLS).interrupted
    assert wrong.launch.released == cut.launch.released == 1


def test_who_cannot_be_given_up_is_timed_all_the_same_and_the_reason_is_said():
    held = FakeContender("held")
    held.launch.release = lambda: 1 / 0
    record = compare([held, FakeContender("ours")], FakeInputs(), PROTOCOLS)
    assert record.entry("held").verified is True
    assert record.entry("held").samples.keys() == {"burst", "settled"}
    assert record.entry("held").reason == "on release: ZeroDivisionError: division by zero"


def test_contenders_of_one_name_are_refused():
    with pytest.raises(ValueError, match="share a name"):
        compare([FakeContender("ours"), FakeContender("ours")], FakeInputs())


def test_progress_grows_to_the_end_and_says_what_is_done():
    seen = []
    compare([FakeContender("ours")], FakeInputs(), PROTOCOLS, progress=lambda *news: seen.append(news))
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert seen[0] == (0.0, f"{SHAPE}: preparing ours")
    assert "settled" in seen[-1][1]


def test_readings_of_the_board_are_the_contenders_own(monkeypatch):
    class Board:
        """A board whose readings count up."""

        def __init__(self, device):
            self.watts = 600.0

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def reading(self):
            self.watts += 1
            return Reading(self.watts, 1500, 60)

    monkeypatch.setattr("tilewright.bench.comparison.Sensors", Board)
    way = Settled(cycles=1, slice_seconds=0.1)
    record = compare([FakeContender("ours"), FakeContender("theirs")], FakeInputs(), [way]).as_dict()
    ours, theirs = (entry["settled"] for entry in record["contenders"])
    # One reading begins all; each of the turns A B B A discards one and keeps the next: 603 and 609, 605 and 607.
    assert (ours["watts"], theirs["watts"]) == (606, 606)
    assert ours["joules_per_tflop"] == pytest.approx(606 * 1e-3 / (2 * 4096 * 2048 * 1024 / 1e12))
    assert (ours["sm_clock_mhz"], ours["celsius"]) == (1500, 60)


# ---------------------------------------------------------------- inputs and contenders


def test_sets_exceed_twice_the_l2_between_two_uses():
    l2 = 60 * 2**20
    for nbytes in (1000, 2**20, 50 * 2**20, 2**30):
        count = inputs.sets_beyond(l2, nbytes)
        assert (count - 1) * nbytes >= 2 * l2 or count == inputs.MOST_SETS
        assert count >= 2


def test_without_torch_inputs_say_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RuntimeError, match="torch is not installed: pip install torch"):
        Inputs(SHAPE)


def test_contenders_are_found_by_name_and_once():
    names = ["cublas", "tilewright", "tilewright:mma", "tilewright:serial", "tilewright:gemv:serial"]
    found: Any = contenders_named([*names, "cublas"])
    assert [each.name for each in found] == names
    assert [(each.kernel, each.serial) for each in found[1:]] == [
        ("auto", False), ("mma", False), ("auto", True), ("gemv", True),
    ]  # fmt: skip
    for name in (
        "mkl",
        "mma",
        "tilewright:",
        "tilewright:none",
        "cublas:mma",
        "cublas:serial",
        "tilewright:tuned:serial",
    ):
        with pytest.raises(
            ValueError,
            match="exist: use tilewright, tilewright:tuned, tilewright:invariant, read, cublas, ",
        ):
            contenders_named([name])


@pytest.mark.parametrize(("name", "module"), [("cublaslt", "nvmath"), ("triton", "triton"), ("quack", "quack")])
def test_a_library_that_is_not_installed_is_absent(name, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Absent, match=r"is not installed: pip install"):
        EVERY_PEER[name]().prepare(FakeInputs())


def test_a_library_that_is_there_and_cannot_be_imported_says_why(monkeypatch, tmp_path):
    (tmp_path / "quack").mkdir()
    (tmp_path / "quack/__init__.py").write_text("")
    (tmp_path / "quack/gemm_interface.py").write_text("import no_such_compiler")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "quack", raising=False)
    with pytest.raises(Absent, match="cannot be imported: No module named 'no_such_compiler'"):
        EVERY_PEER["quack"]().prepare(FakeInputs())


RESULT = np.dtype([("algo", np.uint64, (8,)), ("workspace_size", np.uint64)])


class Matmul:
    """nvmath-python's, as far as it is called; the second of them may find no plan."""

    made: ClassVar[list["Matmul"]] = []
    plans, tuned = 2, 0

    def __init__(self, a, b, out, **options):
        self.algorithms, self.executed, self.freed = None, 0, 0
        self.made.append(self)

    def plan(self, algorithms=None, preferences=None):
        if len(self.made) > self.plans:
            raise MemoryError
        self.algorithms = algorithms or [algorithm(number) for number in range(3)]

    def autotune(self, *, iterations, prune):
        type(self).tuned += 1
        self.algorithms = self.algorithms[-prune:]

    def execute(self):
        self.executed += 1

    def free(self):
        self.freed += 1


def algorithm(number):
    """An Algorithm of nvmath-python with recognizable bytes."""
    data = np.zeros(1, RESULT)
    data["workspace_size"] = number
    return SimpleNamespace(algorithm=SimpleNamespace(_data=data))


@pytest.fixture
def cublaslt(monkeypatch):
    """nvmath-python, and inputs of two sets for it."""
    advanced = SimpleNamespace(
        Matmul=Matmul,
        MatmulOptions=lambda **options: options,
        MatmulPlanPreferences=lambda **preferences: preferences,
        MatmulReductionScheme=SimpleNamespace(COMPUTE_TYPE=2),
        Algorithm=lambda result: SimpleNamespace(algorithm=result),
    )
    bindings = SimpleNamespace(
        MatmulHeuristicResult=SimpleNamespace(from_data=lambda data: SimpleNamespace(_data=data)),
        matmul_heuristic_result_dtype=RESULT,
    )
    modules = {"nvmath.linalg.advanced": advanced, "nvmath.bindings.cublasLt": bindings}
    monkeypatch.setattr(peers, "imported", lambda name, package: modules[name])
    monkeypatch.setattr(peers, "version", lambda package: "0.6")
    monkeypatch.setattr(Matmul, "made", [])
    monkeypatch.setattr(Matmul, "tuned", 0)
    return SimpleNamespace(shape=SHAPE, elements=SHAPE.elements, sets=(("a0", "b0", "out0"), ("a1", "b1", "out1")))


def test_cublaslt_tunes_once_and_keeps_the_algorithm(cublaslt):
    choice = CublasLt().prepare(cublaslt).choice
    assert np.frombuffer(bytes.fromhex(choice), RESULT)["workspace_size"] == 2
    assert Matmul.tuned == 1
    Matmul.made.clear()
    assert CublasLt().prepare(cublaslt, choice).choice == choice
    assert Matmul.tuned == 1
    for each in Matmul.made:
        assert each.algorithms[0].algorithm._data["workspace_size"] == 2


@dataclass
class GemmConfig:
    """QuACK's, with one field."""

    tile_n: int = 128


def test_quack_is_held_to_a_choice_until_it_is_released(monkeypatch):
    class Tuner:
        """QuACK's: it tunes what it has not met, and runs a single Config without."""

        configs = every = tuple(SimpleNamespace(kwargs={"config": GemmConfig(n)}) for n in (128, 192, 256))
        best_config, tuned, ran = None, 0, []

    def gemm(a, b, *, out, tuned):
        Tuner.tuned += len(Tuner.configs) > 1
        Tuner.best_config = Tuner.configs[-1]
        Tuner.ran.append(Tuner.best_config.kwargs["config"].tile_n)

    module = SimpleNamespace(
        gemm=gemm,
        gemm_tuned=Tuner,
        GemmConfig=GemmConfig,
        AutotuneConfig=lambda config: SimpleNamespace(kwargs={"config": config}),
    )
    monkeypatch.setattr(peers, "imported", lambda name, package: module)
    monkeypatch.setattr(peers, "version", lambda package: "0.6")
    given = SimpleNamespace(shape=SHAPE, elements=SHAPE.elements, sets=(("a0", "b0", "out0"),))
    assert Quack().prepare(given).choice == {"tile_n": 256}
    assert Tuner.tuned == 1
    prepared = Quack().prepare(given, {"tile_n": 192})
    prepared.launch(0)
    assert Tuner.ran[1:] == [192, 192]
    assert (Tuner.tuned, prepared.choice) == (1, {"tile_n": 192})
    prepared.release()
    assert Tuner.configs is Tuner.every


@pytest.mark.parametrize("plans", [1, 2])
def test_each_object_of_cublaslt_is_freed_once_also_where_a_later_one_has_no_plan(plans, cublaslt, monkeypatch):
    monkeypatch.setattr(Matmul, "plans", plans)
    if plans == 1:
        with pytest.raises(MemoryError):
            CublasLt().prepare(cublaslt)
    else:
        prepared = CublasLt().prepare(cublaslt)
        assert [each.freed for each in Matmul.made] == [0, 0]
        prepared.release()
        assert [each.executed for each in Matmul.made] == [1, 1]
    assert [each.freed for each in Matmul.made] == [1, 1]


def test_ours_is_tuned_once_and_planned_with_what_was_found(monkeypatch):
    tuned, planned = [], []

    def tune(problem, stand, pool):
        tuned.append(problem)
        config = values_of(WgmmaConfig(tile_n=200, stages=3))
        return SimpleNamespace(entry=SimpleNamespace(kernel="wgmma", config=config))

    def plan(a, b, *, out, kernel, config):
        planned.append((kernel, config))
        return SimpleNamespace(accumulator=fp32)

    doubles = {"tune": tune, "plan": plan, "backend": lambda device: None}
    for name, double in doubles.items():
        monkeypatch.setattr(contenders, name, double)
    for name in ("CompilerPool", "GpuStand"):
        monkeypatch.setattr(contenders, name, lambda *arguments: nullcontext())
    sets = (("a0", "b0", "out0"),)
    given = SimpleNamespace(problem="a problem", hardware=None, device=0, sets=sets, elements=SHAPE.elements, scales={})
    choice = json.loads(json.dumps(TilewrightTuned().prepare(given).choice))
    again = TilewrightTuned().prepare(given, choice)
    assert tuned == ["a problem"]
    assert planned == [("wgmma", WgmmaConfig(tile_n=200, stages=3))] * 2
    assert again.choice == choice
    assert again.about["config"]["tile_n"] == 200


def test_the_untuned_choice_does_not_depend_on_what_was_tuned(monkeypatch):
    asked = []

    def choose(problem, hardware, **how):
        asked.append((problem.batch_invariant, how))
        raise NotImplementedError("no kernel takes it")

    monkeypatch.setattr(contenders, "choose", choose)
    with pytest.raises(Absent, match="no kernel takes it"):
        Tilewright().prepare(FakeInputs())
    with pytest.raises(Absent, match="no kernel takes it"):
        contenders_named(["tilewright:invariant"])[0].prepare(FakeInputs())
    assert asked == [(wanted, {"kernel": "auto", "config": None, "measured": False}) for wanted in (False, True)]


def test_configs_are_called_by_their_kernel_and_the_fields_that_are_not_the_usual_ones():
    assert Tilewright("wgmma", WgmmaConfig(tile_n=200, stages=3)).name == "tilewright:wgmma,tile_n=200,stages=3"
    assert Tilewright("wgmma", WgmmaConfig()).name == "tilewright:wgmma,usual"
    assert Tilewright("wgmma").name == "tilewright:wgmma"
    assert Tilewright("wgmma_hilbert", ScheduleConfig("blocked")).name == "tilewright:wgmma_hilbert,schedule=blocked"


# ---------------------------------------------------------------- sweeps and the self-check


class Swept(Tilewright):
    """A Config that takes as long as it says."""

    def __init__(self, name, seconds, right=True):
        super().__init__(name=name)
        self.fake = FakeContender(name, seconds, right=right)

    def prepare(self, given, choice=None):
        return self.fake.prepare(given, choice)


CONFIGS = [Swept("slow", 3e-3), Swept("quick", 1e-3), Swept("wrong", 1e-4, right=False), Swept("middle", 2e-3)]


@pytest.fixture
def settings(monkeypatch):
    monkeypatch.setattr(session, "Inputs", FakeInputs)
    monkeypatch.setattr(session, "swept", lambda given, text, name: [c for c in CONFIGS if text in c.name])
    planned = Swept("tilewright", 5e-3)
    return Settings((planned, FakeContender("cublas", 1.5e-3)), PROTOCOLS, "cublas", configs="")


def test_the_best_configs_are_measured_in_place_of_the_planners_and_wrong_ones_are_reported(settings):
    record = measure(SHAPE, settings, lambda share, doing: None).as_dict()
    listed = {entry["contender"]: entry for entry in record["contenders"]}
    assert list(listed) == ["quick", "middle", "wrong", "cublas"]
    assert listed["quick"]["settled"]["ratio"]["median"] == pytest.approx(1.5)
    assert listed["wrong"]["status"] == "wrong"
    swept = {entry["contender"]: entry for entry in record["sweep"]}
    assert list(swept) == ["cublas", *(config.name for config in CONFIGS)]
    assert swept["slow"]["settled"]["ratio"]["median"] == pytest.approx(0.5)


def test_a_sweep_that_is_interrupted_is_what_is_known(settings, monkeypatch):
    monkeypatch.setattr(CONFIGS[0].fake.launch, "interrupts", 100)
    monkeypatch.setattr(CONFIGS[0].fake.launch, "count", 0)
    outcome = measure(SHAPE, settings, lambda share, doing: None)
    assert outcome.comparison.interrupted
    assert "quick" in [entry.contender for entry in outcome.comparison.entries]


def test_best_takes_no_more_than_there_are():
    record = compare(CONFIGS[:2], FakeInputs(), [session.SWEEP])
    assert [config.name for config in best(record, CONFIGS[:2], 9)] == ["quick", "slow"]


def test_disagreement_is_how_far_the_median_ratio_is_from_one():
    twice = [FakeContender("first", 1e-3), FakeContender("second", 1.02e-3)]
    found = disagreement(compare(twice, FakeInputs(), PROTOCOLS))
    assert found == pytest.approx({"burst": 0.02, "settled": 0.02})


def test_serial_launches_are_those_of_the_plan_without_their_overlap(monkeypatch):
    planned, launched = [], []

    def plan(a, b, **options):
        planned.append(options)
        return SimpleNamespace(accumulator=fp32)

    monkeypatch.setattr(contenders, "plan", plan)
    monkeypatch.setattr(GpuBackend, "__init__", lambda *arguments: None)
    contenders._serial_gpu.cache_clear()
    given = FakeInputs()
    given.sets = (("a0", "b0", "out0"),)
    for name in ("tilewright", "tilewright:serial"):
        contenders_named([name])[0].prepare(given)
    contenders._serial_gpu.cache_clear()
    usual, serial = planned
    gpu = serial.pop("backend")
    assert usual == serial
    shape = LaunchShape(264, 256, 1, 0, dependent=True)
    monkeypatch.setattr(GpuBackend, "prepare", lambda *arguments: launched.append(arguments[2]))
    gpu.prepare(None, shape, None)
    assert launched == [shape._replace(dependent=False)]


def test_what_batch_invariance_costs_is_measured_of_one_kernel_whatever_the_planner_offers_few_rows(monkeypatch):
    """The suite of the README's table; the planner offers gemv to the others."""
    planned = []

    def plan(a, b, *, kernel, config, batch_invariant, out):
        planned.append((batch_invariant, kernel))
        return SimpleNamespace(accumulator=fp32)

    monkeypatch.setattr(contenders, "plan", plan)
    suite = suites.load("invariant")
    assert {1, 16, 256} < {shape.m for shape in suite.shapes}
    for shape in suite.shapes:
        given = FakeInputs(shape)
        given.sets = (("a0", "b0", "out0"),)
        for contender in contenders_named(suite.contenders[:2]):
            contender.prepare(given)
    assert {kernel for invariant, kernel in planned if invariant} == {"wgmma"}
    assert {kernel for invariant, kernel in planned if not invariant} == {"gemv", "wgmma"}
