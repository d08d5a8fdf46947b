"""The public API on a GPU: array libraries, streams, threads, CUDA graphs, and products too large for the emulator."""

import threading

import numpy as np
import pytest

import tilewright as tw
from support.reference import check, reference


@pytest.fixture(params=[("simt", "float32"), ("mma", "float16"), ("wgmma", "bfloat16")], ids=lambda param: param[0])
def kernel(request, gpu):
    """Each kernel that this GPU runs, with `kernel.random(*shape)`, which makes tensors that it takes."""
    name, dtype = request.param
    if name == "wgmma" and gpu.hardware.capability != 90:
        pytest.skip(f"wgmma does not run on {gpu.hardware.name}")
    torch = request.getfixturevalue("torch")
    return KernelUnderTest(torch, name, getattr(torch, dtype))


class KernelUnderTest:
    """A kernel's name and random operands for it."""

    def __init__(self, torch, name, dtype):
        self.torch, self.name, self.dtype = torch, name, dtype

    def random(self, *shape):
        return self.torch.randn(shape, device="cuda", dtype=self.dtype)


def host(tensor):
    """A tensor's exact values."""
    return tensor.double().cpu().numpy()


def check_product(out, a, b, **epilogue):
    """Compare torch tensors."""
    epilogue = {name: host(x) if hasattr(x, "double") else x for name, x in epilogue.items()}
    check(host(out), reference(host(a), host(b), out_dtype=str(out.dtype), **epilogue))


def check_sampled(out, a, b):
    """Compare some rows and columns of a large product, the first and last among them."""
    m, n = out.shape
    random = np.random.default_rng(0)
    rows = [0, m - 1, *random.integers(0, m, 6).tolist()]
    columns = [0, n - 1, *random.integers(0, n, 6).tolist()]
    check_product(out[rows], a[rows], b)
    check_product(out[:, columns], a, b[:, columns])


# ---------------------------------------------------------------- array libraries


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_linear_layer_on_torch_tensors(dtype, activation, torch):
    x, weight, bias = (
        torch.randn(shape, device="cuda", dtype=getattr(torch, dtype)) for shape in ((3, 100, 256), (320, 256), (320,))
    )
    out = tw.matmul(x, weight.T, bias=bias, activation=activation)
    assert isinstance(out, torch.Tensor)
    assert (out.dtype, out.device, out.shape) == (x.dtype, x.device, (3, 100, 320))
    check_product(out, x, weight.T, bias=bias, activation=activation)


def test_torch_tensors_on_a_gpu_may_not_require_grad(torch):
    a = torch.ones(8, 8, device="cuda", dtype=torch.float16, requires_grad=True)
    with pytest.raises(NotImplementedError, match="a requires grad"):
        tw.matmul(a, a.detach())
    check_product(tw.matmul(a.detach(), a.detach()), a.detach(), a.detach())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_rows_of_b_that_are_shorter_than_a_load(dtype, torch):
    for n in range(1, 9):
        a, b = (torch.randn(shape, device="cuda", dtype=getattr(torch, dtype)) for shape in ((n, 100), (100, n)))
        check_product(tw.matmul(a, b), a, b)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_cupy_arrays(dtype, cupy):
    random = np.random.default_rng(1)
    a, b, c = (cupy.asarray(random.standard_normal(shape).astype(dtype)) for shape in ((130, 70), (70, 90), (130, 90)))
    out = tw.matmul(a, b, c, alpha=0.5, beta=-2.0)
    assert isinstance(out, cupy.ndarray)
    assert out.dtype == a.dtype
    expected = reference(cupy.asnumpy(a), cupy.asnumpy(b), c=cupy.asnumpy(c), alpha=0.5, beta=-2.0, out_dtype=dtype)
    check(cupy.asnumpy(out), expected)
    flipped = cupy.empty((90, 130), dtype).T
    assert tw.matmul(a, b, c, alpha=0.5, beta=-2.0, out=flipped) is flipped
    check(cupy.asnumpy(flipped), expected)


def test_numpy_arrays_travel_to_the_gpu_and_back(gpu):
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((100, 64), (64, 90)))
    expected = reference(a, b, out_dtype="fp16")
    out = tw.matmul(a, b)
    assert type(out) is np.ndarray
    check(out, expected)
    memory = np.full((300, 400), 7, np.float16)
    tw.matmul(a, b, out=memory[10:210:2, 5:365:4])
    check(memory[10:210:2, 5:365:4], expected)
    memory[10:210:2, 5:365:4] = 7
    assert (memory == 7).all()


def test_operands_on_the_cpu_and_the_gpu_do_not_mix(torch):
    with pytest.raises(ValueError, match="b is on the CPU and a on GPU 0"):
        tw.matmul(torch.ones(8, 8, device="cuda"), torch.ones(8, 8))


# ---------------------------------------------------------------- streams, threads, graphs


def test_launches_go_to_the_callers_stream(kernel, torch):
    a, b, late = (kernel.random(256, 256) for _ in range(3))
    out = torch.empty_like(a)
    tw.matmul(a, b, out=out, kernel=kernel.name)  # plans and compiles
    stream = torch.cuda.Stream()
    for explicit in (False, True):
        a.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)  # a call that does not wait for the stream multiplies zeros
            a.copy_(late)
            if not explicit:
                tw.matmul(a, b, out=out, kernel=kernel.name)
        if explicit:
            tw.matmul(a, b, out=out, kernel=kernel.name, stream=stream)
        stream.synchronize()
        check_product(out, late, b)


