"""The streaming read asks for each byte of the weights once, breaks no rule and writes nothing."""

from types import SimpleNamespace

import numpy as np
import pytest

from tilewright.backends.emulated import EmulatedBackend
from tilewright.bench import Absent, contenders
from tilewright.bench.stream_read import StreamRead, StreamReadConfig
from tilewright.dtypes import bf16, fp32
from tilewright.hardware import H200, SECTOR_BYTES
from tilewright.jit.cache import build
from tilewright.measure.protocol import Work
from tilewright.problem import Matrix, Problem

TWO_SMS = H200._replace(sm_count=2)


def problem(n, k, dtype=bf16, **weights):
    return Problem(1, n, k, Matrix(dtype, k, 1), Matrix(dtype, 1, k, **weights), Matrix(dtype, n, 1))


@pytest.mark.parametrize(("n", "dtype"), [(1, bf16), (24, bf16), (37, bf16), (3, fp32), (18, fp32)])
def test_each_sector_is_read_once(n, dtype):
    read, k = StreamRead(), 512
    weights = np.arange(n * k, dtype=f"u{dtype.nbytes}")
    out = np.full(8, 0xFFFF, np.uint16)
    posed = problem(n, k, dtype)
    for usual in read.configs(posed, TWO_SMS):
        config = StreamReadConfig(64, 2, usual.in_flight)
        launch = read.assemble(config, posed, TWO_SMS)
        compiled = build(launch.source, TWO_SMS.virtual_arch)
        backend = EmulatedBackend(TWO_SMS, checks=True, count_memory=True)
        b, result = (backend.memory.allocate(array.nbytes) for array in (weights, out))
        backend.memory.copy_in(b, weights.ctypes.data, weights.nbytes)
        backend.memory.copy_in(result, out.ctypes.data, out.nbytes)
        counters = backend.prepare(compiled, launch.shape, launch.arguments)([b, b, 0, 0, result], 1.0, 0.0, 0)
        assert counters.as_dict()["global_sectors"] == {"ld": weights.nbytes // SECTOR_BYTES}
        assert not backend.device.reports
        backend.memory.copy_out(out.ctypes.data, result, out.nbytes)
        assert (out == 0xFFFF).all()


def test_the_contender_reads_the_weights_of_each_set(monkeypatch):
    """On arrays in the emulator's memory, with launches that are not timed."""
    emulated = EmulatedBackend(TWO_SMS, checks=True)
    read_from = []

    def prepare(compiled, shape, arguments):
        assert shape.grid % TWO_SMS.sm_count == 0
        executable = emulated.prepare(compiled, shape, arguments)
        return lambda pointers, *scalars: read_from.append(pointers[1]) or executable(pointers, *scalars)

    def array():
        address = emulated.memory.allocate(1 << 14)
        return SimpleNamespace(data_ptr=lambda: address)

    def work(launch):
        def run(times):
            for number in range(times):
                launch(number % 2)
            return times * 1e-6

        return Work(run)

    sets = [(array(), array(), array()) for _ in range(2)]
    stream = SimpleNamespace(cuda_stream=0)
    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda: stream))
    posed = problem(16, 512)
    inputs = SimpleNamespace(problem=posed, hardware=TWO_SMS, device=0, sets=sets, torch=torch, work=work)
    monkeypatch.setattr(contenders, "backend", lambda device: SimpleNamespace(prepare=prepare))
    (contender,) = contenders.contenders_named(["read"])
    prepared = contender.prepare(inputs)
    prepared.launch(1)
    assert read_from[-1] == sets[1][1].data_ptr()
    assert set(read_from) == {b.data_ptr() for _, b, _ in sets}
    assert not prepared.multiplies
    assert not contenders.is_peer("read")
    inputs.problem = problem(3, 3)
    with pytest.raises(Absent, match="packed"):
        contender.prepare(inputs)


def test_weights_that_are_not_packed_are_refused():
    read = StreamRead()
    assert read.refuses(problem(24, 512), H200) is None
    assert "packed" in read.refuses(problem(3, 3), H200).reason
    assert "packed" in read.refuses(problem(24, 512, alignment=8), H200).reason
    assert "packed" in read.refuses(problem(24, 512)._replace(b=Matrix(bf16, 2, 2048)), H200).reason
