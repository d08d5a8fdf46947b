"""Whether the emulator reports a mutant: it runs on a small product, under every order of asynchronous completion."""

import json
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import tilewright as tw
from support import mutants
from support.cases import by_fours
from support.mutated_calls import arrays_of, operands_of, product_of, unwritten
from support.quantization import assert_quantized
from support.rungs import RUNGS
from tilewright.backends.emulated import EmulatedBackend
from tilewright.emulator import device as emulated_device
from tilewright.emulator.errors import EmulatorError, PtxSyntaxError, UnsupportedInstruction
from tilewright.emulator.machine.asynchrony import Asynchrony
from tilewright.hardware import H200
from tilewright.jit.compile import SOURCE_ROOT
from tilewright.jit.source import package_headers
from tilewright.kernels.column_sums import ColumnSumsConfig
from tilewright.kernels.config_fields import brief
from tilewright.kernels.copy import CopyConfig
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.ladder.warp_tensor_cores import MmaWarpConfig
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.registry import EVERY_KERNEL
from tilewright.kernels.repack import RepackConfig
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma.config import WgmmaConfig

RECORD = Path(__file__).parents[2] / "results" / "mutation_score.json"
"""What tools/mutation_score.py wrote last."""

SCHEDULES = (("eager", 0), ("lazy", 0), ("random", 1), ("random", 2))

MOST_STEPS = 200_000
"""Basic blocks after which a launch counts as endless; the products here take under 10 000."""

ADDED = {"expression": "relu(acc + bias) - other"}
GATED = {"expression": "relu(x + bias) * y", "gate": "interleaved"}
SUMMED = {**ADDED, "sums": True}
"""Epilogues of a Subject: an expression, one of columns by twos, and one with sums of columns."""


@dataclass(frozen=True)
class Subject:
    """A kernel with a Config, and a product (m, n, k) that goes round its ring several times and ends within a tile.

    A second product has one k-block only, or one for each CTA that splits k, so that the ends of a tile's main loop
    meet. A rung of the ladder gets both in its layout and in whole tiles; a production kernel gets them in `stored`.

    stored: which of A and B is stored transposed. expression: instead of acc, of small integers `bias` and `other`.
    gate: that of the product. sums: whether columns are summed, too. recipe: that of scales, if they are of blocks:
    where products are added behind the next ones, two at a time, other products have six k-blocks and one.
    """

    name: str
    kernel: str
    config: Any
    dtype: str
    shape: tuple[int, int, int]
    out_dtype: str | None = None
    stored: str = "nt"
    expression: str | None = None
    gate: str | None = None
    sums: bool = False
    recipe: str | None = None

    @property
    def shapes(self):
        """The products that a mutant has to get right."""
        m, n, k = self.shape
        if k == 0:
            return self.shape, (m, n + 2, 0)  # in which pairs of columns are aligned, too
        if self.rung:
            return self.shape, (m, n, self.rung.tile_k)
        others = getattr(self.config, "split_k", 1) - 1  # CTAs with a k-block each; those of `gemv` need none
        aligned, tile_k = 16 if self.recipe else 8, getattr(self.config, "tile_k", 0)
        numbers = (5, 0) if self.recipe and self.config.wait_depth else (others,)  # of k-blocks ahead of the last
        return self.shape, *((m, n, number * tile_k + aligned + k % aligned) for number in numbers)

    @property
    def rung(self):
        """The kernel where it is one of the ladder's own, else None."""
        return RUNGS.get(self.kernel)

    @property
    def layout(self):
        """Which of A and B is stored transposed."""
        return self.rung.layout if self.rung else self.stored

    @property
    def described(self):
        """The larger product, in words."""
        m, n, k = self.shape
        parts = (
            f"{m}x{n}x{k} {self.dtype} -> {self.out_dtype or self.dtype}",
            self.stored if self.stored != "nt" else None,
            self.expression,
            self.gate,
            "sums of columns" if self.sums else None,
            f"scales {self.recipe}" if self.recipe else None,
        )
        return ", ".join(filter(None, parts))

    @property
    def plain(self):
        """Its translation unit, run as it is."""
        return _plain(self)

    @property
    def gpu(self):
        """What it runs on: two SMs, so that CTAs make several tiles, or as many as a cluster needs."""
        sizes = (getattr(self.config, name, 1) for name in ("cluster_m", "cluster_n", "split_k"))
        return H200._replace(sm_count=max(2, prod(sizes)))

    @property
    def unit(self):
        """Its source, before compilation."""
        problem = _planned(self, self.shape, EmulatedBackend(self.gpu)).problem
        return EVERY_KERNEL[self.kernel].assemble(self.config, problem, self.gpu).source

    def compiled(self) -> str:
        """The PTX of its translation unit, made anew."""
        ptx: str = _planned(self, self.shape, EmulatedBackend(self.gpu)).compiled.ptx
        return ptx

    def is_right_on(self, backend, shape):
        """Whether a product has the bits that it must have, however scales of its rows lie in memory."""
        expected = product_of(self, shape)
        for lay in (None, by_fours) if self.recipe else (None,):
            written = {name: unwritten(values) for name, values in expected.items()}
            call = arrays_of(self, shape, written, lay)
            _planned(self, shape, backend, call)(*operands_of(self, shape), **call)
            if any(values.tobytes() != expected[name].tobytes() for name, values in written.items()):
                return False
        return True

    def mutants(self) -> tuple[mutants.Mutant, ...]:
        """All mutants of its PTX."""
        return _mutants(self)


