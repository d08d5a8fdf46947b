"""The ladder on a GPU, with contenders that only say how long they take: what is measured, kept and refused."""

import json
import sys
import weakref
from types import SimpleNamespace

import pytest

from support.commands import error, in_json, invoke
from support.contenders import FakeContender, FakeInputs
from tilewright import bench
from tilewright.bench import session
from tilewright.cli.ladder.table import published
from tilewright.hardware import H200
from tilewright.kernels.ladder import LADDER, gains
from tilewright.ladder import measure
from tilewright.ladder.climb import begun
from tilewright.ladder.options import LadderOptions
from tilewright.ladder.timed import time_all


def test_side_steps_have_no_gain_and_others_pass_over_them():
    seconds = {"wmma_gmem": 8.0, "mma_swizzled": 2.0, "volta_mma": 100.0, "sparse_mma": 1.0, "mma": 0.5, "wgmma": 0.1}
    assert gains(seconds) == {"mma_swizzled": 4.0, "mma": 4.0}
    assert gains({name: each for name, each in seconds.items() if name != "wmma_gmem"})["mma"] == 4.0
    assert [name for name, rung in LADDER.items() if rung.side_step] == ["volta_mma", "sparse_mma"]


ABOUT = {"gpu": "NVIDIA H200", "date": "2026-11-21T13:05:00+00:00", "command": "tilewright ladder --json"}


@pytest.fixture
def gpu(monkeypatch):
    """A GPU on which each rung takes 2 ms and cuBLAS 1.5 ms; others may be put in the place of a rung."""
    made = {}
    monkeypatch.setattr("tilewright.api.gpu_count", lambda: 1)
    monkeypatch.setattr("tilewright.backends.gpu.backend", lambda device: SimpleNamespace(hardware=H200))
    monkeypatch.setattr(session, "machine", lambda: ABOUT)
    monkeypatch.setattr(bench, "Inputs", FakeInputs)
    monkeypatch.setattr(bench, "Tilewright", lambda *_, name: made.get(name, FakeContender(name, 2e-3)))
    monkeypatch.setattr(bench, "Cublas", lambda: FakeContender("cublas", 1.5e-3))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return made


def test_ctrl_c_on_a_gpu_keeps_what_was_measured_and_verifies_nothing_else(gpu):
    gpu["sparse_mma"] = FakeContender("sparse_mma", interrupts=1)  # while it is verified; its data are of its own
    record = in_json("ladder", "--rungs", "wmma_gmem,sparse_mma", "--shape", "4096,2048,1024", code=130)
    assert (record["gpu"], record["interrupted"], record["verified"]) == (ABOUT["gpu"], True, True)
    measured, cut = record["rungs"]
    assert (measured["verified"], cut["verified"]) == (True, None)
    assert measured["cublas_ratio"] == pytest.approx(0.75)


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (MemoryError("16 GB"), 0)])
def test_groups_that_were_measured_stay_where_the_next_has_no_inputs(gpu, monkeypatch, error, code):
    class Inputs(FakeInputs):
        def __init__(self, shape, *, data, seed):
            if data == "2:4":
                raise error
            super().__init__(shape, data=data, seed=seed)

    monkeypatch.setattr(bench, "Inputs", Inputs)
    record = in_json("ladder", "--rungs", "wmma_gmem,volta_mma,sparse_mma", "--shape", "4096,2048,1024", code=code)
    measured, second, lost = record["rungs"]
    assert measured["tflops"] == pytest.approx(second["tflops"])
    assert lost["verified"] is None
    assert record["interrupted"] is (code == 130)
    assert ("not enough memory" in lost.get("skipped", "")) is (code == 0)


def test_the_inputs_of_a_group_are_given_up_before_the_next_are_made(gpu, monkeypatch):
    alive = []

    class Inputs(FakeInputs):
        def __init__(self, shape, *, data, seed):
            super().__init__(shape, data=data, seed=seed)
            alive.append(sum(each() is not None for each in made))
            made.append(weakref.ref(self))

    made = []
    monkeypatch.setattr(bench, "Inputs", Inputs)
    in_json("ladder", "--rungs", "wmma_gmem,volta_mma,sparse_mma", "--shape", "4096,2048,1024")
    assert alive == [0, 0, 0]


