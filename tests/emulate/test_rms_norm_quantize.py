"""examples/rms_norm_quantize.py in the emulator: its codes and scales, its product, and its options."""

import re
import shlex

import ml_dtypes
import numpy as np
import pytest
import rms_norm_quantize as example

import tilewright as tw


@pytest.fixture(autouse=True)
def _without_a_gpu(monkeypatch):
    monkeypatch.setattr(example, "has_gpu", lambda: False)


def test_it_runs(capsys):
    assert example.main(["--rows", "3", "--columns", "1040", "--outputs", "16"]) == 0
    assert capsys.readouterr().out.startswith("emulator: codes are within 0.")


def test_codes_and_scales_are_those_of_the_norm():
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((5, 272)) * [[1], [1e-4], [300], [0], [1]]).astype(ml_dtypes.bfloat16)
    weight = rng.uniform(-2, 2, 272).astype(ml_dtypes.bfloat16)
    codes, scale = example.emulated(x, weight)
    exact = x.astype(np.float64)
    y = exact / np.sqrt(np.mean(exact**2, axis=1, keepdims=True) + example.EPSILON) * weight.astype(np.float64)
    largest = np.abs(y).max(axis=1, keepdims=True)
    np.testing.assert_allclose(scale, np.where(largest == 0, 1, largest / 448), rtol=1e-5)
    unit = np.maximum(2.0 ** np.floor(np.log2(np.abs(y / scale) + 1e-99)), 2.0**-6) * 2.0**-3
    assert (np.abs(codes.astype(np.float64) - y / scale) <= 0.5001 * unit).all()
    assert not codes[3].astype(np.float32).any()


def test_a_result_that_is_wrong_ends_with_1(monkeypatch):
    emulated = example.emulated

    def half(x, weight):
        codes, scale = emulated(x, weight)
        return codes, scale / 2

    monkeypatch.setattr(example, "emulated", half)
    assert example.main(["--rows", "2", "--columns", "64", "--outputs", "16"]) == 1


@pytest.mark.planted_fault
def test_a_missing_barrier_is_found(monkeypatch, tmp_path):
    text = example.SOURCE.read_text()
    assert text.count("  __syncthreads();\n") == 1
    broken = tmp_path / "broken.cu"
    broken.write_text(text.replace("  __syncthreads();\n", ""))
    monkeypatch.setattr(example, "SOURCE", broken)
    with pytest.raises(RuntimeError, match="race"):
        example.emulated(np.ones((1, 256), ml_dtypes.bfloat16), np.ones(256, ml_dtypes.bfloat16))


@pytest.mark.parametrize("command", re.findall(r"^  python (.*?)(?:   .*)?$", example.__doc__ or "", re.MULTILINE))
def test_the_commands_of_its_help_parse(command):
    path, *arguments = shlex.split(command)
    assert path == "examples/rms_norm_quantize.py"
    assert example.options_of(arguments).columns % 16 == 0


@pytest.mark.parametrize("argument", ["--rows 0", "--columns 100", "--outputs 8"])
def test_arguments_that_make_no_sense_are_refused(argument, capsys):
    with pytest.raises(SystemExit):
        example.options_of(argument.split())
    assert argument.split()[0] in capsys.readouterr().err


def test_the_product_takes_the_codes():
    x = np.ones((4, 32), ml_dtypes.bfloat16)
    codes, scale = tw.quantize(x, "fp8_e4m3", block="row")
    np.testing.assert_allclose(example.product(codes, scale, x).astype(np.float32), 32)