@dataclass(frozen=True)
class Quantizing(Subject):
    """Kernel `quantize` in place of a product: x and x.T get codes and scales, in one launch.

    shape: (m, 1, k). block: what shares a scale.
    """

    block: str = "1x128"

    @property
    def shapes(self):
        """What a mutant has to get right."""
        return (self.shape,)

    @property
    def described(self):
        """The quantization, in words."""
        m, _, k = self.shape
        return f"{m}x{k} {self.dtype} -> {self.out_dtype}, scales {self.block}"

    def compiled(self):
        """The PTX of its translation unit, made anew."""
        return _launched(self)

    def is_right_on(self, backend, shape):
        """Whether codes and scales have the bits that they must have."""
        x, _ = operands_of(self, shape)
        result = tw.quantize(x, self.out_dtype, block=self.block, transposed=True, backend=backend)
        try:
            assert_quantized(result, x, self.out_dtype, self.block)
        except AssertionError:
            return False
        return True


@dataclass(frozen=True)
class Beside(Subject):
    """A kernel that is launched ahead of a product, or behind it, and whose `product` has to be right then."""

    product: Subject | None = None

    @property
    def shapes(self):
        """The products that a mutant has to get right."""
        return self.product.shapes

    @property
    def described(self):
        """The product, in words."""
        return f"{self.product.described}, by {brief(self.product.config)}"

    def compiled(self):
        """The PTX of its translation unit, made anew."""
        return _launched(self)

    def is_right_on(self, backend, shape):
        """Whether the product has the bits that it must have."""
        return self.product.is_right_on(backend, shape)


def _rung(name, shape, dtype="fp32"):
    return Subject(name, name, None, dtype, shape)


def _wgmma(name, tile_m, tile_n, stages, shape=(264, 136, 456), out_dtype=None, ending=MappingProxyType({}), **options):
    config = WgmmaConfig(tile_m, tile_n, stages, **options)
    return Subject(f"wgmma {name}", "wgmma", config, "bf16", shape, out_dtype, **ending)


def _scaled(recipe, name, tile_m, tile_n, stages, shape, out_dtype, **options):
    config = WgmmaConfig(tile_m, tile_n, stages, tile_k=128, **options)
    return Subject(f"wgmma {recipe}{name}", "wgmma", config, "fp8_e4m3", shape, out_dtype, recipe=recipe)


def _beside(name, kernel, config, *product, **options):
    posed = Subject(f"{name}'s product", *product, **options)
    return Beside(name, kernel, config, posed.dtype, posed.shape, posed.out_dtype, product=posed)


def _quantizing(block, shape):
    return Quantizing(f"quantize {block}", "quantize", None, "bf16", shape, "fp8_e4m3", block=block)


SHORT = MmaConfig(64, 64, 32, 3)
DIRECT = {"epilogue": "direct", "overlap": False}
BYTES = WgmmaConfig(64, 64, 2, tile_k=128, **DIRECT)

