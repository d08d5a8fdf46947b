"""Calls: what is checked first, what is planned again and what is not, and how host memory is mirrored."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import tilewright as tw
from support.doubles import GpuArray, RecordingBackend
from tilewright.arrays import adopt
from tilewright.backends.protocol import mirrored
from tilewright.errors import TilewrightError


@pytest.fixture
def backend():
    return RecordingBackend()


def f16(*shape):
    return np.ones(shape, np.float16)


@pytest.mark.parametrize("position", [0, 1])
def test_a_missing_input_is_never_launched(backend, position):
    arrays = [f16(8, 8), f16(8, 8)]
    plan = tw.plan(*arrays, backend=backend)
    tw.matmul(*arrays, backend=backend)
    arrays[position] = None
    launched = len(backend.launched)
    for call in (plan, lambda a, b: tw.matmul(a, b, backend=backend)):
        with pytest.raises(TypeError, match="NoneType"):
            call(*arrays)
    assert len(backend.launched) == launched


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [*((wrong, TypeError, "not a real") for wrong in ("x", "1", b"1", 1j)), (1e39, ValueError, "does not fit fp32")],
)
def test_scalars_are_checked_before_anything_is_planned(backend, name, value, error, message):
    arrays = (f16(8, 8), f16(8, 8), f16(8, 8))
    for call in (tw.matmul, tw.plan):
        with pytest.raises(error, match=f"{name}=.*{message}"):
            call(*arrays, backend=backend, **{name: value})
    with pytest.raises(error, match=f"{name}=.*{message}"):
        tw.plan(*arrays, backend=backend)(*arrays, **{name: value})
    assert not backend.launched


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_a_scalar_beyond_every_float_is_refused(backend, name):
    for huge in (10**400, -(10**5000)):  # the second is too long to be printed
        with pytest.raises(ValueError, match=f"{name} has over 308 digits and does not fit fp32"):
            tw.matmul(f16(8, 8), f16(8, 8), **{name: huge}, backend=backend)


def test_a_plan_is_its_own_copy_and_says_why_it_cannot_be_pickled(backend):
    plan = tw.plan(f16(8, 8), f16(8, 8), backend=backend)
    assert copy.deepcopy({"plan": plan})["plan"] is copy.copy(plan) is plan
    with pytest.raises(TypeError, match=r"a Plan cannot be pickled.*call tilewright\.plan in the other one") as raised:
        pickle.dumps(plan)
    assert isinstance(raised.value, TilewrightError)
    with pytest.raises(TilewrightError, match="a RangePlan cannot be pickled, since it holds kernels"):
        pickle.dumps(tw.plan(f16(8, 8), f16(8, 8), m=range(1, 3), backend=backend))


def test_numpy_and_integer_scalars_are_numbers(backend):
    tw.matmul(f16(8, 8), f16(8, 8), alpha=np.float32(0.5), backend=backend)
    tw.matmul(f16(8, 8), f16(8, 8), alpha=np.array([2.0])[0], backend=backend)
    tw.matmul(f16(8, 8), f16(8, 8), alpha=2, backend=backend)
    assert [alpha for _, alpha, _, _ in backend.launched] == [0.5, 2.0, 2.0]


def test_a_scalar_that_fp32_rounds_to_zero_is_zero(backend):
    tw.matmul(f16(8, 8), f16(8, 8), alpha=1e-50, backend=backend)
    assert backend.prepared[0][2].problem.k == 0


def test_beta_without_c_is_refused_by_plans_too(backend):
    with pytest.raises(ValueError, match=r"beta=2\.0 scales c, which is not given"):
        tw.plan(f16(8, 8), f16(8, 8), backend=backend)(f16(8, 8), f16(8, 8), beta=2.0)


@pytest.mark.parametrize("wrong", [{"kernel": "foo"}, {"config": 3}, {"alpha": "x"}, {"activation": "gelo"}])
def test_empty_results_excuse_no_wrong_argument(backend, wrong):
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        tw.matmul(f16(0, 8), f16(8, 8), backend=backend, **wrong)


@pytest.mark.parametrize("wrong", [None, 3])
def test_what_is_no_backend(wrong):
    with pytest.raises(TypeError, match=r"backend=.* is not a backend: use 'auto'"):
        tw.matmul(f16(8, 8), f16(8, 8), backend=wrong)


def test_a_backend_of_another_gpu_than_the_operands(backend):
    backend.device = 0
    arrays = [GpuArray(f16(8, 8), pointer=pointer, device=1) for pointer in (4096, 8192, 16384)]
    with pytest.raises(ValueError, match="a is on GPU 1 and backend is that of GPU 0"):
        tw.matmul(*arrays[:2], out=arrays[2], backend=backend)


def test_nothing_is_planned_while_a_stream_is_captured(backend):
    known, alike, other = (f16(8, 8), f16(8, 8)), (f16(16, 8), f16(8, 8)), (f16(8, 8).T, f16(8, 8))
    tw.matmul(*known, backend=backend)
    backend.captured_streams = (0,)
    tw.matmul(*known, backend=backend)
    tw.matmul(*alike, backend=backend)  # with the same kernel, which is loaded
    assert len(backend.prepared) == 2
    prepared = len(backend.prepared)
    with pytest.raises(RuntimeError, match=r"being captured.*before the capture"):
        tw.matmul(*other, backend=backend)
    assert len(backend.prepared) == prepared


def test_better_and_worse_aligned_arrays_have_plans_of_their_own(backend):
    memory = np.ones(8 * 8 + 1, np.float16)
    aligned, skewed = memory[:64].reshape(8, 8), memory[1:].reshape(8, 8)
    for a in (skewed, aligned, skewed, aligned):
        tw.matmul(a, f16(8, 8), backend=backend)
    assert len(backend.prepared) == 2
    tw.plan(skewed, f16(8, 8), backend=backend)(aligned, f16(8, 8))  # a plan for less takes more


def test_c_may_be_out_itself_but_not_share_a_part_of_it(backend):
    memory = np.ones((16, 8), np.float16)
    a, b, c, shifted = f16(8, 8), f16(8, 8), memory[:8], memory[4:12]
    plan = tw.plan(a, b, c, out=c, backend=backend)
    for _ in range(2):
        plan(a, b, c, out=c)
        assert backend.launched[-1][0][2] == backend.launched[-1][0][4] == c.ctypes.data
    with pytest.raises(ValueError, match="out shares memory with c"):
        plan(a, b, shifted, out=c)
    assert len(backend.launched) == 2


def test_plans_do_not_keep_their_arrays_alive(backend):
    a = GpuArray(f16(8, 8), pointer=4096)
    tw.matmul(a, GpuArray(f16(8, 8), pointer=8192), out=GpuArray(f16(8, 8), pointer=16384), backend=backend)
    alive = weakref.ref(a)
    del a
    backend.launched.clear()
    gc.collect()
    assert alive() is None


class HostMemory:
    """Memory of addresses from 256 on, in a dictionary; remembers what is allocated."""

    def __init__(self):
        self.allocated = {}
        self.copied = {}

    def allocate(self, nbytes):
        address = 256 * (1 + len(self.allocated))
        self.allocated[address] = nbytes
        return address

    def free(self, address):
        del self.allocated[address]

    def copy_in(self, address, host, nbytes):
        self.copied[address] = nbytes

    def copy_out(self, host, address, nbytes):
        self.out = (host, address, nbytes)


def test_mirrored_operands_keep_their_alignment_and_what_they_share():
    buffer = np.zeros(4096, np.float16)
    start = (16 - buffer.ctypes.data % 16) // 2 % 8
    a, b = buffer[start + 4 : start + 68], buffer[start + 8 : start + 72]  # overlap; b aligned to 16 bytes, a to 8
    out = np.zeros(64, np.float16)
    memory = HostMemory()
    operands = {name: adopt(array, name) for name, array in (("a", a), ("b", b), ("out", out))}
    with mirrored(operands, memory) as addresses:
        for name, operand in operands.items():
            assert addresses[name] % 16 == operand.pointer % 16
        assert addresses["b"] - addresses["a"] == 8
        assert len(memory.allocated) == 2
    assert memory.out == (out.ctypes.data, addresses["out"], out.nbytes)
    assert not memory.allocated


def test_torch_weights_that_require_grad_are_planned_once_without_grad(backend):
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.ones(8, 8, dtype=torch.float16))
    x = torch.ones(8, 8, dtype=torch.float16)
    with torch.no_grad():
        for _ in range(3):
            tw.matmul(x, weight, backend=backend)
    assert len(backend.prepared) == 1
    with pytest.raises(NotImplementedError, match="b requires grad"):
        tw.matmul(x, weight, backend=backend)


def test_torch_out_is_counted_as_written(backend):
    torch = pytest.importorskip("torch")
    out = torch.zeros(8, 8, dtype=torch.float16)
    version = out._version
    tw.matmul(torch.ones_like(out), torch.ones_like(out), out=out, backend=backend)
    assert out._version > version


def test_torch_views_with_a_lazy_sign_are_refused(backend):
    torch = pytest.importorskip("torch")
    lazy = torch.complex(torch.eye(8), torch.eye(8)).conj().imag
    plain = torch.eye(8)
    tw.matmul(plain, plain, backend=backend)
    with pytest.raises(ValueError, match=r"a is a lazily negated.*resolve_neg"):
        tw.matmul(lazy, plain, backend=backend)


def test_torch_vectors_have_a_scalar_product(backend):
    torch = pytest.importorskip("torch")
    out = tw.matmul(torch.ones(8), torch.ones(8), backend=backend)
    assert out.shape == ()


@pytest.fixture
def torch(backend):
    """torch, whose tensors on the CPU the backend takes for its own."""
    backend.host_in_place = True
    return pytest.importorskip("torch")


def test_direct_calls_launch_what_other_calls_do(backend, torch):
    a, b, out = (torch.ones(8, 8, dtype=torch.float16) for _ in range(3))
    column_major = torch.ones(8, 8, dtype=torch.float16).t()
    for target in (out, column_major):
        plan = tw.plan(a, b, out=target, backend=backend)
        backend.launched.clear()
        for _ in range(4):  # from the third call on direct
            version = target._version
            assert plan(a, b, out=target) is target
            assert target._version > version
        plan(a, b, out=target, alpha=np.float64(1))  # not direct
        assert len(backend.launched) == 5
        assert all(launch == backend.launched[0] for launch in backend.launched)


@pytest.mark.parametrize("planned", [0.5, 1.0])
def test_direct_calls_have_an_alpha_of_1(backend, torch, planned):
    a, b = (torch.ones(8, 8, dtype=torch.float16) for _ in range(2))
    plan = tw.plan(a, b, alpha=planned, backend=backend)
    for scale in 2 * ({}, {"alpha": 1.0}, {"alpha": 2.0}):
        plan(a, b, **scale)
    assert [launch[1] for launch in backend.launched] == 2 * [planned, 1.0, 2.0]


def test_direct_calls_pass_on_what_does_not_fit(backend, torch):
    a, b, out = (torch.ones(8, 8, dtype=torch.float16) for _ in range(3))
    plan = tw.plan(a, b, out=out, backend=backend)
    for _ in range(3):
        plan(a, b, out=out)
    backend.launched.clear()
    for wrong in (a[:4], a.float(), torch.ones(65, dtype=torch.float16)[1:].view(8, 8)):
        with pytest.raises(ValueError, match="a is not as the plan wants it"):
            plan(wrong, b, out=out)
    with pytest.raises(NotImplementedError, match="a requires grad"):
        plan(a.clone().requires_grad_(), b, out=out)
    with pytest.raises(ValueError, match="out shares memory with b"):
        plan(a, b, out=b)
    with pytest.raises(TypeError, match="NoneType"):
        plan(None, b, out=out)
    with pytest.raises(ValueError, match="a is not as the plan wants it: it is a ndarray, of another library"):
        plan(a.numpy(), b, out=out)
    assert not backend.launched


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("offset", [0, 64])
def test_freed_tensors_are_refused_on_every_way(backend, torch, position, offset):
    tensors = [torch.ones(128, dtype=torch.float16)[offset : offset + 64].view(8, 8) for _ in range(3)]
    c = torch.ones(128, dtype=torch.float16)[offset : offset + 64].view(8, 8)
    plan, added = (tw.plan(*tensors[:2], *more, out=tensors[2], backend=backend) for more in ((), (c,)))
    for _ in range(3):  # from the third call on direct
        plan(*tensors[:2], out=tensors[2])
        tw.matmul(*tensors[:2], out=tensors[2], backend=backend)
    backend.launched.clear()
    tensors[position].untyped_storage().resize_(0)
    c.untyped_storage().resize_(0)
    name = ("a", "b", "out")[position]
    for call in (plan, lambda *ab, out: tw.matmul(*ab, out=out, backend=backend)):
        with pytest.raises(ValueError, match=f"{name} has no memory: its storage was freed"):
            call(*tensors[:2], out=tensors[2])
    ones = torch.ones(8, 8, dtype=torch.float16)
    with pytest.raises(ValueError, match="c has no memory"):
        added(ones, ones, c, out=torch.ones_like(ones))
    assert not backend.launched


def test_direct_calls_allocate(backend, torch):
    a, b = (torch.ones(8, 8, dtype=torch.float16) for _ in range(2))
    results = [tw.matmul(a, b, backend=backend) for _ in range(4)]  # the last two are direct
    addresses = [result.data_ptr() for result in results]
    assert len(set(addresses)) == 4
    assert [launch[0][-1] for launch in backend.launched] == addresses


@pytest.mark.parametrize("out", [f16(16, 8).T, f16(8, 32)[:, :16]])
def test_a_plan_for_an_out_with_gaps_makes_none_itself(backend, out):
    plan = tw.plan(f16(8, 8), f16(8, 16), out=out, backend=backend)
    with pytest.raises(ValueError, match=r"out is missing, and the plan was made for one with strides .* pass out="):
        plan(f16(8, 8), f16(8, 16))
    assert not backend.launched


def test_a_stream_that_is_given_is_the_one_that_may_be_captured(backend):
    backend.own_streams, backend.captured_streams = (0, 7), (7,)
    with pytest.raises(RuntimeError, match="being captured"):
        tw.matmul(f16(8, 8), f16(8, 8), backend=backend, stream=7)
    assert not backend.prepared


def test_direct_calls_refuse_lazily_negated_halves(backend, torch):
    a, b, out = (torch.ones(8, 8, dtype=torch.float16) for _ in range(3))
    plan = tw.plan(a, b, out=out, backend=backend)
    for _ in range(3):
        plan(a, b, out=out)
    with pytest.raises(ValueError, match="a is a lazily negated"):
        plan(torch._neg_view(a), b, out=out)
    assert len(backend.launched) == 3


@pytest.mark.filterwarnings("ignore")
def test_torch_compile_calls_between_two_graphs():
    torch = pytest.importorskip("torch")
    x = torch.arange(64, dtype=torch.float32).view(8, 8) % 5
    wanted = (x - 1) @ x + 1
    plan = tw.plan(x, x, backend="emulator")
    for multiply in (
        lambda a: tw.matmul(a - 1, a, backend="emulator") + 1,
        lambda a: tw.plan(a, a, backend="emulator")(a - 1, a) + 1,
        lambda a: plan(a - 1, a) + 1,
    ):
        compiled = torch.compile(multiply, backend="eager")
        for _ in range(3):
            assert torch.equal(compiled(x), wanted)


def test_tensors_that_are_not_plain_are_refused_whatever_came_before(backend):
    torch = pytest.importorskip("torch")
    dense = torch.ones(8, 8, dtype=torch.float16)
    tw.matmul(dense, dense, backend=backend)
    plans = [tw.plan(x, dense, backend=backend) for x in (dense, dense.numpy())]
    nested = torch.nested.as_nested_tensor(list(dense), layout=torch.strided)
    for tensor, message in (
        (dense.to_sparse_csr(), r"a has layout torch\.sparse_csr"),
        (dense.to_sparse(), r"a has layout torch\.sparse_coo"),
        (nested, "a is a nested tensor"),
        (torch.empty(8, 8, device="meta"), "a is on device meta"),
    ):
        for call in (*plans, lambda a, b: tw.matmul(a, b, backend=backend)):
            with pytest.raises(TilewrightError, match=message):
                call(tensor, dense)
    batch = torch.ones(2, 8, 8, dtype=torch.float16)
    with pytest.raises(TypeError, match=r"a has no memory or strides of its own.*outside of torch\.vmap"):
        torch.vmap(lambda x: tw.matmul(x, dense, backend=backend))(batch)
