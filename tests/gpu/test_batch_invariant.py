"""Rows whose bits depend on nothing else of a batch, on a GPU and for every number of rows."""

import pytest

import tilewright as tw

MOST = 4096


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_row_has_the_same_bits_for_every_number_of_rows(gpu, torch, dtype):
    generator = torch.Generator("cuda").manual_seed(7)
    kinds = {"device": "cuda", "dtype": getattr(torch, dtype), "generator": generator}
    a, weight, bias = (torch.randn(shape, **kinds) for shape in ((MOST, 1000), (1024, 1000), (1024,)))
    multiply = {"bias": bias, "activation": "silu"}
    plan = tw.plan(a, weight.T, **multiply, m=range(1, MOST + 1), batch_invariant=True)
    words = getattr(torch, {2: "int16", 4: "int32"}[a.element_size()])
    expected = plan(a, weight.T, bias=bias).view(words)
    wrong = [(plan(a[:rows], weight.T, bias=bias).view(words) != expected[:rows]).any() for rows in range(1, MOST + 1)]
    assert not torch.stack(wrong).any()
    first = 1234
    tail = tw.matmul(a[first:], weight.T, **multiply, batch_invariant=True)
    assert torch.equal(tail.view(words), expected[first:])
    misaligned = torch.empty((77, 1003), device="cuda", dtype=a.dtype)[:, 1:1001].copy_(a[:77])
    assert torch.equal(tw.matmul(misaligned, weight.T, **multiply, batch_invariant=True).view(words), expected[:77])
