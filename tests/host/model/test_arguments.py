"""Every public function of the models refuses what cannot be: it names the argument, the rule and the remedy."""

import importlib
import inspect
import pkgutil
from typing import Any

import numpy as np
import pytest

import tilewright.model
from tilewright.dtypes import bf16
from tilewright.errors import TilewrightError
from tilewright.model.chips import CHIPS, chip_of
from tilewright.model.llm.architecture import named
from tilewright.model.llm.products import attention, products
from tilewright.model.memory.dram import dram_of
from tilewright.model.memory.l1 import L1
from tilewright.model.memory.swizzle import Swizzle
from tilewright.model.precision.formats import FORMATS
from tilewright.model.schedules import TileSizes, schedules
from tilewright.model.tiling.levels import Block, Blocking, levels

TILE = Block(128, 256)
BLOCKING = Blocking(cta=TILE, cluster=TILE, warp=Block(64, 256))
LEVELS = levels(512, 512, 512, BLOCKING)
LLAMA = named("llama-2-7b")
ROWS = schedules(4, 4, 3)[0]
LANES = np.arange(32, dtype=np.int64) * 4
MNK = {"m": 512, "n": 512, "k": 512}

CALLS: dict[str, dict[str, Any]] = {
    "chips.chip_of": {"chip": "H200"},
    "chips.gpu_of": {"chip": "H200"},
    "column_major.blas_call": {**MNK, "layout": "nt"},
    "fragments.instructions.fragments_of": {"name": "mma.m16n8k16"},
    "llm.architecture.named": {"name": "llama-2-7b"},
    "llm.memory.memory": {"model": LLAMA, "chip": "H200", "sequences": 1, "tokens": 9, "weight_bytes": 2.0},
    "llm.products.products": {"model": LLAMA, "tokens": 9},
    "llm.products.attention": {"model": LLAMA, "tokens": 9, "context": 5, "phase": "prefill", "element": 2.0},
    "llm.time.least_pass": {
        "products": products(LLAMA, 9), "beside": attention(LLAMA, 9, 0, "prefill"), "chip": "H200", "tokens": 9,
        "operands": "bf16", "weight_bits": 4.0,
    },
    "llm.time.amdahl": {"share": 0.5, "speedup": 2.0},
    "memory.banks.bank_use": {"addresses": LANES, "width": 4, "access": "ld"},
    "memory.coalescing.coalescing": {"addresses": LANES, "width": 4},
    "memory.dram.dram_of": {"chip": "H200"},
    "memory.dram.walk": {"rows": 8, "columns": 8, "element_bytes": 4, "banks": 1, "down": True},
    "memory.dsmem.levels": {"chip": "H200"},
    "memory.l1.flow_of": {"l1": L1(1 << 15), "expression": "lane*4", "width": 4, "steps": 1, "warps": 1},
    "memory.layouts.linear": {"rows": 8, "chunks": 8},
    "memory.layouts.padded": {"padding": 16, "rows": 8, "chunks": 8},
    "memory.layouts.swizzled": {"span": 128, "rows": 8},
    "memory.pattern.addresses_of": {"expression": "lane*4", "lanes": 32},
    "memory.swizzle.swizzle_of": {"span": 128},
    "memory.swizzle.chunks_of_column": {"swizzle": Swizzle(3), "rows": 8},
    "occupancy.occupancy": {"chip": "H200", "threads": 128, "registers": 32, "smem_bytes": 0, "carveout": 8192},
    "power.joules_per_tflop": {"data": "randn"},
    "power.allowed": {"chip": "H200", "watts": 500.0, "data": "randn"},
    "power.settled_flops": {"chip": "H200", "watts": 500.0, "data": "randn"},
    "precision.formats.format_named": {"name": "bf16"},
    "precision.sums.error_growth": {
        "inputs": FORMATS["bf16"], "accumulator": FORMATS["fp32"], "ks": [4], "promote": 0, "numbers": "randn",
        "samples": 2, "seed": 0,
    },
    "roofline.roofs": {"chip": "H200", "unit": "wgmma", "dtype": bf16, "crossed": LEVELS},
    "schedules.schedules": {"tiles_m": 4, "tiles_n": 4, "slots": 3},
    "schedules.schedule_of": {"expression": "index", "tiles_m": 4, "tiles_n": 4, "slots": 3},
    "schedules.schedule_reads": {
        "schedule": ROWS, "shape": (512, 512, 512), "tile": TileSizes(128, 128, 64, 2), "l2_bytes": 1 << 20,
    },
    "speed_of_light.of_product": {
        "chip": "H200", **MNK, "operands": "bf16", "clock": 1e9, "watts": 500.0, "data": "randn",
    },
    "swap_ab.swap_advice": {"chip": "H200", "m": 16},
    "tiling.chains.chain_clocks": {"length": 3, "chains": 1, "latency": 4, "interval": 1, "warps": 1},
    "tiling.chains.operation_clocks": {"chains": 1, "latency": 4, "interval": 1, "warps": 1},
    "tiling.chains.chains_to_fill": {"latency": 4, "interval": 1},
    "tiling.levels.fma_per_word": {"block": TILE},
    "tiling.levels.best_fma_per_word": {"elements": 64},
    "tiling.levels.blocks_of": {"elements": 64},
    "tiling.levels.levels": {**MNK, "blocking": BLOCKING, "nbytes": 2, "out_nbytes": 2},
    "tiling.loop_orders.loop_order": {"order": "mnk", **MNK},
    "timeline.latencies_of": {"chip": "H200"},
    "volta.control.control_of": {"word": 0x000FEA0003800000},
    "volta.issue.read_clocks": {"registers": [1, 2, 3]},
    "volta.issue.mix_clocks": {"chip": "V100", "fp32": 1, "int32": 1},
    "volta.issue.shared_clocks": {"chip": "V100", "fp32": 1, "int32": 1},
    "volta.feeding.wmma": {"padding": 16},
    "volta.tensor_core.threadgroup_of": {"lane": 5},
    "volta.tensor_core.quad_pair_of": {"lane": 5},
    "volta.tensor_core.instructions": {"sums": "fp32"},
    "volta.tensor_core.fma_per_clock": {"sums": "fp32"},
    "volta.tensor_core.flops": {"chip": "V100", "sums": "fp32"},
    "waves.waves": {"m": 512, "n": 512, "tile_m": 128, "tile_n": 128, "slots": 132},
    "waves.require_tile": {"tile_m": 128, "tile_n": 128, "ctas_per_sm": 1},
    "wgmma_time.wgmma_time": {"chip": "H200", "n": 64, "source": "smem"},
    "wgmma_time.least_full_n": {"chip": "H200", "source": "smem"},
    "wgmma_time.has_wgmma": {"chip": "H200"},
}  # fmt: skip
"""A good call of each public function."""

