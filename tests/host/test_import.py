"""Importing must stay light: a command or a program that only names tilewright pays for nothing else."""

import json
import subprocess
import sys

import pytest

HEAVY = {"cuda", "torch", "cupy", "jax", "ml_dtypes", "numpy", "tilewright.emulator", "tilewright.kernels"}


def modules_after(statement):
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
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


def test_every_public_name_exists_and_an_unknown_one_is_explained():
    import tilewright

    for name in tilewright.__all__:
        assert getattr(tilewright, name) is not None
    assert {"matmul", "check", "ladder", "__version__"} <= set(dir(tilewright))
    with pytest.raises(AttributeError, match="matmul"):
        getattr(tilewright, "matmull")  # noqa: B009
