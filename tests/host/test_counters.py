"""Nsight Compute's counters of the ladder, with an ncu that is a script, and inputs without a GPU."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.commands import error, in_json, invoke
from support.contenders import FakeContender, FakeInputs, FakeLaunch
from tilewright import bench
from tilewright.bench import session
from tilewright.errors import UnavailableError
from tilewright.hardware import H200
from tilewright.kernels.ladder import LADDER
from tilewright.ladder import profiled
from tilewright.ladder.profile import METRICS, SHARES, STALL_METRIC, Profile
from tilewright.measure import ncu

# Made by hand, in the form of `ncu --csv --print-units base`: ncu's words come first, and kernels' names have commas.
LOG = """==PROF== Connected to process 812 (/usr/bin/python3.12)
==PROF== Profiling "wgmma" - 0: 0%....50%....100% - 5 passes
==PROF== Disconnected from process 812
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"Section Name","Metric Name","Metric Unit","Metric Value"
"0","812","python3.12","127.0.0.1","coalesced<float, 32>(Parameters)","1","7","(1024, 1, 1)","(16384, 1, 1)","0","9.0",\
"Command line profiler metrics","gpu__time_duration.sum","ns","24,117,856"
"0","812","python3.12","127.0.0.1","coalesced<float, 32>(Parameters)","1","7","(1024, 1, 1)","(16384, 1, 1)","0","9.0",\
"Command line profiler metrics","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","%","0"
"1","812","python3.12","127.0.0.1","wgmma","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0",\
"Command line profiler metrics","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","%","91.57"
"1","812","python3.12","127.0.0.1","wgmma","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0",\
"Command line profiler metrics","gpu__time_duration.sum","ns","n/a"
"""
TENSOR, DURATION = SHARES["tensor"], "gpu__time_duration.sum"


def test_a_log_has_the_values_of_each_launch():
    assert ncu.parse(LOG) == [{DURATION: 24_117_856.0, TENSOR: 0.0}, {TENSOR: 91.57, DURATION: None}]
    assert ncu.parse("==ERROR== nothing was profiled\n") == []


@pytest.fixture
def script(tmp_path):
    """A function that makes an ncu which lists metrics, prints words, and writes a log after it has run the command."""

    def make(log, listed="", words=""):
        (tmp_path / "log").write_text(log)
        path = tmp_path / "ncu"
        path.write_text(
            f"#!{sys.executable}\nimport subprocess, sys\n"
            f"if sys.argv[1] == '--query-metrics':\n    print({listed!r})\n    sys.exit()\n"
            f"at = sys.argv.index('--metrics')\nsubprocess.run(sys.argv[at + 2:], check=True)\n"
            f"open({str(tmp_path / 'asked')!r}, 'w').write(sys.argv[at + 1])\nprint({words!r})\n"
            f"start = sys.argv[sys.argv.index('--profile-from-start') + 1]\n"
            f"open({str(tmp_path / 'start')!r}, 'w').write(start)\n"
            f"open(sys.argv[sys.argv.index('--log-file') + 1], 'w').write(open({str(tmp_path / 'log')!r}).read())\n"
        )
        path.chmod(0o755)
        return path

    return make


def test_metrics_that_this_gpu_lacks_are_not_asked_for_and_have_no_value(script, tmp_path):
    listed = "Device H200\nsm__pipe_tensor_cycles_active   Counter  cycle  # of cycles\ngpu__time_duration  Counter\n"
    tool = script(LOG, listed)
    command = [sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    first, second = ncu.profile(tool, command, (TENSOR, DURATION, STALL_METRIC.format("gmma")))
    assert first == {TENSOR: 0.0, DURATION: 24_117_856.0, STALL_METRIC.format("gmma"): None}
    assert second[TENSOR] == 91.57
    assert (tmp_path / "asked").read_text() == f"{TENSOR},{DURATION}"
    assert (tmp_path / "ran").exists()
    assert (tmp_path / "start").read_text() == "off"
    assert ncu.profile(tool, command, (TENSOR,), whole=True)[1] == {TENSOR: 91.57}
    assert (tmp_path / "start").read_text() == "on"


@pytest.mark.parametrize(
    ("log", "words", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "", "NVreg_RestrictProfilingToAdminUsers"),
        ("", "==ERROR== LibraryNotLoaded", "counted no launch.*LibraryNotLoaded"),
    ],
)
def test_an_ncu_that_counts_nothing_says_why(script, log, words, message):
    with pytest.raises(UnavailableError, match=f"(?s){message}"):
        ncu.profile(script(log, words=words), [sys.executable, "-c", ""], (TENSOR,))


def test_a_missing_ncu_names_what_has_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "PLACES", (f"{tmp_path}/*/ncu",))
    with pytest.raises(ncu.NcuMissing, match="install Nsight Compute"):
        ncu.find_ncu()
    for version in ("2025.1.0", "2025.3.1"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ncu").touch()
    assert ncu.find_ncu() == tmp_path / "2025.3.1/ncu"


def counted(tensor):
    """Values of a launch: warps wait for GMEM in 60% of their clocks, and issue in 40%."""
    values = dict.fromkeys(METRICS, 0.0) | {STALL_METRIC.format("gmma"): None, TENSOR: tensor}
    values |= {STALL_METRIC.format("long_scoreboard"): 60.0, STALL_METRIC.format("selected"): 40.0}
    return values | {METRICS[-3]: 100.0, METRICS[-2]: 40.0, DURATION: 2_500.0}


def test_a_profile_is_of_shares():
    made = Profile.of(counted(50.0))
    assert (made.tensor, made.fma, made.sectors_per_load, made.microseconds) == (0.5, 0.0, 2.5, 2.5)
    assert made.states == {"long_scoreboard": 0.6, "selected": 0.4}
    without = Profile.of(dict.fromkeys(METRICS))
    assert (without.tensor, without.states, without.sectors_per_load) == (None, {}, None)


class ProfiledInputs(FakeInputs):
    """Inputs with a torch that notes when it profiles."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.noted = []
        profiler = SimpleNamespace(start=lambda: self.noted.append("start"), stop=lambda: self.noted.append("stop"))
        cuda = SimpleNamespace(profiler=profiler, synchronize=lambda device: self.noted.append("wait"))
        self.torch = SimpleNamespace(cuda=cuda)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A GPU whose ncu counts a share of tensor cores that grows by 10% with each launch, in this process."""
    made = {}
    monkeypatch.setattr("tilewright.api.gpu_count", lambda: 1)
    monkeypatch.setattr("tilewright.backends.gpu.backend", lambda device: SimpleNamespace(hardware=H200))
    about = {"gpu": "NVIDIA H200", "date": "2026-11-23T13:05:00+00:00", "command": "tilewright ladder --json"}
    monkeypatch.setattr(session, "machine", lambda: about)
    monkeypatch.setattr(bench, "Inputs", ProfiledInputs)
    monkeypatch.setattr(bench, "Tilewright", lambda name, config: made.get(name, FakeContender(name, 2e-3)))
    monkeypatch.setattr(profiled, "find_ncu", lambda: tmp_path / "ncu")

    def profile(tool, command, metrics):
        assert command[:3] == [sys.executable, "-m", "tilewright.ladder.profiled"]
        monkeypatch.setattr(sys, "argv", command[2:])
        profiled.main()
        answers = json.loads(Path(command[-1]).read_text())
        return [counted(10.0 * number) for number, each in enumerate(answers, 1) if each["launched"]]

    monkeypatch.setattr(profiled, "profile", profile)
    return made


def test_the_ladder_is_profiled_and_shown_again(gpu, tmp_path, monkeypatch):
    climbing = ("ladder", "--counters", "--rungs", "coalesced,mma,wgmma", "--shape", "4096")
    record = in_json(*climbing)
    assert (record["counters"], record["verified"]) == (True, True)
    assert [rung["profile"]["tensor"] for rung in record["rungs"]] == pytest.approx([0.1, 0.2, 0.3])
    assert not any("time_us" in rung for rung in record["rungs"])
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    shown = invoke(*climbing).stdout
    monkeypatch.setattr("tilewright.api.gpu_count", None)
    assert invoke("ladder", path).stdout == shown
    assert "long_scoreboard 60%" in shown
    assert "selected 40%" not in shown
    for road in ("CUDA cores", "warp tensor cores", "Hopper"):
        assert road in shown
    del record["rungs"][0]["profile"]["states"]
    path.write_text(json.dumps(record))
    assert "states is missing" in error("ladder", path)


def test_a_rung_that_fails_is_left_out_and_the_next_has_its_own_counters(gpu):
    gpu["mma"] = FakeContender("mma", right=False)
    gpu["mma_warp"] = FakeContender("mma_warp", absent="not here")
    record = in_json("ladder", "--counters", "--rungs", "wmma_gmem,mma_warp,mma", "--shape", "4096", code=1)
    first, absent, wrong = record["rungs"]
    assert "not here" in absent["skipped"]
    assert absent["verified"] is None
    assert "profile" not in absent
    assert (first["verified"], wrong["verified"]) == (True, False)
    assert wrong["profile"]["tensor"] == pytest.approx(0.3)


def test_counters_need_a_gpu_and_no_clock(gpu, monkeypatch):
    assert "measures no time" in error("ladder", "--counters", "--settled")
    monkeypatch.setattr("tilewright.api.gpu_count", lambda: 0)
    assert "which need a GPU" in error("ladder", "--counters")


def test_one_launch_lies_between_start_and_stop(gpu):
    inputs = ProfiledInputs()

    class Noting(FakeLaunch):
        def __call__(self, number):
            super().__call__(number)
            inputs.noted.append(number)

    gpu["wgmma"] = FakeContender("wgmma")
    gpu["wgmma"].launch = Noting(2e-3)
    answer = {}
    profiled.launch({"name": "wgmma", "config": {}}, inputs, answer)
    assert inputs.noted[inputs.noted.index("start") :] == ["start", 0, "wait", "stop"]
    assert answer == {"launched": True, "verified": True, "error": 0.001}


RECORD = json.loads((Path(__file__).parents[2] / "results/counters_h200.json").read_text())


def test_the_record_has_every_rung_and_whole_shares():
    assert [rung["name"] for rung in RECORD["rungs"]] == list(LADDER)
    assert RECORD["verified"] is True
    for rung in RECORD["rungs"]:
        assert sum(rung["profile"]["states"].values()) == pytest.approx(1, abs=0.02), rung["name"]
    assert "barrier 67%" in invoke("ladder", Path(__file__).parents[2] / "results/counters_h200.json").stdout


def test_the_hardware_and_the_emulator_count_the_same_sectors():
    emulated = json.loads((Path(__file__).parents[2] / "results/counters_emulator.json").read_text())
    ours = {rung["name"]: rung["sectors_per_load"] for rung in emulated["rungs"]}
    theirs = {rung["name"]: rung["profile"]["sectors_per_load"] for rung in RECORD["rungs"]}
    compared = {name for name in theirs if theirs[name] is not None and ours.get(name) is not None}
    assert len(compared) == 17
    for name in compared:
        assert theirs[name] == pytest.approx(ours[name]), name