PLANNING = ("cost", "prediction", "ranking.ranking", "ranking.correction", "ranking.trees")
"""What only the planner asks, with Problems and arrays that it has checked, thousands of times for a choice."""
UNCHECKED = {
    "fragments.layouts": "builders of what fragments_of names",
    "l2": "streams of requests that schedule_reads makes",
    "raster": "asked for each tile of an order, as the kernels are",
    "timeline.play": "a trace of the emulator",
    "traffic": "counters of the emulator",
    "memory.banks.shared_wavefronts": "arrays of the emulator", "memory.banks.rows_in_use": "arrays of the emulator",
    "memory.banks.most_words_in_a_bank": "arrays of the emulator",
    "memory.coalescing.pieces_touched": "arrays of the emulator",
    "memory.banks.warp_addresses": "what bank_use and coalescing ask",
    "memory.dram.activations": "addresses that walk makes",
    "memory.layouts.transposition": "a TileLayout alone", "memory.l1.total": "flows alone",
    "memory.layouts.volta": "a choice alone",
    "llm.architecture.architecture": "a config.json, tested in test_llm",
    "llm.products.kept_elements": "an Architecture alone", "llm.products.kept_tokens": "what memory asks",
    "llm.products.parameters": "an Architecture alone",
    "llm.products.visited": "the experts of an Architecture", "roofline.lowest": "roofs alone",
    "schedules.line_bytes_of": "a TileSizes alone", "schedules.schedule_in_partitions": "as schedule_reads",
    "speed_of_light.speed_of_light": "a Problem, below", "volta.tensor_core.steps": "as instructions",
}  # fmt: skip
"""Public functions of which no user types the arguments, and what these are."""

MAY_BE_ZERO = {
    "smem_bytes", "carveout", "context", "promote", "seed", "padding", "lane", "fp32", "int32", "word",
    "memory.tokens",
}  # fmt: skip


PARTS = {"block": ("m", "n"), "shape": ("m", "k")}
"""What errors name of an argument that has parts."""


def public_functions():
    """All functions of the package that have no underscore, by their names within it."""
    found = {}
    for module in pkgutil.walk_packages(tilewright.model.__path__, "tilewright.model."):
        place = module.name.removeprefix("tilewright.model.")
        if module.ispkg or place in PLANNING:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if inspect.isfunction(value) and value.__module__ == module.name and not name.startswith("_"):
                found[f"{place}.{name}"] = value
    return found


FUNCTIONS = public_functions()


