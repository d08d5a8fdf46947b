"""tilewright from outside, as type checkers see the installed wheel."""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import tilewright

ROOT = Path(__file__).parents[2]

MOST_BYTES = 1_000_000
"""Of a wheel."""

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


def built(folder, project=ROOT, **environment):
    """The wheel of a project of this tree, which is made in a folder."""
    pytest.importorskip("hatchling")
    there = set(folder.glob("*.whl"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=project, env={**os.environ, **environment}, check=True, capture_output=True)
    (made,) = set(folder.glob("*.whl")) - there
    return made


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The two wheels of a release."""
    folder = tmp_path_factory.mktemp("user")
    return [built(folder, TILEWRIGHT_RELEASE="1"), built(folder, ROOT / "wheels/emulator")]


def contents(wheel):
    """The files of a wheel, those about it apart."""
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def metadata(wheel):
    """What a wheel says about itself."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


@pytest.fixture(scope="module")
def users_python(wheels):
    """The Python of a user who installed tilewright's wheels beside its dependencies."""
    folder = wheels[0].parent
    venv.create(folder / "venv", symlinks=True)
    (site,) = folder.glob("venv/lib/python*/site-packages")
    for wheel in wheels:
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


SOURCES = {
    str(path.relative_to(ROOT / "src"))
    for path in (ROOT / "src/tilewright").rglob("*")
    if path.is_file() and path.suffix != ".pyc"
}


def test_the_wheels_of_a_release_are_the_package_and_small(wheels):
    package, emulator = map(contents, wheels)
    assert package | emulator == SOURCES
    assert not package & emulator
    assert "tilewright/py.typed" in package
    assert max(wheel.stat().st_size for wheel in wheels) < MOST_BYTES
    version = f"Version: {tilewright.__version__}\n"
    assert all(version in metadata(wheel) for wheel in wheels)
    assert f"Requires-Dist: tilewright-emulator=={tilewright.__version__}\n" in metadata(wheels[0])


def test_a_wheel_from_sources_is_the_whole_package(tmp_path):
    wheel = built(tmp_path)
    assert contents(wheel) == SOURCES
    assert "tilewright-emulator" not in metadata(wheel)


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
