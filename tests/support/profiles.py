"""Kernels whose memory counters are compared with Nsight Compute's: each is one launch on either machine.

Run under ncu as `python -m support.profiles FILE`: launches all on the GPU and writes the names to FILE, in order.
"""

import itertools
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np

import tilewright as tw
from emulate.nvrtc import compile_ptx
from support.gpu_process import launch_here
from support.launches import Launch
from support.rungs import RUNGS, product
from tilewright.backends.emulated import EmulatedBackend
from tilewright.emulator import Device
from tilewright.hardware import H200
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma.config import WgmmaConfig

_DTYPES = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp32": np.float32}

_SOURCE = """
struct alignas(16) Four { float x, y, z, w; };
struct alignas(8) Two { float x, y; };
template <class T>
__device__ void copy_async(T* to, const float* from, int bytes = sizeof(T)) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(sizeof(T)), "r"(bytes));
}
__device__ void copied() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}
extern "C" __global__ void kernel(float* out, const float* in, long long stride) {
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  BODY
}
"""
_SNIPPETS = {
    "copy": "out[i] = in[i];",
    "copy, stride 2": "out[i] = in[2 * i];",
    "copy, stride given": "out[i] = in[i * stride % 65536];",
    "copy, misaligned": "out[i] = in[i + 1];",
    "copy backwards": "out[i] = in[65535 - i];",
    "copy by pairs": "((Two*)out)[i] = ((const Two*)in)[i];",
    "copy by fours": "((Four*)out)[i] = ((const Four*)in)[i];",
    "fours, stride 2": "((Four*)out)[i] = ((const Four*)in)[2 * i % 16384];",
    "bytes": "((char*)out)[i] = ((const char*)in)[i];",
    "broadcast": "out[i] = in[blockIdx.x];",
    "some lanes": "if (t % 3 == 0) out[i] = in[i];",
    "scatter": "out[i * 37 % 65536] = in[i * 61 % 65536];",
    "transpose without SMEM": "out[i % 256 * 256 + i / 256] = in[i];",
    "naive product": "float sum = 0; for (int k = 0; k < 64; k++) sum += in[i / 64 % 64 * 64 + k] * "
    "in[k * 64 + i % 64]; out[i] = sum;",
    "naive product, columns": "float sum = 0; for (int k = 0; k < 64; k++) sum += in[i % 64 * 64 + k] * "
    "in[k * 64 + i / 64 % 64]; out[i] = sum;",
    "transpose with conflicts": "__shared__ float tile[32][32]; int x = t % 32, y = t / 32; tile[y][x] = in[i];"
    " __syncthreads(); out[i] = tile[x][y];",
    "transpose, padded": "__shared__ float tile[32][33]; int x = t % 32, y = t / 32; tile[y][x] = in[i];"
    " __syncthreads(); out[i] = tile[x][y];",
    "SMEM, stride given": "__shared__ float tile[4096]; tile[t] = tile[t + 1024] = in[i]; __syncthreads();"
    " out[i] = tile[t * stride % 2048];",
    "SMEM by pairs": "__shared__ Two tile[1024]; tile[t] = Two{in[i], 1}; __syncthreads();"
    " Two v = tile[t ^ 1]; out[i] = v.x + v.y;",
    "SMEM by fours": "__shared__ Four tile[1024]; tile[t] = Four{in[i], 1, 2, 3}; __syncthreads();"
    " Four v = tile[t ^ 5]; out[i] = v.x + v.y + v.z + v.w;",
    "SMEM by fours, stride 2": "__shared__ Four tile[2048]; tile[2 * t] = Four{in[i], 1, 2, 3}; __syncthreads();"
    " Four v = tile[2 * (t ^ 1)]; out[i] = v.x + v.y + v.z + v.w;",
    "SMEM by fours, broadcast": "__shared__ Four tile[1024]; tile[t] = Four{in[i], 1, 2, 3}; __syncthreads();"
    " Four v = tile[t / 8]; out[i] = v.x + v.y + v.z + v.w;",
    "SMEM broadcast": "__shared__ float tile[1024]; tile[t] = in[i]; __syncthreads(); out[i] = tile[t / 32];",
    "cp.async": "__shared__ float tile[1024]; copy_async(tile + t, in + i); copied(); out[i] = tile[t];",
    "cp.async, source stride 2": "__shared__ float tile[1024]; copy_async(tile + t, in + 2 * i); copied();"
    " out[i] = tile[t];",
    "cp.async, source stride 32": "__shared__ float tile[1024]; copy_async(tile + t, in + i * 32 % 65536); copied();"
    " out[i] = tile[t];",
    "cp.async, SMEM stride 2": "__shared__ float tile[2048]; copy_async(tile + 2 * t, in + i); copied();"
    " out[i] = tile[2 * t];",
    "cp.async by pairs, source stride 2": "__shared__ Two tile[1024]; copy_async(tile + t, in + 4 * i); copied();"
    " out[i] = tile[t].x;",
    "cp.async by fours": "__shared__ Four tile[1024]; copy_async(tile + t, in + 4 * i); copied(); out[i] = tile[t].x;",
    "cp.async by fours, rows of 64 bytes": "__shared__ Four tile[1024];"
    " copy_async(tile + t, in + (i / 4 * 64 + i % 4 * 4) % 65536); copied(); out[i] = tile[t].x;",
    "cp.async by fours, columns of SMEM": "__shared__ Four tile[1024]; Four* to = tile + t % 32 * 32 + t / 32;"
    " copy_async(to, in + 4 * i); copied(); out[i] = to->x;",
    "cp.async by fours, one source": "__shared__ Four tile[1024]; copy_async(tile + t, in); copied();"
    " out[i] = tile[t].x;",
    "cp.async by fours, half of them zeros": "__shared__ Four tile[1024];"
    " copy_async(tile + t, in + 4 * i, t % 32 < 16 ? 16 : 0); copied(); out[i] = tile[t].x;",
    "bulk copies": "__shared__ Four tile[64]; __shared__ unsigned long long done; unsigned to ="
    " (unsigned)__cvta_generic_to_shared(tile), bar = (unsigned)__cvta_generic_to_shared(&done), landed = 0;"
    " const char* from = (const char*)in + 208 * blockIdx.x; char* back = (char*)out + 304 * blockIdx.x;"
    ' if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;"'
    ' "mbarrier.arrive.expect_tx.shared.b64 _, [%0], 208;"'
    ' "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 208, [%0];"'
    ' :: "r"(bar), "r"(to), "l"(from) : "memory"); __syncthreads(); while (!landed)'
    ' asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p;}"'
    ' : "=r"(landed) : "r"(bar) : "memory"); __syncthreads();'
    ' if (t == 0) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 208;"'
    ' "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" :: "l"(back), "r"(to) : "memory");',
    "SMEM bytes": "__shared__ char tile[1024]; tile[t] = (char)in[i]; __syncthreads(); out[i] = tile[t ^ 3];",
}  # fmt: skip


