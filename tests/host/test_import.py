"""Importing must stay light: a command or a program that only names tilewright pays for nothing else."""

import json
import subprocess
import sys

import pytest

HEAVY = {"cuda", "torch", "cupy", "jax", "ml_dtypes", "numpy", "tilewright.emulator", "tilewright.kernels"}


def modules_after(statement):
    """What a statement loads: without what every process of the environment has, such as cuda by cuda-bindings 12.9."""
    code = (
        f"import json, sys\nfirst = {{*sys.modules}}\n{statement}\nprint(json.dumps(sorted({{*sys.modules}} - first)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [("import tilewright", set()), ("import tilewright.cli", {"typer"})],
)
def test_import_loads_nothing_heavy(statement, allowed):
    loaded = modules_after(statement)
    assert "tilewright" in loaded
    assert not loaded & ((HEAVY | {"typer", "rich"}) - allowed)


def test_planning_loads_what_it_needs(tmp_path, monkeypatch):
    """Of a first call with a kernel on disk, importing is most; none of these is needed for `wgmma`.

    Where something was tuned, the digest of all kernels is needed.
    """
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILEWRIGHT_CACHE_PATH", raising=False)
    plan = """
import numpy as np
import tilewright as tw
from tilewright.backends.absent import AbsentGpu
from tilewright.jit.compile import nvrtc_version
from tilewright.planner.choose import choose
from tilewright.planner.call_arguments import Arrays
from tilewright.planner.request import operands_of
from tilewright.planner.binding import bind

tw.plan
nvrtc_version()
a, b, out = (np.empty((64, 64), np.float16) for _ in range(3))
binding = bind(operands_of(Arrays.of((a, b, None, None, out)), None), activation=None)
choice = choose(binding.problem, AbsentGpu().hardware)
assert choice.kernel.name == "wgmma"
choice.launches(AbsentGpu().hardware)
"""
    unneeded = {"importlib.metadata", "tempfile", "filelock", "logging", "numpy.ma", "numpy.typing"}
    unneeded |= {"tilewright.kernels.ladder"}
    unneeded |= {f"tilewright.kernels.{name}" for name in ("mma", "simt", "copy", "tiled")}
    assert not modules_after(plan) & (unneeded | (HEAVY - {"numpy", "tilewright.kernels"}))


def test_every_public_name_exists_and_an_unknown_one_is_explained():
    import tilewright

    for name in tilewright.__all__:
        assert getattr(tilewright, name) is not None
    assert {"matmul", "check", "ladder", "__version__"} <= set(dir(tilewright))
    with pytest.raises(AttributeError, match="matmul"):
        getattr(tilewright, "matmull")  # noqa: B009
