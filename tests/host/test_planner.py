"""What the planner decides: a kernel and its Config for each kind of problem, the reason in words, and the notice."""

import logging
import re
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import tilewright as tw
from support.doubles import V100
from tilewright import dtypes
from tilewright.expression.grammar import parse
from tilewright.hardware import A100, H20, H100_PCIE, H100_SXM, H200
from tilewright.kernels.copy import CopyConfig
from tilewright.kernels.gemv import GemvConfig
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.registry import KERNELS
from tilewright.kernels.simt import SimtConfig
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.model.ranking import ranking
from tilewright.planner.choose import choose, published
from tilewright.planner.copies import copied
from tilewright.problem import Epilogue, Matrix, Problem

_PROBLEM = re.compile(
    r"(?:(\d+) of )?(\d+)x(\d+)x(\d+) (\w\w) (\w+)(?: by (\d+))?(?: -> (\w+))?(?: \+ (bias))?(?: (\w+))?"
)


def problem(text):
    """The Problem that a text describes: "8 of 64x48x32 nt bf16 by 8 -> fp32 + bias gelu" is a batch of 8 products of
    (64, 32) and (32, 48), B stored transposed, whose rows are aligned to 8 bytes and to no more.
    """
    batch, m, n, k, layout, name, alignment, out, bias, activation = _PROBLEM.fullmatch(text).groups()
    m, n, k, alignment = int(m), int(n), int(k), int(alignment or 16)
    batch = (int(batch),) if batch else ()
    dtype = dtypes.parse(name, "dtype")
    result = dtypes.parse(out or name, "out")

    def stored(rows, columns, transposed):
        pad = alignment // dtype.nbytes if alignment < 16 else 0
        row, column = (1, rows + pad) if transposed else (columns + pad, 1)
        return Matrix(dtype, row, column, (rows * columns + 16 * max(row, column),) * len(batch), alignment)

    return Problem(
        m, n, k, stored(m, k, layout[0] == "t"), stored(k, n, layout[1] == "t"),
        Matrix(result, n, 1, (m * n,) * len(batch)), batch,
        epilogue=Epilogue(bias=Matrix(dtype, 0, 1, (0,) * len(batch)) if bias else None, activation=activation),
    )  # fmt: skip