@dataclass(frozen=True)
class Snippet:
    """A CUDA kernel of a line or two on 64 CTAs of 1024 threads."""

    title: str
    stride: int = 1

    @property
    def spins(self):
        """Whether threads ask an mbarrier until it is done, and so access memory again and again."""
        return self.title.startswith("bulk")

    @property
    def name(self):
        """What it does."""
        return f"{self.title} ({self.stride})" if "given" in self.title else self.title

    def _launch(self):
        data = np.zeros(1 << 20, np.uint8)
        ptx = compile_ptx(_SOURCE.replace("BODY", _SNIPPETS[self.title]))
        return Launch(ptx, (data, data), numbers=(self.stride,), grid=64, block=1024)

    def run(self):
        """Launch on the GPU."""
        launch_here(self._launch())

    def count(self):
        """The emulator's counters."""
        launch = self._launch()
        device = Device(count_memory=True, checks=False)
        arguments = [*(device.upload(buffer) for buffer in launch.buffers), *launch.numbers]
        return device.launch(device.load(launch.ptx), (launch.grid,), (launch.block,), arguments)


@dataclass(frozen=True)
class Product:
    """A product by one of the package's kernels."""

    kernel: str
    config: object
    dtype: str
    layout: str = "nt"
    extents: tuple[int, int, int] = (192, 160, 96)
    epilogue: dict = field(default_factory=dict)

    @property
    def spins(self):
        """Whether threads ask an mbarrier until it is done, and so access memory again and again."""
        return self.kernel.startswith("wgmma")

    @property
    def name(self):
        """All of it."""
        extents = "x".join(map(str, self.extents))
        extras = "".join(f", {key}={value}" for key, value in self.epilogue.items())
        return f"{self.kernel} {self.dtype} {self.layout} {extents}{extras}, {self.config}"

    def _arguments(self):
        m, n, k = self.extents
        random = np.random.default_rng(1)
        a = _aligned(random, (m, k) if self.layout[0] == "n" else (k, m), self.dtype)
        b = _aligned(random, (k, n) if self.layout[1] == "n" else (n, k), self.dtype)
        a, b = a if self.layout[0] == "n" else a.T, b if self.layout[1] == "n" else b.T
        out = _aligned(random, (m, n), self.dtype)
        keywords = dict(self.epilogue)
        if keywords.pop("bias", None):
            keywords["bias"] = _aligned(random, (n,), self.dtype)
        if keywords.pop("c", None):
            keywords["c"] = _aligned(random, (m, n), self.dtype)
        return (a, b), {**keywords, "out": out, "kernel": self.kernel, "config": self.config}

    def run(self):
        """Launch on the GPU."""
        arrays, keywords = self._arguments()
        tw.matmul(*arrays, backend="gpu", **keywords)

    def count(self):
        """The emulator's counters."""
        arrays, keywords = self._arguments()
        plan = tw.plan(*arrays, backend=_counting_backend(), **keywords)
        called = {name: value for name, value in keywords.items() if name in ("c", "bias", "out")}
        return plan.counted(*arrays, **called)[1]