def bad_values(function, name, good):
    """What an argument that is good as it stands must not be."""
    if name == "chip":
        return ("Voodoo2", 7, None)
    if isinstance(good, bool):
        return ()
    if isinstance(good, int):
        zero = () if MAY_BE_ZERO & {name, f"{function.__name__}.{name}"} else (0,)
        return (-1, *zero, 2.5, "three")
    if isinstance(good, float):
        return (-1.0, float("nan"), "three")
    if isinstance(good, str):
        return ("nonsense", 7)
    return {
        "dtype": ("bf17", 7), "block": (Block(0, 5), Block(5, -1)), "shape": ((0, 5, 5), (5, 5, -1)),
        "registers": ([255], [-1], [1, 2, 3, 4]), "ks": ([0], [], [2.5]),
    }.get(name, ())  # fmt: skip


CASES = [
    pytest.param(function, name, bad, id=f"{place}-{name}-{bad}")
    for place, function in FUNCTIONS.items()
    if place in CALLS
    for name, good in CALLS[place].items()
    for bad in bad_values(function, name, good)
]


def test_every_public_function_is_called_or_left_out_for_a_reason():
    left_out = {
        place for place in FUNCTIONS if any(place == name or place.startswith(f"{name}.") for name in UNCHECKED)
    }
    with_arguments = {place for place, function in FUNCTIONS.items() if inspect.signature(function).parameters}
    assert with_arguments - left_out == set(CALLS)
    assert len(CASES) > 200


@pytest.mark.parametrize("place", CALLS)
def test_good_arguments_are_taken(place):
    FUNCTIONS[place](**CALLS[place])


@pytest.mark.parametrize(("function", "name", "bad"), CASES)
def test_bad_arguments_are_refused_by_name_and_with_a_remedy(function, name, bad):
    place = next(place for place, each in FUNCTIONS.items() if each is function)
    with pytest.raises(TilewrightError) as caught:
        function(**CALLS[place] | {name: bad})
    said = str(caught.value)
    named_so = any(f"{each}=" in said for each in PARTS.get(name, (name, name.rstrip("s"))))
    assert named_so or f"={bad!r}" in said or (isinstance(bad, str) and repr(bad) in said), said
    assert ": " in said, said


H200 = chip_of("H200")
METHODS = [
    (lambda: Swizzle(9), "Swizzle<9,4,3> is no swizzle: give 0 <= B <= S"),
    (lambda: Swizzle(3).steps(-1), "offset=-1 must be an integer from 0 on"),
    (lambda: L1(-5), "nbytes=-5 must be an integer from 0 on"),
    (lambda: L1(1 << 15, sets=0), "sets=0 must be an integer from 1 on"),
    (lambda: TileSizes(0, 1, 1, 2), "tile_m=0 must be an integer from 1 to 65,536"),
    (lambda: TileSizes(512, 256, 64, 2), "tile_m=512 by 256 columns makes 131,072 sums"),
    (lambda: TileSizes(128, 256, 999, 2), "tile_k=999 takes 767,232 bytes of SMEM"),
    (lambda: H200.rate("fp99"), "dtype='fp99' is not multiplied by H200: use fp16, bf16"),
    (lambda: H200.clusters(0), "ctas=0 must be an integer from 1 on"),
    (lambda: chip_of("A100").clusters(2), "chip='A100' has no clusters"),
    (lambda: H200.levels_at(-1), "clock=-1 must be a number from 1 on"),
    (lambda: H200.flops(H200.rate("bf16"), 0), "clock=0 must be a number from 1 on"),
    (lambda: dram_of("H200").strided_bandwidth(-1), "stride=-1 must be an integer from 0 on"),
    (lambda: levels(4, 4, 4, Blocking(Block(0, 2), TILE)), "m=0 must be an integer from 1 on"),
    (lambda: schedules(4, 4, 3, blocks=[(0, 1)]), "block=0 must be an integer from 1 on"),
]


@pytest.mark.parametrize(("call", "said"), METHODS, ids=[said for _, said in METHODS])
def test_classes_and_methods_refuse_what_cannot_be(call, said):
    with pytest.raises(TilewrightError) as caught:
        call()
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("place", [place for place, call in CALLS.items() if "chip" in call])
def test_a_chip_is_a_name_in_any_case_itself_or_its_hardware(place):
    call, function = CALLS[place], FUNCTIONS[place]
    chip = CHIPS[call["chip"]]
    expected = repr(function(**call))
    for same in (chip, chip.gpu, chip.name.lower()):
        assert repr(function(**call | {"chip": same})) == expected


def test_no_function_takes_a_chip_in_another_way():
    for place, function in FUNCTIONS.items():
        assert not {"gpu", "hardware", "capability", "arch"} & set(inspect.signature(function).parameters), place
