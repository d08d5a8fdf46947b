"""examples/decoder.py: its products on NumPy, its table, and with torch and transformers all of it on a CPU."""

import json
import re
import shlex
from collections import Counter
from types import SimpleNamespace
from typing import Any

import decoder
import numpy as np
import pytest

import tilewright as tw
from tilewright.bench import Burst
from tilewright.measure.protocol import Work

SMALL = ["--hidden", "64", "--heads", "4", "--kv-heads", "2", "--intermediate", "96", "--context", "7", "--layers", "2"]


@pytest.mark.parametrize("command", re.findall(r"^  python (.*?)(?:   .*)?$", decoder.__doc__ or "", re.MULTILINE))
def test_the_commands_of_its_help_parse(command):
    path, *arguments = shlex.split(command)
    assert path == "examples/decoder.py"
    assert min(decoder.options_of(arguments).rows) == 1


@pytest.mark.parametrize("argument", ["--rows 0", "--heads many", "--dtype fp8", "--hidden 65", "--kv-heads 5"])
def test_arguments_that_make_no_sense_are_refused(argument, capsys):
    with pytest.raises(SystemExit):
        decoder.options_of(argument.split())
    assert argument.split()[0] in capsys.readouterr().err


@pytest.mark.parametrize("kernel", ["auto", "gemv"])
def test_the_products_of_a_layer_are_right(kernel):
    sizes, rng = decoder.Sizes(64, 4, 2, 48, 7), np.random.default_rng(0)
    weights = [decoder.Weights(*(half(rng, *shape) for shape in sizes.weights.values())) for _ in range(2)]
    plans = decoder.Plans(weights[0], 3, lambda m, n: np.full((m, n), np.nan, np.float16), kernel)
    for layer in weights:  # the second has the plans of the first
        a, x = half(rng, 3, 64), half(rng, 3, 64)
        qkv, out, gate_up, down = (each.astype(np.float64).T for each in layer)
        gate, up = np.split(a @ gate_up, 2, axis=1)
        gated = gate / (1 + np.exp(-gate)) * up
        assert_close(plans.qkv(a, layer), a @ qkv)
        assert_close(plans.out(a, x, layer), x + a @ out)
        assert_close(plans.gate_up(a, layer), gated)
        assert_close(plans.down(plans.gate_up(a, layer), x, layer), x + gated @ down)
    found = plans.described()
    assert {name: (about["n"], about["k"]) for name, about in found.items()} == sizes.weights
    assert kernel == "auto" or {about["kernel"] for about in found.values()} == {kernel}


def half(rng, *shape):
    return (rng.standard_normal(shape) / 4).astype(np.float16)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_the_table_has_the_times_of_every_product_and_of_a_token(monkeypatch):
    walked = Counter()
    seconds = {"torch": 30e-6, "tilewright": 20e-6}

    class Two:
        layers = (None, None)

        def walks(self):
            names = [*decoder.PRODUCTS, "layer"]
            return {name: [lambda way=way: walked.update([way]) for way in decoder.WAYS] for name in names}

    def replayed(torch, launch, launches):
        before = walked.copy()
        launch()
        ((way, walks),) = (walked - before).items()
        assert launches == walks * len(Two.layers)
        return Work(lambda times: times * launches * seconds[way], launches)

    monkeypatch.setattr(decoder, "torch", None, raising=False)
    monkeypatch.setattr(decoder, "replayed", replayed)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    times = decoder.measured(Two(), Burst(cycles=2))
    assert times.keys() == {*decoder.PRODUCTS, "layer"}
    for found in times.values():
        medians = [found[each]["median"] for each in ("torch", "tilewright", "ratio")]
        assert medians == pytest.approx([30, 20, 1.5])
    products = {name: {"n": 8, "k": 4, "kernel": "gemv", "config": ""} for name in decoder.PRODUCTS}
    case = {"rows": 4, "difference": 0.5, "products": products}
    *_, down, layer, token = decoder.lines({**case, "us": times})
    assert down.split() == ["down", "8", "x", "4", "30.00", "20.00", "1.500", "gemv"]
    assert layer.split() == ["a", "layer", "30.00", "20.00", "1.500"]
    assert token == "a layer takes 7.50 us a token in torch and 5.00 us with tilewright"
    assert decoder.lines(case)[-1].split() == ["down", "8", "x", "4", "gemv"]


def test_a_record_becomes_a_section_of_the_page(tmp_path):
    import decoder_numbers

    assert decoder_numbers.sections(tmp_path) == []
    us = {"torch": {"median": 32.0}, "tilewright": {"median": 20.0}, "ratio": {"median": 1.6, "low": 1.5, "high": 1.7}}
    sizes = {"hidden": 64, "heads": 4, "kv_heads": 2, "intermediate": 96, "context": 7}
    record: dict[str, Any] = {
        "gpu": "a GPU",
        "date": "2026-11-23T10:00",
        "command": "python examples/decoder.py --rows 4 --json",
    }
    record |= {"versions": {"torch": "2.11"}, "sizes": sizes, "dtype": "bf16", "kernel": "gemv"}
    record["cases"] = [{"rows": 4, "us": {"down": us, "layer": us}}, {"rows": 8, "difference": 9.0}]
    (tmp_path / "decoder.json").write_text(json.dumps(record))
    lines = decoder_numbers.sections(tmp_path)
    assert lines[1].startswith("## A decoder layer, by `gemv`: hidden size 64, 4 heads, 2 of keys and values")
    assert "| rows | down | layer | layer, a token |" in lines
    cell = "32.00, 20.00, **1.600** [1.500, 1.700]"
    assert f"| 4 | {cell} | {cell} | 8.00, 5.00, **1.600** [1.500, 1.700] |" in lines
    assert not any(line.startswith("| 8 |") for line in lines)  # a wrong result is not timed


def test_without_torch_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(decoder, "MISSING", "No module named 'torch'")
    with pytest.raises(SystemExit, match="needs torch and transformers: No module named 'torch'"):
        decoder.main(SMALL)


@pytest.mark.skipif(bool(decoder.MISSING), reason=decoder.MISSING)
def test_layers_agree_with_those_of_transformers(capsys):
    assert decoder.main([*SMALL, "--rows", "1", "3", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [(case["rows"], case["layers"]) for case in record["cases"]] == [(1, 2), (3, 2)]
    assert all(0 < case["difference"] < 2 for case in record["cases"])


def test_what_tilewright_refuses_is_a_message(monkeypatch):
    """Such as an unknown --kernel."""
    refusal = tw.ConfigError("no such kernel")
    monkeypatch.setattr(decoder, "MISSING", "")
    monkeypatch.setattr(decoder, "torch", Cpu, raising=False)
    monkeypatch.setattr(decoder, "transformers", Cpu, raising=False)
    monkeypatch.setattr(decoder, "cases", lambda *arguments: raised(refusal))
    with pytest.raises(SystemExit, match="no such kernel"):
        decoder.main(SMALL)


class Cpu:
    """torch and transformers as far as a record names them."""

    __version__ = "0"
    cuda = SimpleNamespace(is_available=lambda: False)


def raised(error):
    raise error


@pytest.mark.skipif(bool(decoder.MISSING), reason=decoder.MISSING)
@pytest.mark.parametrize("name", decoder.PRODUCTS)
def test_a_wrong_product_is_noticed(name, monkeypatch, capsys):
    product = getattr(decoder.Plans, name)
    monkeypatch.setattr(decoder.Plans, name, lambda *arguments: 1.2 * product(*arguments))
    assert decoder.main(SMALL) == 1
    assert "units, and 4 are allowed" in capsys.readouterr().out