@pytest.mark.parametrize(("rows", "width"), [(16, 4096), (300, 1024), (512, 512), (2048, 2048)])
def test_each_launch_sees_what_the_one_before_wrote(rows, width, kernel, torch):
    # A grid may start before the one ahead has ended: it has to wait before it reads, and before it overwrites.
    weights = [kernel.random(width, width) / width**0.5 for _ in range(6)]
    start = kernel.random(rows, width)

    def chain(wait):
        buffers, x = [torch.empty_like(start) for _ in range(2)], start
        for i, weight in enumerate(weights * 4):
            x = tw.matmul(x, weight.T, out=buffers[i % 2], kernel=kernel.name)
            if i % 5 == 4:
                x.clamp_(-4, 4)  # a kernel of another library in between
            wait()
        return x.clone()

    expected = chain(torch.cuda.synchronize)
    for _ in range(3):
        assert torch.equal(chain(lambda: None), expected)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        chain(lambda: None)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            captured = chain(lambda: None)
    for _ in range(3):
        captured.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(captured, expected)


def test_scalars_and_operands_of_calls_in_flight_are_their_own(kernel, torch):
    b = kernel.random(256, 256)
    inputs = [kernel.random(256, 256) for _ in range(100)]
    plan = tw.plan(inputs[0], b, kernel=kernel.name)
    outs = [plan(a, b, alpha=1.0 + i) for i, a in enumerate(inputs)]
    for i in (0, 1, 50, 99):
        check_product(outs[i], inputs[i], b, alpha=1.0 + i)


def test_threads_share_a_plan(kernel, torch):
    b = kernel.random(256, 256)
    plan = tw.plan(kernel.random(256, 256), b, kernel=kernel.name)
    torch.cuda.synchronize()
    results = {}

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            inputs = [kernel.random(256, 256) for _ in range(30)]
            results[number] = [(a, plan(a, b, alpha=number)) for a in inputs]
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results) == {1, 2, 3, 4}
    for number, pairs in results.items():
        for a, out in (pairs[0], pairs[-1]):
            check_product(out, a, b, alpha=number)


def test_a_thread_without_a_context_can_multiply(gpu):
    a = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    results = []
    thread = threading.Thread(target=lambda: results.append(tw.matmul(a, a)))
    thread.start()
    thread.join()
    check(results[0], reference(a, a, out_dtype="fp32"))


def test_plans_are_captured_in_cuda_graphs(kernel, torch):
    a, b, late = (kernel.random(256, 256) for _ in range(3))
    out = torch.empty_like(a)
    plan = tw.plan(a, b, out=out, kernel=kernel.name)
    plan(a, b, out=out)
    tw.matmul(a, b, out=out, kernel=kernel.name)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan(a, b, out=out)
        tw.matmul(a, b, out=out, kernel=kernel.name)
    a.copy_(late)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    check_product(out, late, b)


def test_a_stream_of_another_gpu_is_refused(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    a = torch.ones(8, 8, device="cuda:0", dtype=torch.float16)
    with pytest.raises(ValueError, match="belongs to another GPU"):
        tw.matmul(a, a, stream=torch.cuda.Stream(device=1))


def test_the_second_gpu_multiplies_its_own_operands(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    a = torch.randn(100, 100, device="cuda:1", dtype=torch.float16)
    out = tw.matmul(a, a)
    assert out.device == a.device
    check_product(out, a, a)


@pytest.mark.parametrize("current", [None, 0, 1])
@pytest.mark.parametrize("device", [0, 1])
def test_other_numbers_of_rows_need_no_current_context(device, current, torch):
    """Their tensor maps are encoded in threads that have another GPU's context, or none."""
    if max(device, current or 0) >= torch.cuda.device_count():
        pytest.skip("needs two GPUs")
    a, b = (torch.randn(shape, device=f"cuda:{device}", dtype=torch.float16) for shape in ((320, 64), (64, 96)))
    outs = [torch.full((rows, 96), torch.nan, device=a.device, dtype=a.dtype) for rows in range(320, 220, -7)]
    tw.matmul(a, b, out=outs[0])

    def multiply():
        if current is not None:
            torch.cuda.set_device(current)
        for out in outs[1:]:
            tw.matmul(a[: len(out)], b, out=out)

    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
    torch.cuda.synchronize(device)
    for out in outs:
        check_product(out, a[: len(out)], b)


# ---------------------------------------------------------------- large products


def test_a_large_product(kernel, torch):
    a, b = kernel.random(4096, 4096), kernel.random(4096, 4096)
    out = torch.full_like(a, float("nan"))
    tw.matmul(a, b, out=out, kernel=kernel.name)
    assert not out.isnan().any()
    check_sampled(out, a, b)
    again = tw.matmul(a, b, kernel=kernel.name)
    assert torch.equal(out, again)


@pytest.mark.parametrize(("m", "n", "k"), [(100_003, 8, 72), (8, 100_000, 72), (136, 200, 50_000)])
def test_a_long_product(kernel, m, n, k):
    a, b = kernel.random(m, k), kernel.random(k, n)
    check_sampled(tw.matmul(a, b, kernel=kernel.name), a, b)


def test_more_elements_than_32_bits_count(kernel, torch):
    a, b = kernel.random(70_000, 16), kernel.random(16, 40_000)
    out = torch.full((70_000, 40_000), float("nan"), device="cuda", dtype=kernel.dtype)
    tw.matmul(a, b, out=out, kernel=kernel.name)
    assert not any(rows.isnan().any() for rows in out.split(10_000))
    check_sampled(out, a, b)
