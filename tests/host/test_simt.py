"""Which Configs `simt` offers, where it splits k, and what its model says."""

import json
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import pytest

from tilewright.dtypes import fp32
from tilewright.expression.grammar import parse
from tilewright.hardware import A100, GPUS, H100_SXM, H200, standing_for
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.registry import KERNELS
from tilewright.kernels.simt import SimtConfig
from tilewright.model.occupancy import occupancy
from tilewright.planner.choose import choose
from tilewright.problem import Epilogue, Matrix, Problem

SIMT: Any = KERNELS["simt"]
SUMS = {
    "epilogue": Epilogue(expression=parse("acc", ())._replace(outputs=("column_sums",)), outputs=(Matrix(fp32, 0, 1),))
}


EARLIER = "fp32_split_h200", "fp32_random_h200"
"""Records of `gemv` too, and of `simt` before its tiles ended cheaply."""


def product(m, n, k, layout="nt", batch=1):
    def stored(rows, columns, letter):
        of_row, of_column = (columns, 1) if letter == "n" else (1, rows)
        return Matrix(fp32, of_row, of_column, (rows * columns,) if batch > 1 else ())

    operands = stored(m, k, layout[0]), stored(k, n, layout[1]), stored(m, n, "n")
    return Problem(m, n, k, *operands, batch=(batch,) if batch > 1 else ())


def launches(name="simt", records=("fp32_configs_h200",)):
    """The times of Configs of a kernel that were measured and are offered, by product: of `simt`, the fitted ones."""
    kernel: Any = KERNELS[name]
    times = defaultdict(dict)
    for record in records:
        rows = json.loads(Path(f"results/{record}.json").read_text())["launches"]
        for m, n, k, batch, layout, measured, config, us in rows:
            problem = product(m, n, k, layout, batch)
            if measured == name and kernel.config_type(*config) in kernel.configs(problem, H200):
                times[problem][kernel.config_type(*config)] = us
    return times


def test_fp32_takes_the_kernel_and_config_that_were_measured_to_be_near_the_best():
    """Two Configs of `gemv` were measured for a product; where it takes another one, the slower one stands for it."""
    by_simt, by_gemv, shares = launches(), launches("gemv", EARLIER), []
    for problem, measured in by_simt.items():
        choice, others = choose(problem, H200), by_gemv[problem]
        taken = measured if choice.kernel is SIMT else others
        if taken:  # of some products, only those of `simt` were measured
            least = min([*measured.values(), *others.values()])
            shares.append(least / taken.get(choice.config, max(taken.values())))
    assert len(shares) == 114
    assert geometric_mean(shares) > 0.94
    assert min(shares) > 0.7


def test_choices_were_measured_to_be_near_the_best():
    shares = [min(us.values()) / us[SIMT.best(problem, H200)] for problem, us in launches().items()]
    assert len(shares) == 120
    assert geometric_mean(shares) > 0.975
    assert min(shares) > 0.8


def test_times_are_those_that_were_measured():
    near, known = [], launches(records=EARLIER).keys()
    for problem, measured in launches().items():
        for config, us in measured.items():
            if us < 1.25 * min(measured.values()):
                near.append(SIMT.predict(config, problem, H200).seconds * 1e6 / us)
                assert problem not in known or 0.6 < near[-1] < 1.4
    assert (len(known), len(near)) == (75, 1344)
    assert median(abs(math.log(each)) for each in near) < 0.045
    assert geometric_mean(near) == pytest.approx(1, rel=0.05)
    assert sum(0.8 < each < 1.25 for each in near) > 0.97 * len(near)
    assert 0.55 < min(near) < max(near) < 1.6


def test_k_is_split_where_clusters_are_and_rows_may_be_summed_by_parts():
    few = product(64, 4096, 4096)
    assert SIMT.best(few, H200).split_k > 1
    assert SIMT.best(few, H100_SXM).split_k > 1
    assert {config.split_k for config in SIMT.configs(few, H200)} == {1, 2, 3, 4, 5, 6, 8}
    assert SIMT.best(product(4096, 4096, 4096), H200).split_k == 1
    summed = few._replace(**SUMS)
    for problem, gpu in (
        (few, A100), (few._replace(batch_invariant=True), H200), (summed, H200), (few, H200._replace(sm_count=2)),
    ):  # fmt: skip
        assert {config.split_k for config in SIMT.configs(problem, gpu)} == {1}


