"""float64 rounded toward zero, down and up, against decimal arithmetic that is exact enough."""

import decimal
import math
import struct

import numpy as np
import pytest

from emulate.lane_programs import as_inputs, evaluate, evaluate_one, float_inputs

ONE, LARGEST, SMALLEST, SIGN = 0x3FF0000000000000, 0x7FEFFFFFFFFFFFFF, 1, 1 << 63

_EXACT = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "rcp": lambda a, b: 1 / a, "sqrt": lambda a, b: a.sqrt(),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("opcode", _EXACT)
def test_float64_rounds_in_directions(opcode, mode):
    rounding = {"rz": decimal.ROUND_DOWN, "rm": decimal.ROUND_FLOOR, "rp": decimal.ROUND_CEILING}[mode]
    inputs = np.abs(float_inputs(np.float64)) if opcode == "sqrt" else float_inputs(np.float64)
    operands = "%da" if opcode in ("rcp", "sqrt") else "%da, %db"
    got = evaluate(f"{opcode}.{mode}.f64 %da, {operands}; mov.b64 %D, %da;", as_inputs(inputs), 64)
    compared = 0
    for (a, b, _), bits in zip(inputs.tolist(), got, strict=True):
        if not (math.isfinite(a) and math.isfinite(b) and a and b):
            continue
        with decimal.localcontext(prec=1100, rounding=rounding):
            exact = _EXACT[opcode](decimal.Decimal(a), decimal.Decimal(b))
        if exact == 0:
            continue
        nearest = float(exact)
        if mode == "rp" or (mode == "rz" and exact < 0):
            expected = nearest if nearest >= exact else math.nextafter(nearest, math.inf)
        else:
            expected = nearest if nearest <= exact else math.nextafter(nearest, -math.inf)
        assert struct.pack("<Q", bits) == struct.pack("<d", expected), (a, b)
        compared += 1
    assert compared > 40


@pytest.mark.parametrize(
    ("body", "lane", "expected"),
    [
        ("add.rm.f64 %da, %da, %db;", (ONE, ONE | SIGN, 0), SIGN),
        ("add.rp.f64 %da, %da, %db;", (ONE, ONE | SIGN, 0), 0),
        ("sub.rm.f64 %da, %da, %db;", (0, SIGN, 0), 0),
        ("add.rm.f64 %da, %da, %db;", (LARGEST, LARGEST, 0), LARGEST),
        ("add.rp.f64 %da, %da, %db;", (LARGEST, LARGEST, 0), 0x7FF0000000000000),
        ("mul.rz.f64 %da, %da, %db;", (SMALLEST, SMALLEST, 0), 0),
        ("mul.rp.f64 %da, %da, %db;", (SMALLEST, SMALLEST, 0), 1),
        ("div.rz.f64 %da, %da, %db;", (ONE, 0, 0), 0x7FF0000000000000),
        ("fma.rn.f64 %da, 0d7E37E43C8800759C, 0d7E37E43C8800759C, 0dBFF0000000000000;", (0, 0, 0), 0x7FF0000000000000),
        ("fma.rz.f64 %da, 0d7E37E43C8800759C, 0d7E37E43C8800759C, 0dBFF0000000000000;", (0, 0, 0), LARGEST),
        ("fma.rm.f64 %da, %da, %db, %dc;", (SMALLEST, SMALLEST, 0), 0),
        ("fma.rm.f64 %da, %da, %db, %dc;", (SMALLEST, SMALLEST | SIGN, 0), SIGN | 1),
        ("fma.rm.f64 %da, %da, %db, %dc;", (ONE, ONE, ONE | SIGN), SIGN),
        ("fma.rp.f64 %da, %da, %db, %dc;", (LARGEST, ONE, SMALLEST), 0x7FF0000000000000),
        ("fma.rm.f64 %da, 0dBFF0000000000000, %db, %dc;", (0, ONE, ONE), SIGN),
        ("fma.rm.f64 %da, %da, 0dBFF0000000000000, %dc;", (ONE, 0, ONE), SIGN),
        ("fma.rm.f64 %da, %da, 0dBFF0000000000000, %dc;", (SIGN, 0, 0), 0),
    ],
)
def test_directed_rounding_at_the_ends_of_float64(body, lane, expected):
    assert evaluate_one(f"{body} mov.b64 %D, %da;", lane, 64) == expected
