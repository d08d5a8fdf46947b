"""examples/decoder.py on a GPU, with small layers: results agree with torch's, also as graphs, and all is timed."""

import json

import decoder
import pytest

pytestmark = pytest.mark.skipif(bool(decoder.MISSING), reason=decoder.MISSING)

SIZES = ["--hidden", "512", "--heads", "8", "--kv-heads", "2", "--intermediate", "1024", "--context", "33"]
QUICK = ["--layers", "2", "--cycles", "1", "--idle", "0.01", "--json"]


@pytest.mark.parametrize("kernel", ["auto", "gemv"])
def test_layers_agree_and_are_timed(torch, kernel, capsys):
    assert decoder.main([*SIZES, *QUICK, "--rows", "1", "5", "--kernel", kernel]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["gpu"]
    for case in record["cases"]:
        assert 0 < case["difference"] <= decoder.AGREEMENT
        assert case["us"].keys() == {*decoder.PRODUCTS, "layer"}
        assert all(found[way]["median"] > 0 for found in case["us"].values() for way in decoder.WAYS)