@cache
def _counting_backend():
    return EmulatedBackend(count_memory=True)


def _aligned(random, shape, dtype):
    """Small integers at an address that both machines align alike."""
    dtype = np.dtype(_DTYPES[dtype])
    nbytes = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(nbytes + 1024, np.uint8)
    start = -memory.ctypes.data % 512
    array = memory[start : start + nbytes].view(dtype).reshape(shape)
    array[...] = random.integers(-4, 5, shape)
    return array


def _all():
    for title in _SNIPPETS:
        strides = {"copy, stride given": (8, 32, 33), "SMEM, stride given": (2, 4, 8, 3, 32, 33)}.get(title, (1,))
        yield from (Snippet(title, stride) for stride in strides)
    square = SimtConfig(64, 64, 16, 32, 32, 8, 4)
    for layout in ("nt", "nn", "tn", "tt"):
        yield Product("simt", square, "fp32", layout)
        yield Product("simt", SimtConfig(), "fp32", layout)
        yield Product("mma", MmaConfig(64, 64), "bf16", layout)
        yield Product("mma", MmaConfig(), "fp16", layout)
    yield Product("simt", SimtConfig(64, 64, 8, 32, 32, 8, 4), "fp32", extents=(130, 90, 70))
    yield Product("simt", SimtConfig(256, 128, 16, 64, 64, 16, 8), "fp32")
    yield Product("mma", MmaConfig(64, 64, 64, 3), "bf16", extents=(130, 90, 70))
    yield Product("mma", MmaConfig(128, 256, 32, 3, 2, 4), "bf16", extents=(256, 256, 128))
    for kernel, config, dtype in (("simt", square, "fp32"), ("mma", MmaConfig(64, 64), "bf16")):
        yield Product(kernel, config, dtype, epilogue={"bias": True, "activation": "relu"})
        yield Product(kernel, config, dtype, epilogue={"c": True, "beta": 0.5})
    yield from _of_tma()
    yield from _rungs()


def _of_tma():
    """The production kernel for Hopper, alone and with multicast, also beyond its edges and on rows of odd sectors."""
    for cluster_m, cluster_n in ((1, 1), (2, 1), (1, 2)):
        for epilogue, layout in (("tma", "nt"), ("direct", "tn")):
            config = WgmmaConfig(cluster_m=cluster_m, cluster_n=cluster_n, epilogue=epilogue)
            for extents in ((512, 512, 256), (328, 264, 200), (72, 256, 72), (256, 72, 80)):
                yield Product("wgmma", config, "bf16", layout, extents)


def _rungs():
    """Every Config and type of the rungs; those that guard their edges on odd extents too."""
    for name, kernel in RUNGS.items():
        whole = (512, 512, 256) if kernel.unit == "wgmma" else (256, 256, 128)
        odd = () if kernel.whole_tiles else ((70, 50, 33),)
        for dtype, extents in itertools.product(kernel.inputs, (whole, *odd)):
            for config in kernel.configs(product(kernel, dtype), H200):
                yield Product(name, config, dtype.name, kernel.layout, extents)
        yield Product(name, config, dtype.name, kernel.layout, epilogue={"c": True, "beta": 0.5}, extents=whole)


PROFILES = tuple(_all())


@contextmanager
def counted_aside(profiles, processes=None):
    """Emulate profiles in other processes, as many as cores by default, while this one does something else.

    Gives a function of a profile that waits for its counters, a dict.
    """
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    try:
        running = {profile.name: pool.submit(_counted, profile) for profile in profiles}
        yield lambda profile: running[profile.name].result()
    finally:
        pool.shutdown(cancel_futures=True)


def _counted(profile):
    return profile.count().as_dict()


def main():
    """Launch all on the GPU; a profile that fails is left out."""
    launched = []
    for profile in PROFILES:
        try:
            profile.run()
        except Exception as error:
            print(f"{profile.name}: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            launched.append(profile.name)
        Path(sys.argv[1]).write_text(json.dumps(launched))


if __name__ == "__main__":
    main()
