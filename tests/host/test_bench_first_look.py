"""`tilewright bench --first-look`: what an earlier record knows of peers holds for a new one."""

import json

import pytest

from support.commands import error, invoke
from support.contenders import MACHINE, FakeContender, fake_machine
from tilewright.bench import record

TIMES = {"tilewright": 1e-3, "cublas": 1.1e-3, "triton": 1.4e-3, "quack": 0.98e-3, "tilewright:tuned": 0.9e-3}
CONTENDERS = tuple(word for name in TIMES for word in ("--contender", name))
OPTIONS = ("--shape", "8,8,8", *CONTENDERS, "--against", "best", "--rounds", 2, "--cycles", 2, "--slice", 0.05)


@pytest.fixture
def made():
    """The contenders that were made, by name."""
    return {}


@pytest.fixture(autouse=True)
def machine(monkeypatch, made):
    """A GPU on which QuACK is the quickest peer."""

    def one(name):
        made.setdefault(name, []).append(FakeContender(name, TIMES[name], tunes=name not in ("tilewright", "cublas")))
        return made[name][-1]

    return fake_machine(monkeypatch, {name: lambda name=name: one(name) for name in TIMES})


def bench(*arguments):
    return invoke("bench", *OPTIONS, *arguments)


@pytest.fixture
def earlier(tmp_path, made):
    """A record that looked at all peers."""
    path = tmp_path / "earlier.json"
    bench("--resume", path)
    made.clear()
    return path


def content(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("place", ["--resume", "--output"])
def test_the_best_peers_and_the_choices_are_taken(earlier, made, tmp_path, place):
    path = tmp_path / "later.json"
    bench(place, path, "--first-look", earlier)
    (product,) = content(path)["products"]
    names = [each["contender"] for each in product["contenders"]]
    assert "heat" not in product
    assert names == ["tilewright", "cublas", "quack", "tilewright:tuned"]
    assert [peer.tuned for peer in made["quack"]] == [[]]
    assert made["quack"][0].given == [{"tile": 1}]
    assert content(path)["first_look"] == {
        "date": MACHINE["date"],
        "best": {"8x8x8 bf16 nt": {"burst": "quack", "settled": "quack"}},
    }


def test_a_record_that_began_so_is_gone_on_with(earlier, made, tmp_path):
    path = tmp_path / "later.json"
    bench("--shape", "16,8,8", "--shape", "32,8,8", "--resume", path, "--first-look", earlier, "--time-limit", 0)
    assert [each["m"] for each in content(path)["products"]] == [8]
    bench("--shape", "16,8,8", "--shape", "32,8,8", "--resume", path, "--first-look", earlier)
    first, *others = content(path)["products"]
    assert "heat" not in first
    assert all([each["contender"] for each in other["heat"]] == ["cublas", "triton", "quack"] for other in others)


def test_our_own_choices_hold_for_the_same_kernels_alone(earlier, made, tmp_path, monkeypatch):
    bench("--output", tmp_path / "same.json", "--first-look", earlier)
    assert made["tilewright:tuned"][0].tuned == []
    monkeypatch.setattr(record, "kernels_digest", lambda: "other kernels")
    bench("--output", tmp_path / "other.json", "--first-look", earlier)
    assert len(made["tilewright:tuned"][1].tuned) == 1
    assert made["quack"][1].tuned == []


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ({"gpu": "NVIDIA H20"}, "has a GPU as GPU, and this run has NVIDIA H20: leave it out"),
        ({"versions": {"torch": "2.12", "cuda": "13.0"}}, "has 2.11 as torch, and this run has 2.12: leave it out"),
        ({"versions": {"torch": "2.11"}}, "has 13.0 as cuda, and this run has missing: leave it out"),
    ],
)
def test_a_record_of_other_peers_is_refused(earlier, fact, message, monkeypatch):
    monkeypatch.setattr(record, "machine", lambda: {**MACHINE, **fact})
    assert f"--first-look={earlier} {message}" in error("bench", *OPTIONS, "--first-look", earlier)


def test_what_is_no_record_of_that_kind_is_refused(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text("{}", encoding="utf-8")
    assert "is not a record" in error("bench", *OPTIONS, "--first-look", path)