@pytest.mark.parametrize(
    ("split_k", "changes", "gpu", "said"),
    [
        (4, {}, A100, "clusters of 4 CTAs, which need sm_90, and A100 is sm_80: take split_k=1"),
        (2, {"batch_invariant": True}, H200, "take split_k=1"),
        (2, SUMS, H200, "take split_k=1"),
        (9, {}, H200, "split_k=9.*: take a split_k from 1 to 8"),
        (0, {}, H200, "split_k=0.*: take a split_k from 1 to 8"),
        (8, {}, H200._replace(sm_count=4), "clusters of 8 CTAs, each on an SM of its own"),
    ],
)
def test_a_split_that_breaks_a_rule(split_k, changes, gpu, said):
    with pytest.raises(ConfigError, match=said):
        SIMT.check(SimtConfig(split_k=split_k), product(128, 128, 128)._replace(**changes), gpu)


@pytest.mark.parametrize(("split_k", "rows"), [(4, 2 * 4), (3, 3 * 3), (8, 8)])
def test_each_part_of_k_has_a_cta_and_room_for_the_sums_that_come(split_k, rows):
    config, problem = SimtConfig(split_k=split_k), product(200, 300, 400)
    constants = SIMT.constants(config, problem)
    shape = SIMT.launch_shape(constants, problem, H200)
    assert (shape.grid, shape.cluster) == (2 * 3 * split_k, split_k)
    assert constants.smem_bytes - SimtConfig().smem_bytes(4) == 4 * 128 * 128 // 8 * rows
    assert SIMT.predict(config, problem, H200).tile_count == shape.grid


@pytest.mark.parametrize("gpu", [*GPUS.values(), standing_for("sm_120")], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_every_gpu_can_launch_what_is_offered(gpu, layout):
    for problem in (product(100, 99, 98, layout), product(512, 512, 5000, layout)):
        if SIMT.refuses(problem, gpu) is None:
            for config in SIMT.configs(problem, gpu):
                SIMT.check(config, problem, gpu)


@pytest.mark.parametrize("extents", [(100, 64, 64), (64 * 132, 64, 64), (64 * 300, 64, 64), (64 * 1000, 64, 640)])
@pytest.mark.parametrize("split_k", [1, 2, 5])
def test_sms_have_room_for_as_many_ctas_as_all_of_them_have(extents, split_k):
    config, problem = SimtConfig(64, 64, 16, 32, 32, 8, 4, split_k=split_k), product(*extents)
    constants = SIMT.constants(config, problem)
    shape, most = SIMT.launch_shape(constants, problem, H200), SIMT.ctas_of_sm(constants)
    held = occupancy(H200, shape.block, 65_536 // (most * shape.block), shape.smem_bytes + shape.spare_bytes)
    clusters, at_once = shape.grid // split_k, H200.clusters(split_k)
    assert held.ctas <= most
    waves = math.ceil(clusters / (at_once * held.ctas))
    assert waves == math.ceil(clusters / (at_once * most))  # no more than with all that find room
    assert held.ctas == 1 or waves < math.ceil(clusters / (at_once * (held.ctas - 1)))
    assert SIMT.launch_shape(SIMT.constants(replace(config, split_k=1), problem), problem, A100).spare_bytes == 0


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
@pytest.mark.parametrize("extents", [(1, 1, 1), (64, 4096, 4096), (4096, 4096, 4096), (33, 70_000, 16), (512, 512, 0)])
def test_parts_add_up_and_no_limit_is_above_the_loop(extents, gpu):
    problem = product(*extents)
    for config in SIMT.configs(problem, gpu):
        predicted, found = SIMT.predict(config, problem, gpu), SIMT.breakdown(config, problem, gpu)
        assert sum(found.parts) == pytest.approx(predicted.seconds)
        assert min(found.parts) >= 0
        assert max(found.limits.values()) <= (found.parts.main_loop + found.parts.tail) * 1.001
        assert 0 < predicted.quantization <= 1
        rate = gpu.macs("cuda_cores", fp32) * gpu.sm_count * gpu.clock("cuda_cores")
        assert predicted.seconds >= problem.flops / 2 / rate
