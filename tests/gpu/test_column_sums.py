"""Sums of columns on a GPU: the same bits at each call, on any stream, under capture, and by any kernel."""

import pytest

import tilewright as tw

M, N, K = 1000, 528, 320


@pytest.fixture
def product(torch):
    """a, b and the sums of the product's columns; all numbers are whole and small."""
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randint(-2, 3, (rows, K), device="cuda", generator=generator).bfloat16() for rows in (M, N))
    return a, b.T, (a.double() @ b.T.double()).sum(dim=0).float()


def empty(torch):
    return torch.full((N,), float("nan"), device="cuda")


@pytest.mark.parametrize("kernel", ["wgmma", "mma"])
def test_sums_are_right_on_streams_and_under_capture(gpu, torch, product, kernel):
    if kernel == "wgmma" and gpu.hardware.arch != "sm_90a":
        pytest.skip(f"wgmma does not run on {gpu.hardware.name}")
    a, b, expected = product
    found = empty(torch)
    plan = tw.plan(a, b, outputs={"column_sums": found}, kernel=kernel)
    out = plan(a, b, outputs={"column_sums": found})
    assert torch.equal(found, expected)
    other = torch.cuda.Stream()
    found.fill_(0)
    torch.cuda.synchronize()
    plan(a, b, outputs={"column_sums": found}, out=out, stream=other.cuda_stream)
    torch.cuda.synchronize()
    assert torch.equal(found, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan(a, b, outputs={"column_sums": found}, out=out)
    for _ in range(3):
        found.fill_(0)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(found, expected)


def test_sums_of_any_numbers_have_the_same_bits_each_time(torch):
    generator = torch.Generator("cuda").manual_seed(1)
    a, b = (torch.randn(rows, K, device="cuda", generator=generator).half() for rows in (M, N))
    sums = [empty(torch) for _ in range(20)]
    outs = [tw.matmul(a, b.T, epilogue="gelu(acc)", outputs={"column_sums": each}, out_dtype="fp32") for each in sums]
    assert all(torch.equal(each, sums[0]) for each in sums)
    assert all(torch.equal(each, outs[0]) for each in outs)
    assert torch.allclose(sums[0].double(), outs[0].double().sum(dim=0), rtol=1e-5, atol=1e-3)


def test_gates_of_either_kind_and_layout_agree(torch, product):
    a, b, _ = product
    x, y = (a.float() @ b.float()).chunk(2, dim=1)
    pairs = torch.stack([b[:, : N // 2], b[:, N // 2 :]], dim=2).flatten(1)
    expected = torch.relu(x) * y
    for gate, weight in (("stacked", b), ("stacked", b.contiguous()), ("interleaved", pairs)):
        found = torch.full((N // 2,), float("nan"), device="cuda")
        out = tw.matmul(a, weight, gate=gate, activation="relu", outputs={"column_sums": found}, out_dtype="fp32")
        assert torch.equal(out, expected)
        assert torch.allclose(found, expected.sum(dim=0), rtol=1e-5, atol=1e-2)