CHOICES = (
    (
        "4096x4096x4096 nt bf16",
        H200,
        WgmmaConfig(group_m=16),
    ),
    (
        "4096x4096x4096 nn bf16",
        H200,
        WgmmaConfig(group_m=16),
    ),
    (
        "4096x4096x4096 tt fp16",
        H200,
        WgmmaConfig(group_m=16),
    ),
    ("8192x8192x8192 nt bf16", H200, WgmmaConfig(tile_m=256, tile_n=200, stages=3)),
    (
        "4096x4096x4096 nt bf16",
        H100_PCIE,
        WgmmaConfig(tile_n=200, stages=5, cluster_m=2, epilogue="direct", overlap=False, wait_depth=1, ping_pong=True),
    ),
    (
        "4096x4096x4096 nt bf16",
        H20,
        WgmmaConfig(tile_n=96, stages=8, group_m=7, epilogue="direct", overlap=False, wait_depth=1, ping_pong=True),
    ),
    (
        "2048x11008x4096 nt bf16",
        H200,
        WgmmaConfig(tile_m=256, tile_n=176, stages=3),
    ),
    (
        "2048x4096x11008 nt bf16",
        H200,
        WgmmaConfig(group_m=16),
    ),
    (
        "512x5120x25600 nt bf16",
        H200,
        WgmmaConfig(tile_n=160, stages=6, group_m=4, epilogue="direct", overlap=False, wait_depth=1, ping_pong=True),
    ),
    (
        "1000x1000x1000 nt bf16",
        H200,
        WgmmaConfig(
            tile_m=64,
            tile_n=144,
            stages=8,
            cluster_m=4,
            group_m=1,
            epilogue="direct",
            overlap=False,
            wait_depth=1,
        ),
    ),
    (
        "1024x1024x1024 nt bf16",
        H200,
        WgmmaConfig(tile_m=64, tile_n=128, stages=9, group_m=1, epilogue="direct", overlap=False, wait_depth=1),
    ),
    (
        "2048x2048x2048 tn bf16",
        H200,
        WgmmaConfig(tile_n=128, stages=7, epilogue="direct", overlap=False, wait_depth=1, ping_pong=True),
    ),
    ("3000x3000x3000 nt bf16", H200, WgmmaConfig(tile_m=192, tile_n=192, cluster_m=2, epilogue="direct")),
    (
        "16x28672x8192 nt bf16",
        H200,
        WgmmaConfig(
            tile_n=48, stages=5, cluster_m=4, group_m=1, epilogue="direct", tile_k=128, swap_ab=True, prefetch=2
        ),
    ),
    (
        "1x4096x4096 nt bf16",
        H200,
        GemvConfig(tile_n=2, warps=4, in_flight=2, ctas=9, prefetch=264),
    ),
    (
        "512x512x512 nt bf16",
        H200,
        WgmmaConfig(tile_m=64, tile_n=32, stages=9, epilogue="direct", overlap=False, wait_depth=1, tile_k=128),
    ),
    (
        "8 of 512x512x512 nn fp16",
        H200,
        WgmmaConfig(
            tile_n=64, stages=9, cluster_n=2, group_m=4, epilogue="direct", overlap=False, wait_depth=1, ping_pong=True
        ),
    ),
    (
        "510x1024x12800 nt bf16",
        H200,
        WgmmaConfig(
            tile_n=80, cluster_m=2, group_m=1, epilogue="direct", overlap=False, wait_depth=1, split_k=2, stages=7
        ),
    ),
    ("8 of 1024x1024x64 nt bf16", H200, WgmmaConfig(tile_m=256, tile_n=128, group_m=4)),
    ("8192x8192x128 nt bf16", H200, WgmmaConfig(tile_m=192, tile_n=160, stages=5, group_m=9, epilogue="direct")),
    (
        "4096x16384x2048 nt bf16",
        H200,
        WgmmaConfig(tile_m=256, tile_n=200, stages=3),
    ),
    (  # what one consumer computes of its sums is behind what the other one multiplies
        "4096x16384x2048 nt bf16 + bias gelu",
        H200,
        WgmmaConfig(tile_n=160, stages=6, group_m=11, epilogue="direct", overlap=False, wait_depth=1, ping_pong=True),
    ),
    (
        "4096x4096x4096 nt bf16 -> fp32",
        H200,
        WgmmaConfig(group_m=16, epilogue="direct", overlap=False, wait_depth=1),
    ),
    (
        "2048x5120x5120 nt bf16 + bias gelu",
        H200,
        WgmmaConfig(tile_m=256, tile_n=160, epilogue="direct"),
    ),
    (
        "1000x1001x1024 nt bf16 + bias gelu",
        H200,
        WgmmaConfig(
            tile_m=64, tile_n=144, stages=8, cluster_m=4, group_m=1, epilogue="direct", overlap=False, wait_depth=1
        ),
    ),
    (
        "1000x1001x1024 nt bf16 relu",
        H200,
        WgmmaConfig(
            tile_m=64, tile_n=144, stages=8, cluster_m=4, group_m=1, epilogue="direct", overlap=False, wait_depth=1
        ),
    ),
    (
        "1024x1020x1024 nt bf16",
        H200,
        WgmmaConfig(tile_m=64, tile_n=128, stages=9, group_m=1, epilogue="direct", overlap=False, wait_depth=1),
    ),
    (
        "4096x4096x4096 nt bf16 by 8",
        H200,
        WgmmaConfig(group_m=16),
    ),
    (
        "4096x4096x4096 nn bf16 by 2",
        H200,
        WgmmaConfig(group_m=16),
    ),
    ("64x12288x4100 nt bf16 by 8", H200, MmaConfig(tile_m=64, tile_n=64)),
    ("64x64x16 nn bf16 by 4", H200, MmaConfig(tile_m=64, tile_n=64)),
    ("4096x4096x0 nt bf16", H200, CopyConfig()),
    ("4096x64x0 tn fp32", A100, CopyConfig(tile_m=64, tile_n=64)),
    ("64x64x64 nt bf16", A100, MmaConfig(tile_m=64, tile_n=64)),
    ("4096x4096x4096 nn bf16", A100, MmaConfig(tile_n=256, stages=3, warps_n=4)),
    ("4096x4096x4096 nn fp16 by 2", A100, MmaConfig(warps_n=4)),
    ("1000x1000x1000 nt fp16", A100, MmaConfig()),
    ("4096x4096x4096 nn fp32", H200, SimtConfig(tile_m=256, tile_k=8, warp_n=64, thread_m=16)),
    ("512x512x512 nn fp32", H200, SimtConfig(tile_m=64, tile_n=64, tile_k=32, warp_m=32, thread_n=4, split_k=2)),
    ("2048x2048x2048 tn fp32", A100, SimtConfig(tile_m=64, warp_m=32, warp_n=64)),
    ("100x100x100 tt fp32 by 4 -> bf16", A100, SimtConfig(tile_m=64, tile_n=64, warp_m=32, thread_n=4)),
)


