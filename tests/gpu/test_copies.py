"""Operands that each call copies first, on a GPU: streams, threads, graphs, and arrays in host memory."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as tw


@pytest.fixture
def product(gpu, torch):
    """a, b and their product; rows of 333 elements are nothing for TMA."""
    if gpu.hardware.arch != "sm_90a":
        pytest.skip(f"wgmma does not run on {gpu.hardware.name}")
    return made(torch, 0)


def made(torch, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    a, b = (torch.randn(300, 333, device="cuda", generator=generator).bfloat16() for _ in "ab")
    return a, b.T, (a.double() @ b.T.double()).bfloat16()


def is_close(torch, out, expected):
    return torch.allclose(out.float(), expected.float(), rtol=1e-2, atol=0.3)


def test_streams_agree(torch, product):
    a, b, expected = product
    plan = tw.plan(a, b)
    assert plan.kernel.name == "wgmma"
    assert "each call copies a and b" in plan.reason
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        first = plan(a, b)
    second = plan(a, b, stream=other.cuda_stream)
    torch.cuda.synchronize()
    assert torch.equal(first, second)
    assert is_close(torch, first, expected)


def test_threads_with_one_plan_do_not_meet_in_its_workspace(torch, product):
    plan = tw.plan(*product[:2])

    def multiply_often(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            a, b, expected = made(torch, seed)
            outs = [plan(a, b) for _ in range(50)]
            torch.cuda.current_stream().synchronize()
            return all(torch.equal(out, outs[0]) for out in outs) and is_close(torch, outs[0], expected)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(multiply_often, range(8)))


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_captured_graph_keeps_its_workspace(torch, product, by_hand):
    a, b, expected = product
    out = torch.empty_like(expected)
    plan = tw.plan(a, b, out=out)
    plan(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    if by_hand:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            graph.capture_begin()
            plan(a, b, out=out)
            graph.capture_end()
    else:
        with torch.cuda.graph(graph):
            plan(a, b, out=out)
    for seed in range(5):
        others = [plan(*made(torch, seed + 10)[:2]) for _ in range(3)]
        bystander = torch.full((1 << 20,), seed, device="cuda")
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert is_close(torch, out, expected)
        assert (bystander == seed).all()
        assert torch.equal(others[0], others[1])


@pytest.mark.parametrize("ranged", [False, True])
def test_the_first_call_may_be_captured(torch, product, ranged):
    a, b, expected = product
    out = torch.empty_like(expected)
    plan = tw.plan(a, b, m=range(290, 311)) if ranged else tw.plan(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan(a, b, out=out)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert is_close(torch, out, expected)


def test_arrays_in_host_memory(gpu, product):
    a, b, expected = (tensor.float().cpu().numpy().astype(np.float16) for tensor in product)
    plan = tw.plan(a, b)
    assert "each call copies a and b" in plan.reason
    np.testing.assert_allclose(plan(a, b).astype(np.float32), expected.astype(np.float32), rtol=1e-2, atol=0.3)
