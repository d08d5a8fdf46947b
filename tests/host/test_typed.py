"""tilewright from outside, as type checkers see the installed wheel."""

import ast
import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import tilewright

ROOT = Path(__file__).parents[2]

MOST_BYTES = 1_250_000
"""Of the wheel: text of some 570 files, compressed to a third."""

RIGHT = """
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright.bench import Cublas, Inputs, Shape, Tilewright, compare
from tilewright.emulator import Counters, Device, Kernel, Observer


class Linear:
    def __init__(self, weight: "np.ndarray[tuple[int, int], np.dtype[np.float32]]") -> None:
        self.plan: tw.Plan = tw.plan(weight, weight, activation="gelu", config=tw.SimtConfig(tile_m=64))
        self.plans: tw.RangePlan = tw.plan(weight, weight, m=range(1, 9))


def check(path: Path) -> list[str]:
    result: tw.CheckResult = tw.check(path, 2.5, grid=1, block=256)
    try:
        tw.matmul(1, 2)
    except (tw.ConfigError, tw.CudaError, tw.CompilerMissing, tw.CompilationError) as error:
        caught: tw.TilewrightError = error
        print(caught, tw.__version__)
    return [str(report) for report in result.as_dict()]


def run(ptx: str) -> Counters:
    device = Device(observers=[Observer()])
    kernel: Kernel = device.load(ptx)
    return device.launch(kernel, 1, (32, 1, 1), [device.allocate(16)])


rungs: list[object] = tw.ladder.measure(64, ["simt"])["rungs"]
record = compare([Tilewright("mma"), Cublas()], Inputs(Shape(64, 64, 64)), baseline="cublas").as_dict()
"""
WRONG = """
import tilewright as tw

tw.matmull
tw.Plann
tw.ladder.measur
tw.matmul(1, 2, activation=3)
tw.plan(1, 2, m=3)
tw.plan(1, 2).kernell
tw.check("it", grid=1, blocks=2)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this tree, as a path."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("user")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def users_python(wheel):
    """The Python of a user who installed tilewright's wheel beside its dependencies."""
    folder = wheel.parent
    venv.create(folder / "venv", symlinks=True)
    (site,) = folder.glob("venv/lib/python*/site-packages")
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name, text in (("right.py", RIGHT), ("wrong.py", WRONG)):
        (folder / name).write_text(text)
    return folder / "venv/bin/python"


def mypy(python, name):
    folder = python.parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--cache-dir", folder / "mypy"]
    done = subprocess.run(
        [*map(str, command), "--config-file=", name], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if ": error:" in line]


def pyright(python, name):
    pytest.importorskip("basedpyright")
    folder = python.parents[2]
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "include": [name]}))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", str(python)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [f"{each['range']['start']['line']}: {each['message']}" for each in found if each["severity"] == "error"]


def test_the_wheel_is_the_package_and_small(wheel):
    sources = (path for path in (ROOT / "src/tilewright").rglob("*") if path.is_file() and path.suffix != ".pyc")
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {str(path.relative_to(ROOT / "src")) for path in sources}
    assert "tilewright/py.typed" in packed
    assert wheel.stat().st_size < MOST_BYTES


@pytest.mark.skipif(sys.platform == "win32", reason="the folders of an environment have other names")
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_users_code_is_checked_strictly_against_the_wheel(users_python, checker):
    assert checker(users_python, "right.py") == []
    found = checker(users_python, "wrong.py")
    for name in ("matmull", "Plann", "measur", "activation", '"plan"', "kernell", '"check"'):
        assert [line for line in found if name in line], (name, found)


def test_the_three_lists_of_public_names_agree():
    tree = ast.parse((ROOT / "src/tilewright/__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    seen = {str(name.asname): f"{node.module}.{name.name}" for node in imports for name in node.names}
    homes = {name: f"tilewright.{home}.{name}" for name, home in tilewright._HOMES.items()}
    assert seen == {**homes, "ladder": "tilewright.ladder"}
    assert sorted(seen) == sorted(tilewright.__all__)