SUBJECTS = (
    Subject("simt", "simt", SimtConfig(64, 64, 16, 32, 32, 8, 4), "fp32", (70, 134, 60)),
    Subject("simt, odd rows", "simt", SimtConfig(64, 64, 8, 32, 32, 8, 4), "fp32", (69, 131, 45)),
    Subject("simt, k in two parts", "simt", SimtConfig(64, 64, 8, 32, 32, 8, 4, 8, 2), "fp32", (69, 131, 45)),
    Subject("mma, 3 stages", "mma", SHORT, "bf16", (72, 136, 264)),
    Subject("mma, 4 stages of 64", "mma", MmaConfig(64, 64, 64, 4), "fp16", (72, 136, 456)),
    Subject("mma, expression, sums of columns", "mma", SHORT, "bf16", (72, 136, 264), **SUMMED),
    Subject("mma, odd rows", "mma", MmaConfig(32, 64, 32, 4, 1, 2, 1), "fp16", (37, 67, 203)),
    Subject("mma, odd rows of out", "mma", MmaConfig(stages=3), "bf16", (72, 135, 264), "fp32"),
    _rung("wmma_gmem", (32, 64, 48), "fp16"),
    _rung("wmma_smem", (128, 128, 192), "bf16"),
    _rung("wmma_padded", (128, 128, 192), "fp16"),
    _rung("mma_warp", (16, 16, 64), "bf16"),
    Subject("mma_warp, fp16 sums", "mma_warp", MmaWarpConfig("fp16"), "fp16", (16, 16, 64)),
    _rung("mma_smem", (128, 128, 160), "bf16"),
    _rung("mma_swizzled", (128, 128, 288), "bf16"),
    _rung("volta_mma", (128, 256, 96), "fp16"),
    _rung("sparse_mma", (128, 128, 96), "bf16"),
    _rung("wgmma_basic", (128, 64, 192), "bf16"),
    _rung("wgmma_larger_tile", (128, 128, 192), "bf16"),
    _rung("wgmma_pipelined", (128, 128, 448), "bf16"),
    _rung("wgmma_two_consumers", (128, 256, 320), "bf16"),
    _rung("wgmma_persistent", (256, 512, 320), "bf16"),
    _rung("wgmma_lean_barriers", (256, 512, 320), "bf16"),
    _rung("wgmma_multicast", (256, 512, 320), "bf16"),
    _rung("wgmma_registers", (256, 512, 320), "bf16"),
    _rung("wgmma_async_store", (256, 512, 320), "bf16"),
    _rung("wgmma_stmatrix", (256, 512, 320), "bf16"),
    _wgmma("tma, overlap", 128, 64, 3),
    _wgmma("tma, overlap, two row blocks", 256, 64, 2, (520, 136, 392)),
    _wgmma("tma, overlap, whole row blocks", 256, 72, 2, (520, 136, 392)),
    _wgmma("tma, overlap, cluster 2x1", 128, 64, 3, (264, 72, 456), cluster_m=2),
    _wgmma("tma, overlap, cluster 1x2", 128, 64, 3, (392, 136, 456), cluster_n=2),
    _wgmma("ping-pong", 64, 64, 3, epilogue="direct", ping_pong=True, overlap=False),
    _wgmma("tma, wait depth 1", 128, 64, 4, overlap=False, wait_depth=1),
    _wgmma("direct, overlap, cluster 2x1", 128, 64, 3, (264, 72, 456), epilogue="direct", cluster_m=2),
    _wgmma("direct, wait depth 1, fp32", 128, 64, 3, out_dtype="fp32", epilogue="direct", overlap=False, wait_depth=1),
    _wgmma("one consumer, swap_ab", 64, 64, 3, (136, 264, 456), swap_ab=True, epilogue="direct"),
    _wgmma("three consumers, cluster 1x2", 192, 64, 5, (392, 136, 392), cluster_n=2, prefetch=2),
    _wgmma("direct, split_k 2", 128, 96, 2, (136, 104, 456), split_k=2, overlap=False, epilogue="direct"),
    _wgmma("split_k 2, cluster 1x2", 64, 32, 3, (72, 72, 904), split_k=2, cluster_n=2, **DIRECT),
    _wgmma("tma, overlap, expression", 128, 64, 3, ending=ADDED),
    _wgmma("tma, overlap, gate", 128, 128, 3, (264, 272, 456), ending=GATED),
    _wgmma("tma, overlap, sums of columns", 128, 64, 3, ending=SUMMED),
    _scaled("1x128_128x128", "", 128, 96, 2, (520, 88, 304), "bf16"),
    _scaled("1x128_128x128", ", ping-pong", 128, 32, 3, (136, 136, 1328), "fp32", **DIRECT, ping_pong=True),
    _scaled("1x128_1x128", "", 128, 48, 2, (520, 88, 304), "fp32", **DIRECT),
    _scaled("1x128_1x128", ", wait depth 1", 128, 32, 5, (136, 136, 560), "fp32", **DIRECT, wait_depth=1),
    _beside("column_sums", "column_sums", ColumnSumsConfig(), "mma", SHORT, "fp16", (1100, 40, 16), sums=True),
    _beside("repack", "repack", RepackConfig(), "wgmma", WgmmaConfig(64, 64, 3), "bf16", (72, 72, 203)),
    _beside("repack, turned", "repack", RepackConfig(), "wgmma", BYTES, "int8", (131, 67, 259), "int32", stored="tn"),
    Subject("gemv", "gemv", GemvConfig(1, 8, 8, 2, 1), "bf16", (2, 20, 1640)),
    Subject("gemv, split_k 2", "gemv", GemvConfig(4, 16, 2, 2, 2, 2), "fp16", (6, 40, 1100)),
    Subject("gemv, fp32", "gemv", GemvConfig(8, 16, 2, 2, 2, 2), "fp32", (6, 40, 556)),
    _quantizing("1x128", (130, 1, 144)),
    _quantizing("128x128", (131, 1, 131)),
    Subject("copy", "copy", CopyConfig(8, 64), "bf16", (20, 70, 0)),
    _rung("smem_tiles", (37, 41, 101)),
    _rung("register_tiles", (128, 128, 64)),
    _rung("double_buffered", (128, 128, 64)),
    _rung("async_copies", (128, 128, 64)),
    _rung("warp_tiles", (128, 128, 64)),
)  # fmt: skip
"""Every kernel of the registry that synchronizes, in variants that do so differently.

CTAs of a cluster do not end with the last slot of their ring: what waits for all slots goes round its end.
With scales of blocks, tiles, k-blocks and stages are as many as make each copy of a line go round its ring.

The code of wgmma_hilbert is that of wgmma_async_store.
"""


