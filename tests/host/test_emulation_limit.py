"""What takes the emulator too long: the estimate, the limit, and what the refusal says."""

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright import dtypes
from tilewright.backends.emulation_limit import emulation_seconds, long_emulation
from tilewright.checking.product import Product
from tilewright.hardware import H200
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.registry import KERNELS


@pytest.mark.parametrize("text", ["abc", "nan", "-1", "-inf"])
def test_a_limit_that_is_no_number_of_seconds_is_refused(monkeypatch, text):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", text)
    a = np.zeros((4, 4), np.float16)
    with pytest.raises(ValueError, match=f"TILEWRIGHT_EMULATOR_SECONDS='{text}' is not a number of seconds: .*unset"):
        tw.plan(a, a, backend="emulator")


@pytest.mark.parametrize(
    ("seconds", "limit", "said"),
    [
        (6e-8, "0", "about 6e-08 s, and it stops at 0 s: "),
        (6e-8, "1e-8", "about 6e-08 s, and it stops at 1e-08 s: "),
        (130, "", "about 2.17 minutes, and it stops at 2 minutes: "),
        (2e10, "119", "about 634 years, and it stops at 119 s: "),
    ],
)
def test_durations_are_said_in_units_and_digits_that_tell_them_apart(monkeypatch, seconds, limit, said):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", limit)
    refusal = long_emulation("it", seconds, "wait")
    assert said in refusal
    assert refusal.endswith("to wait (twice the estimate)")


@pytest.mark.parametrize(("name", "dtype"), [("wgmma", "bf16"), ("mma", "bf16"), ("simt", "fp32")])
def test_the_estimate_of_an_emulation_sees_padding(name, dtype):
    kernel, kind = KERNELS[name], dtypes.parse(dtype, "dtype")

    def estimate(m, n, k):
        problem = Product(m, n, k, kind, kind).problem
        config = kernel.configs(problem, H200)[0]
        config = replace(config, split_k=1) if "split_k" in values_of(config) else config
        return emulation_seconds(kernel, config, problem, H200)

    whole = estimate(64, 64, 4096)
    assert whole / 4 < estimate(1, 1, 4096) <= whole  # a tile is multiplied whole
    assert 50 < estimate(1, 1, 409_600) / whole < 200  # what indices along k cost counts
    assert estimate(1, 1, 100_000_000) > 1000
    assert estimate(2**22, 1, 1) > 10  # tiles without work are stored


@pytest.mark.parametrize(("name", "dtype"), [("wgmma", "bf16"), ("simt", "fp32")])
def test_parts_of_k_are_emulated_side_by_side(name, dtype):
    kernel, kind = KERNELS[name], dtypes.parse(dtype, "dtype")
    problem = Product(64, 64, 8192, kind, kind).problem
    split = next(config for config in kernel.configs(problem, H200) if config.split_k == 4)
    alone = replace(split, split_k=1)
    assert emulation_seconds(kernel, split, problem, H200) < emulation_seconds(kernel, alone, problem, H200)