def test_a_result_that_is_not_written_has_no_error_in_json(gpu):
    gpu["mma"] = FakeContender("mma", right=False)  # the fake's error is NaN
    record = in_json("ladder", "--rungs", "mma", "--shape", "4096,2048,1024", code=1)
    assert record["rungs"][0]["verified"] is False
    assert "relative_error" not in record["rungs"][0]


def test_a_picture_that_cannot_be_drawn_is_refused_before_the_climb(gpu, monkeypatch, tmp_path):
    def climb(*_):
        raise AssertionError

    monkeypatch.setattr("tilewright.ladder.timed.time_all", climb)
    assert "does not exist: make it first" in error("ladder", "--plot", tmp_path / "missing" / "ladder.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install matplotlib" in error("ladder", "--plot", tmp_path / "ladder.png")


def test_ctrl_c_before_the_first_rung_draws_nothing_and_prints_one_object(gpu, tmp_path):
    gpu["mma"] = FakeContender("mma", interrupts=0)
    path = tmp_path / "ladder.png"
    assert in_json("ladder", "--rungs", "mma", "--plot", path, code=130)["interrupted"] is True
    assert not path.exists()
    done = invoke("ladder", "--rungs", "mma", code=130)
    assert done.stdout == ""
    assert "interrupted; no rung was climbed before" in done.stderr


def test_published_figures_are_of_the_shape():
    results = {m: begun(LADDER["uncoalesced"], (m, m, m), LadderOptions(), H200) for m in (4096, 5120)}
    figures = [published(each.as_dict()) for each in results.values()]
    assert [figure and figure.tflops for figure in figures] == [0.243, None]


def test_a_record_is_shown_and_drawn_again_as_it_was_without_a_gpu(gpu, tmp_path, monkeypatch):
    climbing = ("ladder", "--rungs", "simt,wgmma_basic,wgmma", "--shape", "4096", "--settled")
    path, picture = tmp_path / "record.json", tmp_path / "ladder.svg"
    path.write_text(invoke(*climbing, "--json").stdout)
    shown = invoke(*climbing).stdout
    monkeypatch.setattr("tilewright.api.gpu_count", None)
    again = invoke("ladder", path, "--plot", picture)
    assert again.stdout == shown
    assert in_json("ladder", path) == json.loads(path.read_text())
    assert f"drawn into {picture}" in again.stderr
    for words in ("4096x4096x4096, NVIDIA H200, 2026-11-21", "settled", "wgmma_basic", " 317 H100"):
        assert words in shown


@pytest.mark.parametrize(
    ("written", "arguments", "message"),
    [
        (None, (), "cannot be read: No such file"),
        ("{", (), "is not JSON"),
        ("[]", (), ": name a file that `tilewright ladder --json` wrote"),
        (None, ("--rungs", "simt"), "put commas, and no blanks, between the names of --rungs"),
        ("[]", ("--shape", "4096"), "--shape is for measuring"),
        ("[]", ("--plot", "ladder.xyz"), "has a suffix that is not drawn"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, written, arguments, message):
    path = tmp_path / "record.json"
    if written is not None:
        path.write_text(written)
    assert message in error("ladder", path, *arguments)


@pytest.mark.parametrize("backend", ["gpu", "emulator"])
def test_a_record_without_a_part_that_is_shown_is_refused(gpu, tmp_path, monkeypatch, backend):
    if backend == "emulator":
        monkeypatch.setattr("tilewright.api.gpu_count", lambda: 0)
    record = in_json("ladder", "--rungs", "coalesced", "--shape", "32")
    path = tmp_path / "record.json"
    optional = {
        "verified", "interrupted", "command", "date", "ignored", "relative_error", "skipped", "config", "title", "idea",
        "side_step", "layout", "dtype", "note", "time_us", "speed_of_light_share", "cublas_ratio", "gain", "gain_over",
        "counters", "l2_bytes", "smem_bytes",
    }  # fmt: skip
    (rung,) = record["rungs"]
    figure = "tflops" if backend == "gpu" else "rereads"
    assert figure in rung
    for part in (record, rung):
        for key in (part.keys() - optional - {figure}) | ({"verified"} if part is rung else set()):
            kept = part.pop(key)
            path.write_text(json.dumps(record))
            assert "is not a record" in error("ladder", path), key
            part[key] = None if key in ("rungs", "published") else kept
            if key in ("rungs", "published"):
                path.write_text(json.dumps(record))
                assert "is not a record" in error("ladder", path), key
            part[key] = kept
    assert f"is one of another command: use `tilewright ladder {path}` to see it" in error("bench", path)
    rung["road"] = "another road"
    path.write_text(json.dumps(record))
    invoke("ladder", path, "--plot", tmp_path / "ladder.svg")


def test_the_pictures_words_and_marks_are_apart(gpu, tmp_path, monkeypatch):
    """The legend lies below the axes, and rates stand in a column of their own behind the bars."""
    figures = []
    Figure = pytest.importorskip("matplotlib.figure").Figure
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    picture = tmp_path / "ladder.png"
    invoke("ladder", "--rungs", "simt,wgmma_basic,wgmma", "--shape", "4096", "--settled", "--plot", picture)
    (figure,) = figures
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    assert legend.get_window_extent().y1 < axes.get_window_extent().y0
    labels = [text.get_text() for text in legend.get_texts()]
    assert {"CUDA cores", "Hopper", "cuBLAS, same data", "published, of other GPUs"} < set(labels)
    assert any("settled" in label for label in labels)
    rates = [text for text in axes.texts if text.get_text()]
    assert len(rates) == 6
    assert all(text.get_window_extent().x0 >= axes.get_window_extent().x1 for text in rates)
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in rates)


def test_rungs_are_timed_beside_cublas_on_the_same_data(monkeypatch):
    seconds = {"wmma_gmem": 3e-3, "volta_mma": 9e-3, "sparse_mma": 1e-3, "mma": 2e-3}
    met = []

    class Inputs(FakeInputs):
        def __init__(self, shape, *, data, seed):
            super().__init__(shape, data=data, seed=seed)
            met.append((shape.dtype, shape.layout, data))

    monkeypatch.setattr(bench, "Inputs", Inputs)
    monkeypatch.setattr(bench, "Tilewright", lambda kernel, config, name: FakeContender(name, seconds[kernel]))
    monkeypatch.setattr(bench, "Cublas", lambda: FakeContender("cublas", 1.5e-3))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    results = [begun(LADDER[name], (4096, 2048, 1024), LadderOptions(), H200) for name in seconds]
    assert time_all(results, 0, False, lambda share: None) is False
    assert met == [("fp16", "nn", "randn"), ("fp16", "tn", "randn"), ("fp16", "nn", "2:4")]
    found = {each.rung.name: each.as_dict() for each in results}
    assert {name: rung["cublas_ratio"] for name, rung in found.items()} == pytest.approx(
        {name: 1.5e-3 / each for name, each in seconds.items()}
    )
    assert {name: rung.get("gain") for name, rung in found.items()} == pytest.approx(
        {"wmma_gmem": None, "volta_mma": None, "sparse_mma": None, "mma": 1.5}
    )


def test_a_rung_that_fails_on_a_gpu_is_bad_news(gpu):
    gpu["mma"] = FakeContender("mma", error=RuntimeError("no memory"))
    (result,) = [begun(LADDER["mma"], (4096, 2048, 1024), LadderOptions(), H200)]
    time_all([result], 0, False, lambda share: None)
    assert result.verified is False
    assert "no memory" in result.skipped


def test_a_record_of_a_gpu_says_which_when_and_by_what(gpu):
    record = in_json("ladder", "--rungs", "mma", "--shape", "4096,2048,1024")
    assert ABOUT.items() <= record.items()
    assert (record["m"], record["n"], record["k"]) == (4096, 2048, 1024)
    assert measure((4096, 2048, 1024), ["mma"]) == {**record, "command": "tilewright.ladder.measure"}
    assert not ABOUT.keys() & measure(32, ["coalesced"], backend="emulator").keys()


def test_a_picture_that_fails_late_does_not_take_the_record_with_it(gpu, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pytest.importorskip("matplotlib.figure").Figure, "savefig", full)
    climbing = ("ladder", "--rungs", "mma", "--shape", "4096", "--plot", tmp_path / "ladder.png")
    done = invoke(*climbing, "--json", code=2)
    record = json.loads(done.stdout)
    assert record["rungs"][0]["tflops"]
    assert record["error"] in done.stderr
    assert "cannot be written: No space left on device" in done.stderr
    assert "The product agrees with float64." in invoke(*climbing, code=2).stdout


def test_a_gain_says_over_what(gpu):
    record = in_json("ladder", "--rungs", "uncoalesced,simt", "--shape", "256")
    assert [(rung.get("gain"), rung.get("gain_over")) for rung in record["rungs"]] == [
        (None, None),
        (1.0, "uncoalesced"),
    ]
