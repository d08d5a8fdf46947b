"""`tilewright.quantize` on a GPU: the bits that NumPy finds, for any shape, on streams and under capture."""

import numpy as np
import pytest

import tilewright as tw
from support.quantization import BLOCKS, KINDS, assert_quantized


@pytest.fixture
def fp8(gpu):
    """Skip where the conversions are not there."""
    if gpu.hardware.capability < 89:
        pytest.skip(f"{gpu.hardware.name} has no fp8")


def on_host(torch, tensor):
    """A tensor as an array of NumPy."""
    tensor = tensor.cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.float().numpy()
    kind = {torch.float8_e4m3fn: "fp8_e4m3", torch.float8_e5m2: "fp8_e5m2"}.get(tensor.dtype)
    return tensor.numpy() if kind is None else tensor.view(torch.uint8).numpy().view(KINDS[kind])


def made(torch, shape, kind, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed)
    x = torch.randn(shape, device="cuda", generator=generator)
    return (x * torch.exp(torch.randn(shape[:-1], device="cuda", generator=generator))[..., None]).to(kind)


def checked(torch, x, result, dtype, block, **options):
    assert_quantized([on_host(torch, each) for each in result], on_host(torch, x), dtype, block, **options)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("dtype", KINDS)  # each compiles dozens of kernels, which other processes share
def test_shapes_and_layouts(fp8, torch, dtype, kind, block, transposed):
    for number, shape in enumerate([(1, 1), (5, 7), (128, 128), (1000, 1111), (257, 40000), (3, 2, 300, 520)]):
        x = made(torch, shape, getattr(torch, kind), number)
        wide = torch.zeros((*shape[:-1], shape[-1] + 3), dtype=x.dtype, device="cuda")
        wide[..., 1:-2] = x
        for view in (x, x.mT.contiguous().mT, wide[..., 1:-2]):
            checked(torch, x, tw.quantize(view, dtype, block=block, transposed=transposed), dtype, block)


def test_strange_values(fp8, torch):
    x = made(torch, (300, 400), torch.float32)
    x[::7, ::5] = float("inf")
    x[::11, ::3] = float("nan")
    x[5] = 1e-45
    for block in BLOCKS:
        for dtype in KINDS:
            for saturate in (True,) if dtype == "int8" else (True, False):
                result = tw.quantize(x, dtype, block=block, saturate=saturate, power_of_two=True)
                checked(torch, x, result, dtype, block, power_of_two=True, saturate=saturate)


def test_nothing_around_outs_is_written(torch):
    x = made(torch, (301, 500), torch.bfloat16)
    around = torch.full((303, 520), 77, dtype=torch.int8, device="cuda")
    scales = torch.full((6, 310), float("nan"), device="cuda")
    out = (around[1:-1, 10:510], scales[1:5, 4:305].mT)
    result = tw.quantize(x, "int8", block="1x128", out=out)
    checked(torch, x, result, "int8", "1x128")
    around[1:-1, 10:510] = 77
    scales[1:5, 4:305] = float("nan")
    assert (around == 77).all()
    assert scales.isnan().all()


def test_streams_and_graphs(torch):
    x = made(torch, (2000, 3000), torch.bfloat16)
    expected = tw.quantize(x, "int8", transposed=True)
    out = [torch.zeros_like(each) for each in expected[:3]] + [None]
    other = torch.cuda.Stream()
    torch.cuda.synchronize()
    on_other = tw.quantize(x, "int8", transposed=True, stream=other)
    torch.cuda.synchronize()
    tw.quantize(x, "int8", transposed=True, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tw.quantize(x, "int8", transposed=True, out=out)
    for _ in range(3):  # a replay leaves nothing that the next one sees
        for each in out[:3]:
            each.zero_()
        bystander = torch.full((1 << 20,), 5.0, device="cuda")
        graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(one, two) for one, two in zip(out[:3], expected[:3], strict=True))
        assert (bystander == 5).all()
    assert all(torch.equal(one, two) for one, two in zip(on_other, expected, strict=True))


def test_arrays_in_host_memory(gpu):
    x = np.random.default_rng(0).standard_normal((200, 300)).astype(np.float16)
    assert_quantized(tw.quantize(x, "int8", block="128x128", transposed=True), x, "int8", "128x128")


def test_cupy(cupy):
    x = cupy.random.default_rng(0).standard_normal((200, 300), dtype=cupy.float32)
    codes, scale = tw.quantize(x, "int8", block="row")
    assert_quantized((cupy.asnumpy(codes), cupy.asnumpy(scale)), cupy.asnumpy(x), "int8", "row")