def on_record(subject: Subject) -> tuple[dict[str, Any], dict[str, str | None]]:
    """What RECORD has of a subject, and what was found about each mutant, by name; None for nothing."""
    details = json.loads(RECORD.read_text())["subjects"].get(subject.name, {"survivors": [], "reported_as": {}})
    survivors = {survivor["mutant"]: survivor.get("found") for survivor in details["survivors"]}
    return details, survivors | details["reported_as"]


def finding(subject: Subject, ptx: str) -> str | None:
    """What the emulator finds wrong when the subject's products are multiplied by this PTX, first of all; else None.

    Operands are small integers, whose product is exact, so that orders of completion can only differ by a wrong one.
    PTX that the emulator does not take is no finding but an error.
    """
    for shape, (asynchrony, seed) in product(subject.shapes, SCHEDULES):
        backend = _Substituting(subject.gpu, subject.kernel, ptx, asynchrony=asynchrony, seed=seed)
        kind = None
        try:
            with mock.patch.object(emulated_device, "Asynchrony", _Counted):
                right = subject.is_right_on(backend, shape)
        except (PtxSyntaxError, UnsupportedInstruction):
            raise
        except EmulatorError as error:
            kind = type(error).__name__
        if kind is None and backend.device.reports:
            kind = backend.device.reports[0].kind
        if kind is None and not right:
            kind = "wrong product"
        if kind is not None:
            return f"{kind}, {asynchrony if asynchrony != 'random' else f'random({seed})'}, k = {shape[2]}"
    return None


class Endless(EmulatorError):
    """A launch that took more than MOST_STEPS."""


class _Substituting(EmulatedBackend):
    """Runs other PTX of a kernel than what was compiled, with every check; with None it keeps what was compiled."""

    def __init__(self, gpu, kernel, ptx, **options):
        super().__init__(gpu, checks=True, **options)
        self.kernel, self.ptx = kernel, ptx

    def prepare(self, compiled, shape, arguments):
        if compiled.name.startswith(self.kernel):
            self.ptx = self.ptx or compiled.ptx
            compiled = compiled._replace(ptx=self.ptx)
        return super().prepare(compiled, shape, arguments)


def _launched(subject):
    """The PTX of a kernel that is not the one of a Plan."""
    backend = _Substituting(subject.gpu, subject.kernel, None)
    assert subject.is_right_on(backend, subject.shape)
    return backend.ptx


class _Counted(Asynchrony):
    """Counts the steps of a launch and ends it when they are too many."""

    steps = 0

    def step(self):
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Endless(f"the launch has not ended after {MOST_STEPS} steps")
        super().step()


def _planned(subject, shape, backend, call=None):
    return tw.plan(
        *operands_of(subject, shape),
        **(call or arrays_of(subject, shape, {})),
        epilogue=subject.expression,
        gate=subject.gate,
        recipe=subject.recipe,
        out_dtype=subject.out_dtype,
        kernel=subject.kernel,
        config=subject.config,
        backend=backend,
    )


@cache
def _plain(subject: Subject) -> str:
    return subject.compiled()


@cache
def _mutants(subject: Subject) -> tuple[mutants.Mutant, ...]:
    sources = {SOURCE_ROOT + name: text for name, text in package_headers().items()}
    return tuple(mutants.generate(subject.plain, sources))