@pytest.mark.parametrize(("text", "gpu", "config"), CHOICES, ids=[f"{text}-{gpu.name}" for text, gpu, _ in CHOICES])
def test_choice(text, gpu, config):
    choice = choose(problem(text), gpu)
    assert choice.config == config
    assert isinstance(config, choice.kernel.config_type)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16x7168x2048 nt bf16", {8}),
        ("16x51200x5120 nt bf16", {4}),
        ("32x51200x5120 nt bf16", set()),
        ("64x7168x16384 nt bf16", {8}),
        ("64x7168x16384 nt fp8_e4m3", {8}),
        ("128x12288x4096 nt bf16", {4}),
        ("128x51200x5120 nt bf16", set()),
        ("192x12288x4096 nt bf16", set()),
        ("256x7168x2048 nt bf16", set()),
        ("12288x64x4096 nt bf16", {8}),
        ("128x16x256 nt bf16", {8}),
    ],
)
def test_the_fewer_rows_weights_are_multiplied_with_the_more_of_them_come_to_l2_ahead(text, expected):
    asked, kernel = problem(text), KERNELS["wgmma"]
    span = 128 // asked.a.dtype.nbytes
    configs = [config for config in kernel.candidates(asked, H200, 24) if config.split_k == 1]
    # Those with several tiles on both sides read nothing once, and have 0.
    assert {config.prefetch * config.tile_k // span for config in configs} - {0} == expected


@pytest.mark.parametrize(("text", "gpu", "config"), CHOICES, ids=[f"{text}-{gpu.name}" for text, gpu, _ in CHOICES])
def test_every_candidate_obeys_the_rules_and_none_comes_twice(text, gpu, config):
    asked = problem(text)
    choice = choose(asked, gpu)
    kernel, solved = choice.kernel, choice.copied.problem
    candidates = kernel.configs(solved, gpu)
    assert len(set(candidates)) == len(candidates)
    for candidate in candidates:
        kernel.check(candidate, solved, gpu)


WGMMA, MMA, SIMT, COPY = (KERNELS[name].summary for name in ("wgmma", "mma", "simt", "copy"))
ALIGNED_TO_8 = "is aligned to 8 bytes and TMA needs 16"
MULTIPLE = "TMA needs a positive multiple of 16 bytes"
NOT_FP32 = "multiplies bf16, fp16 and int8 by themselves, and fp8, and a is fp32, b is fp32"


@pytest.mark.parametrize(
    ("text", "gpu", "reason"),
    [
        (
            "16x4096x4096 nt bf16",
            H200,
            f"wgmma: {WGMMA}; computes out.T = b.T @ a.T, with tile_m along n",
        ),
        ("8192x8192x8192 nt bf16", H200, f"wgmma: {WGMMA}"),
        (
            "64x64x16 nt bf16 by 8",
            H200,
            f"mma: {MMA}; wgmma would copy a and b first, since a {ALIGNED_TO_8}, and it has row stride 20 (40 bytes) "
            f"and {MULTIPLE}; b {ALIGNED_TO_8}, and it has column stride 20 (40 bytes) and {MULTIPLE}",
        ),
        (
            "64x64x64 nt bf16",
            A100,
            f"mma: {MMA}; wgmma does not take it: wgmma needs sm_90a (Hopper) and A100 is sm_80",
        ),
        ("64x64x0 nt bf16", H200, f"copy: {COPY}"),
        (
            "512x512x512 nt bf16 by 8",
            H200,
            f"wgmma: {WGMMA}; each call copies a and b first, since a {ALIGNED_TO_8}, and it has row "
            f"stride 516 (1032 bytes) and {MULTIPLE}; b {ALIGNED_TO_8}, and it has column stride 516 (1032 bytes) and "
            f"{MULTIPLE}; copying takes about 3 us",
        ),
        (
            "256x256x256 nn fp32",
            H200,
            f"simt: {SIMT}; has each tile summed by 6 CTAs; wgmma does not take it: wgmma {NOT_FP32}; mma does not "
            f"take it: mma {NOT_FP32}",
        ),
    ],
)
def test_reason_names_the_kernel_and_why_those_before_it_do_not_take_the_problem(text, gpu, reason):
    assert choose(problem(text), gpu).reason == f"{reason}; {published(problem(text))}"


@pytest.mark.parametrize(
    ("m", "n", "k", "said"),
    [
        (1, 4096, 8, "a GEMV, since m or n is 1"),
        (4096, 1, 8, "a GEMV, since m or n is 1"),
        (2, 4096, 9, "a thin kernel, since min(m, n) < 64"),
        (4096, 63, 9999, "a thin kernel, since min(m, n) < 64"),
        (64, 4096, 257, "stream-K, since k > 4 min(m, n)"),
        (64, 4096, 256, "a tiled GEMM, since min(m, n) >= 64 and k <= 4 min(m, n)"),
    ],
)
def test_plans_say_what_a_published_tree_says_of_the_product(m, n, k, said):
    matrices = (Matrix(dtypes.bf16, columns, 1) for columns in (k, n, n))
    posed = Problem(m, n, k, *matrices)
    beside = choose(posed, H200).reasons[-1]
    assert beside == published(posed) == f"for comparison, a published decision tree would take {said}"
    assert "published" not in choose(posed, H200, kernel="mma").reason


def test_reason_of_what_was_asked_for():
    asked = problem("64x64x64 nt bf16")
    forced = choose(asked, H200, kernel="mma")
    assert (forced.kernel.name, forced.reason) == ("mma", "mma: asked for by kernel=")
    assert forced.config == KERNELS["mma"].best(asked, H200)
    config = WgmmaConfig(stages=3)
    given = choose(asked, H200, config=config)
    assert (given.kernel.name, given.config, given.reason) == ("wgmma", config, "wgmma: asked for by config=")


def test_a_problem_that_no_kernel_takes_is_refused_with_the_reason_of_each():
    with pytest.raises(NotImplementedError, match=r"^no kernel takes 64x64x64 bf16 nt -> bf16 on V100: ") as refusal:
        choose(problem("64x64x64 nt bf16"), V100)
    for name in set(KERNELS) - {"copy", "gemv"}:  # these two are for other problems, or run only when named
        assert f"{name} does not take it: " in str(refusal.value)
    with pytest.raises(NotImplementedError, match=r"H200: wgmma and mma do not take it: k is 131072, .*"):
        choose(problem("8x8x131072 nt int8 -> int32"), H200)
    with pytest.raises(NotImplementedError, match="copy does not take it: copy needs"):
        choose(problem("64x64x0 nt bf16"), V100)


@pytest.mark.parametrize(
    ("kernel", "text", "gpu", "message"),
    [
        ("wgmma", "64x64x64 nt bf16", A100, "wgmma needs sm_90a (Hopper) and A100 is sm_80; use kernel='auto'"),
        ("copy", "64x64x64 nt bf16", A100, "copy takes products without a sum, and k is 64; use kernel='auto'"),
        ("simt", "64x64x64 nt bf16", A100, "simt multiplies fp32 by fp32, and a is bf16, b is bf16; use kernel='auto'"),
    ],
)
def test_a_kernel_that_was_asked_for_and_does_not_take_the_problem_says_why(kernel, text, gpu, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        choose(problem(text), gpu, kernel=kernel)
    assert f"kernel={kernel!r} does not take 64x64x64 bf16 nt -> bf16 on {gpu.name}: " in str(refusal.value)


def test_a_config_for_a_kernel_that_does_not_take_the_problem_is_what_the_error_names():
    config = WgmmaConfig(stages=3)
    with pytest.raises(
        ValueError, match=r"wgmma needs sm_90a \(Hopper\) and A100 is sm_80; leave config out$"
    ) as refusal:
        choose(problem("64x64x64 nt bf16"), A100, config=config)
    assert str(refusal.value).startswith(f"config={config!r} is for kernel 'wgmma', which does not take ")


@pytest.fixture
def unnoticed(monkeypatch):
    """No notice has been logged before, nor silenced by a product in the emulator."""
    logging.getLogger("tilewright.planner.choose").setLevel(logging.NOTSET)
    monkeypatch.setattr("tilewright.planner.choose._noticed", set())


def strided(stride):
    """A product whose A and B no TMA can address, and which is too small for copies to pay."""
    return problem("64x64x16 nt bf16 by 8")._replace(a=Matrix(dtypes.bf16, stride, 3))


def test_copies_read_what_lies_between_elements_too():
    """Of every second element, each sector is read: on an H100, copies and `wgmma` took 47 us, and `gemv` 28."""
    asked = problem("16x4096x4096 nt bf16").with_strides("b", 16384, 2)
    assert choose(asked, H100_SXM).kernel.name == "gemv"
    times = [
        copied(asked.with_strides("b", 4096 * stride, stride), KERNELS["wgmma"], H100_SXM).seconds(H100_SXM)
        for stride in (2, 4, 16, 32)
    ]
    assert times[0] < times[1] < times[2] == pytest.approx(times[3])


def test_no_kernel_is_ranked_below_the_time_of_the_sectors_that_it_reads():
    """Of every 16th element, memory moves 32 bytes for 2: `mma` and `gemv` read b so where it is."""
    for m in (16, 64, 512):
        asked = problem(f"{m}x4096x4096 nt bf16").with_strides("b", 65536, 16)
        moved = 4096 * 4096 * 32 / (1.25 * H100_SXM.memory_bandwidth)  # ranked times are mostly too short
        for name in ("gemv", "mma"):
            assert KERNELS[name].best_seconds(asked, H100_SXM) > moved
        assert choose(asked, H100_SXM).seconds(H100_SXM) > moved


@pytest.mark.parametrize("text", ["512x4097x4104 nn bf16", "2048x1023x4104 nn fp16", "512x4096x4100 nt fp16 by 8"])
def test_the_chosen_config_of_mma_is_the_first_by_its_ranked_time(text):
    """Narrow copies gather elements, which takes larger tiles less time."""
    mma, asked = KERNELS["mma"], problem(text)
    configs = mma.configs(asked, A100)
    assert choose(asked, A100).config == configs[0]
    times = [mma.ranked_seconds(config, asked, A100) for config in configs]
    assert times == sorted(times)
    assert times[0] < times[-1]


@pytest.mark.parametrize("text", ["5360x128x32 nt bf16", "224x1504x16 nt bf16"])
def test_where_memory_alone_takes_longer_the_tiles_that_fill_more_sms_are_chosen(text):
    assert (choose(problem(text), A100).config.tile_m, choose(problem(text), A100).config.tile_n) == (64, 64)


@pytest.mark.parametrize(
    "text",
    [
        "1337x1337x65 nt bf16 by 2",
        "3001x3001x33 nt fp16 by 2",
        "905x1809x929 nn bf16 by 2",
        "2705x1297x97 nt bf16 by 2",
        "666x1394x810 nn bf16 by 4",
    ],
)
def test_copies_pay_for_products_whose_elements_mma_would_gather_for_long(text):
    """Measured on an H100 (results/narrow_h100.json has most); the first one takes as long either way."""
    choice = choose(problem(text), H200)
    assert choice.kernel.name == "wgmma"
    assert choice.copied.copies == ("a", "b")


@pytest.mark.parametrize("text", ["300x300x33 nt bf16 by 2", "127x1999x17 nt bf16 by 2", "333x1111x33 nt fp16 by 2"])
def test_mma_takes_what_it_gathers_before_copies_would_be_made(text):
    """Measured on an H100, against copies and `wgmma` (docs/performance-log.md)."""
    assert choose(problem(text), H200).kernel.name == "mma"


@pytest.mark.parametrize("text", ["17x11008x256 nt bf16", "16x4096x4096 nn bf16", "24x8192x1024 nt fp16"])
def test_no_config_of_wgmma_has_a_shorter_ranked_time_than_the_best(text):
    """Where memory alone takes longer, too."""
    wgmma, asked = KERNELS["wgmma"], problem(text)
    least = wgmma.ranked_seconds(wgmma.best(asked, H200), asked, H200)
    assert all(wgmma.ranked_seconds(config, asked, H200) >= least for config in wgmma.candidates(asked, H200, 100))


def test_notice_of_a_slower_kernel_comes_once_for_each_refusal_whatever_its_numbers(caplog, unnoticed):
    caplog.set_level(logging.WARNING, "tilewright")
    for stride in range(65, 90):
        choose(strided(stride), H200)
        choose(problem("64x64x16 nt bf16 by 4"), H200)
    assert [record.getMessage() for record in caplog.records] == [
        f"mma runs in place of wgmma, since {reason}; operands that need no copy are quicker"
        for reason in (
            "a has row stride 65 and column stride 3, and TMA needs one of them to be 1",
            f"a is aligned to 4 bytes and TMA needs 16, and it has row stride 18 (36 bytes) and {MULTIPLE}",
        )
    ]


def test_the_largest_stride_of_tma_is_said_where_a_stride_is_larger():
    asked = problem("64x64x64 nt bf16")
    refusal = KERNELS["wgmma"].refuses(asked._replace(a=asked.a._replace(row_stride=2**40)), H200)
    assert "TMA needs a positive multiple of 16 bytes up to 1,099,511,627,775" in str(refusal)


def test_all_faults_of_an_operand_are_said_at_once():
    asked = problem("1000x1000x1024 nt bf16")
    a = Matrix(dtypes.bf16, 1027, 1, (), 2)
    copying = "; ".join(choose(asked._replace(a=a), H200, quiet=True).copying)
    assert copying.endswith(
        f"since a is aligned to 2 bytes and TMA needs 16, and it has row stride 1027 (2054 bytes) and {MULTIPLE}; "
        f"copying takes about 3 us"
    )
    batches = asked._replace(
        batch=(2, 3),
        a=Matrix(dtypes.bf16, 2, 1027, (9, 7), 8),
        b=asked.b._replace(batch_strides=(0, 0)),
        out=asked.out._replace(batch_strides=(3000000, 1000000)),
    )
    copying = "; ".join(choose(batches, H200, quiet=True).copying)
    assert copying.endswith(
        f"since a {ALIGNED_TO_8}, and it has batch strides (9, 7) over (2, 3) and TMA walks "
        "batches by one stride, and it has row stride 2 and column stride 1027, and TMA needs one of them to be 1; "
        "copying takes about 6 us"
    )


def test_notice_of_copies_comes_once_and_says_what_is_copied(caplog, unnoticed):
    caplog.set_level(logging.WARNING, "tilewright")
    for k in (1001, 1003):
        a = Matrix(dtypes.bf16, k, 1)
        choose(problem("1000x1000x1024 nt bf16")._replace(k=k, a=a), H200)
    assert [record.getMessage() for record in caplog.records] == [
        f"each call copies a first, since a has row stride 1001 (2002 bytes) and {MULTIPLE}; copying takes about 3 us"
    ]


def test_copies_take_no_more_memory_than_the_operands():
    asked = problem("8192x8192x8192 nn bf16")
    for stride in (8193, 0):
        assert choose(asked._replace(a=Matrix(dtypes.bf16, stride, 1)), H200).copied.copies
    row = asked._replace(m=1 << 20, k=1 << 16, a=Matrix(dtypes.bf16, 0, 1))  # 128 KiB, of which the copy makes 128 GiB
    chosen = choose(row, H200)
    assert chosen.kernel.name == "mma"
    assert "wgmma does not take it: a has row stride 0" in chosen.reason
    too_large = "; nor with copies: copies would take 137,438,953,472 bytes, more than 67,108,864 and than all operands"
    assert too_large in chosen.reason
    with pytest.raises(ValueError, match=f"kernel='wgmma' does not take .* a has row stride 0 .*{too_large}"):
        choose(row, H200, kernel="wgmma")


def test_what_a_kernel_refuses_with_copies_too_is_said():
    b = np.ones((64, 24), np.float16)
    halves = "half of b has rows of 6 columns, and TMA reads the other half from a multiple of 8 on"
    packed = tw.plan(b.T, np.ascontiguousarray(b[:, :12]), gate="stacked", backend="emulator").reason
    assert re.search(f"wgmma does not take it: b has row stride 12 .*; nor with copies: {halves}", packed)
    padded = tw.plan(b.T, b[:, :12], gate="stacked", backend="emulator").reason
    assert f"wgmma does not take it: {halves}" in padded
    assert "nor with copies" not in padded


def test_what_was_asked_for_copies_too_and_rungs_do_not():
    asked = problem("64x64x64 nt bf16 by 4")
    named, given = choose(asked, H200, kernel="wgmma"), choose(asked, H200, config=WgmmaConfig(stages=3))
    for choice, how in ((named, "kernel="), (given, "config=")):
        assert choice.reason.startswith(f"wgmma: asked for by {how}; each call copies a and b first")
        assert choice.copied.copies == ("a", "b")
    with pytest.raises(ValueError, match="rows of a do not all start on 16: pad them; use kernel='auto'"):
        choose(asked, H200, kernel="wgmma_stmatrix")


@pytest.mark.parametrize(
    ("asked", "gpu", "kernel"),
    [
        (strided(65), A100, "auto"),
        (strided(65), H200, "mma"),
        (problem("64x64x0 nt bf16"), H200, "auto"),
        (problem("64x64x64 nn fp32"), H200, "auto"),
    ],
)
def test_what_no_other_layout_would_change_gets_no_notice(caplog, unnoticed, asked, gpu, kernel):
    caplog.set_level(logging.WARNING, "tilewright")
    choose(asked, gpu, kernel=kernel)
    assert not caplog.records


def test_strides_that_the_model_takes_for_equal_share_a_choice(monkeypatch):
    asked = problem("512x776x512 nt bf16")

    def chosen(row_stride):
        return choose(asked._replace(a=Matrix(dtypes.bf16, row_stride, 1)), H200).config

    first = chosen(1024)
    monkeypatch.setattr(ranking, "found_of", mock.Mock(side_effect=AssertionError("asked again")))
    assert chosen(1088) == first  # 17 lines of 128 bytes
    with pytest.raises(AssertionError, match="asked again"):
        chosen(1032)


STORED = (
    ("4096x8192x4096 nt bf16", {"tile_m": 128, "tile_n": 64}, "tma"),
    ("4096x8192x4096 nt bf16", {"tile_m": 128, "tile_n": 56}, "direct"),  # narrow
    ("4096x8192x4096 nt bf16", {"tile_m": 128, "tile_n": 160}, "direct"),  # boxes of 32 columns
    ("4096x8192x4096 nt bf16", {"tile_m": 128, "tile_n": 224}, "tma"),
    ("4096x8192x4096 nt bf16", {"tile_m": 256, "tile_n": 136}, "direct"),  # the ring would have 147 KiB
    ("4096x8192x4096 nt bf16", {"tile_m": 256, "tile_n": 144}, "tma"),  # 150 KiB
    ("4096x8192x4096 nt bf16", {"tile_m": 256, "tile_n": 200}, "tma"),
    ("4096x8192x4096 nn bf16", {"tile_m": 256, "tile_n": 200}, "direct"),  # with boxes, two stages
    ("4096x8192x4096 nt bf16", {"tile_m": 256, "tile_n": 200, "swap_ab": True}, "direct"),
    ("4096x8192x4096 nt bf16 -> fp32", {"tile_m": 256, "tile_n": 200}, "direct"),
    ("4096x8191x4096 nt bf16", {"tile_m": 256, "tile_n": 200}, "direct"),  # rows that TMA does not store
    ("4096x8192x4096 nt bf16", {"tile_m": 128, "tile_n": 128, "ping_pong": True}, "direct"),
    ("4096x8192x4096 nt fp8_e4m3 -> bf16", {"tile_n": 128, "cluster_m": 2, "ping_pong": True}, "tma"),
    ("4096x8192x4096 nt fp8_e4m3 -> bf16", {"tile_n": 144, "cluster_m": 2, "ping_pong": True}, "direct"),
    ("256x201088x2880 nt bf16", {"tile_m": 256, "tile_n": 144}, "direct"),  # b is read once, and 150 KiB are too little
    ("256x201088x2880 nt bf16", {"tile_m": 256, "tile_n": 200}, "tma"),  # which costs no stage
)


@pytest.mark.parametrize(("text", "fields", "epilogue"), STORED)
def test_who_stores_out(text, fields, epilogue):
    asked = problem(text)._replace(fast_accumulation=True)
    config = config_with(asked, **{"tile_m": 128, "cluster_m": 1, "cluster_n": 1, "ping_pong": False, **fields})
    assert config.epilogue == epilogue
    assert KERNELS["wgmma"].staged(replace(config, stages=2), asked, H200) == config


@pytest.mark.parametrize(("tile_n", "epilogue"), [(128, "tma"), (192, "direct"), (208, "tma"), (112, "direct")])
def test_with_a_gate_half_of_the_columns_are_stored(tile_n, epilogue):
    gated = Epilogue(expression=parse("silu(x) * y", (), "interleaved"))
    asked = problem("4096x8192x4096 nt bf16")._replace(out=Matrix(dtypes.bf16, 4096, 1), epilogue=gated)
    assert config_with(asked, tile_m=128, tile_n=tile_n, cluster_m=1, ping_pong=False).epilogue == epilogue


def config_with(asked, **fields):
    """The planner's Config of `wgmma` with the tiling of these fields, not transposed unless they say so."""
    fields = {"swap_ab": False, "split_k": 1, **fields}
    configs = KERNELS["wgmma"].candidates(asked, H200, 900)
    return next(each for each in configs if all(getattr(each, name) == value for name, value in fields.items()))
