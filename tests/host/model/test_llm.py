"""The products of language models against published numbers: FLOPs, bytes, parameters and shapes."""

import json
import re
import statistics
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.bench import suites
from tilewright.cli import app
from tilewright.errors import ArgumentValueError
from tilewright.explaining.language_model import EFFICIENCY
from tilewright.model.chips import CHIPS, chip_of
from tilewright.model.llm.architecture import FOLDER, architecture, named, shipped
from tilewright.model.llm.memory import Memory, memory
from tilewright.model.llm.products import attention, parameters, products, visited
from tilewright.model.llm.time import amdahl, least_pass
from tilewright.model.speed_of_light import of_product

RESULTS = Path(__file__).parents[3] / "results"
LLAMA = named("llama-2-7b")


def by_name(model, tokens):
    return {product.name: product for product in products(named(model), tokens)}


def test_the_published_prefill_of_llama():
    """The GEMM chapter's operations of a layer at 2048 tokens, and its operations per byte."""
    found = by_name("llama-2-7b", 2048)
    teraflops = {name: round(product.flops / 1e12, 3) for name, product in found.items()}
    assert teraflops == {
        "QKV": 0.206, "attention out": 0.069, "gate": 0.185, "up": 0.185, "down": 0.185, "logits": 0.537,
    }  # fmt: skip
    intensities = [round(found[name].intensity()) for name in ("QKV", "attention out", "gate", "down", "logits")]
    assert intensities == [1229, 1024, 1215, 1215, 1309]


def test_the_published_decode_of_llama():
    found = by_name("llama-2-7b", 1)
    megabytes = [round(found[name].nbytes() / 1e6, 1) for name in ("QKV", "attention out", "gate", "down", "logits")]
    assert megabytes == [100.7, 33.6, 90.2, 90.2, 262.2]
    assert all(product.intensity() == pytest.approx(1, abs=0.001) for product in found.values())


@pytest.mark.parametrize(
    ("model", "billions", "tolerance"),
    [
        ("llama-2-7b", 6.738, 0.001),
        ("llama-3.1-70b", 70.55, 0.001),
        ("qwen3-0.6b", 0.596, 0.003),
        ("qwen3-32b", 32.76, 0.002),
        ("qwen3-30b-a3b", 30.53, 0.002),
        ("deepseek-v3", 671.0, 0.001),
        ("gpt-oss-20b", 20.91, 0.002),
        ("gpt-oss-120b", 116.83, 0.002),
    ],
)
def test_the_published_numbers_of_parameters(model, billions, tolerance):
    assert parameters(named(model)) / 1e9 == pytest.approx(billions, rel=tolerance)


@pytest.mark.parametrize(
    ("model", "billions", "embedding"),
    [
        ("deepseek-v3", 37, True),
        ("qwen3-30b-a3b", 3.3, True),
        ("gpt-oss-120b", 5.13, False),
        ("gpt-oss-20b", 3.61, False),
    ],
)
def test_the_published_parameters_that_a_token_meets(model, billions, embedding):
    """GPT-OSS's authors leave out the embedding, the others do not."""
    found = named(model)
    met = sum(each.n * each.k * each.copies * each.layers for each in products(found, 1))
    met += found.vocabulary * found.hidden * embedding
    assert met / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(
    ("model", "suite", "names"),
    [
        ("llama-2-7b", "llama-7b", ["QKV", "attention out", "gate", "down", "logits"]),
        ("deepseek-v3", "deepseek-v3", [
            "latents", "queries of latents", "keys, values of latents", "attention out", "down", "down of experts",
            "router",
        ]),
        ("gpt-oss-20b", "gpt-oss", ["QKV", "attention out", "down of experts", "router", "logits"]),
    ],
)  # fmt: skip
def test_the_shapes_are_those_of_the_suites(model, suite, names):
    shapes = {(shape.n, shape.k) for shape in suites.load(suite).shapes}
    found = by_name(model, 16)
    assert {(found[name].n, found[name].k) for name in names} <= shapes


def test_one_token_visits_its_experts_and_many_visit_all():
    experts = named("deepseek-v3").experts
    assert visited(experts, 1) == pytest.approx(8)
    assert visited(experts, 32) == pytest.approx(256 * (1 - (248 / 256) ** 32))
    assert visited(experts, 4096) == pytest.approx(256)
    found = by_name("deepseek-v3", 64)["gate of experts"]
    assert found.m * found.copies == pytest.approx(64 * 8)
    assert found.layers == 58
    assert by_name("deepseek-v3", 64)["gate"].layers == 3
    assert by_name("deepseek-v3", 64)["gate, shared"].m == 64


def test_attention_of_a_prompt_and_of_a_token():
    """Causal: token i sees i + 1, itself included. A token reads all keys and values of its context."""
    prompt = attention(LLAMA, 3, 0, "prefill")
    assert prompt.flops == 2 * (1 + 2 + 3) * 32 * (128 + 128) * 32
    step = attention(LLAMA, 4, 100, "decode")
    assert step.flops == 4 * 2 * 101 * 32 * 256 * 32
    assert step.nbytes == 4 * 101 * 2 * 4096 * 2 * 32
    latents = attention(named("deepseek-v3"), 1, 100, "decode")
    assert latents.nbytes == 101 * 576 * 2 * 61


def passed(tokens, phase="prefill", context=0, chip="H100", operands="bf16", bits=None):
    beside = attention(LLAMA, tokens, context, phase)
    return least_pass(products(LLAMA, tokens), beside, chip_of(chip), tokens, operands, bits)


def test_prefill_is_bound_by_compute_and_decode_by_memory():
    assert {work.light.bound for work in passed(2048).gemms} == {"compute"}
    step = passed(1, "decode", 2048)
    assert {work.light.bound for work in step.work} == {"memory"}
    weights = (parameters(LLAMA) - LLAMA.vocabulary * LLAMA.hidden) * 2
    gemms = sum(work.seconds for work in step.gemms)
    assert gemms == pytest.approx(weights / 3.35e12, rel=0.001)
    assert step.gemm_share == pytest.approx(0.925, abs=0.005)


def test_weights_of_four_bits_take_a_quarter_of_the_time():
    whole, quarter = passed(1, "decode"), passed(1, "decode", bits=4)
    assert quarter.gemms[0].seconds / whole.gemms[0].seconds == pytest.approx(0.25, abs=0.001)
    with pytest.raises(ArgumentValueError, match="give 1 to 16, those of bf16"):
        passed(1, "decode", bits=32)
    with pytest.raises(ArgumentValueError, match="is not multiplied by A100"):
        passed(1, chip="A100", operands="fp8")


def test_doubling_what_is_80_percent_gains_two_thirds():
    """The GEMM chapter says that all becomes 80% faster."""
    assert round(amdahl(0.8, 2), 2) == 1.67
    assert amdahl(1, 3) == 3
    for share, speedup in ((1.1, 2), (-0.1, 2), (0.5, 0), (float("nan"), 2), (1, float("inf"))):
        with pytest.raises(ArgumentValueError, match=r"share=|speedup="):
            amdahl(share, speedup)


def test_every_config_names_its_source_and_is_read(tmp_path):
    assert len(shipped()) == 8
    for name in shipped():
        assert json.loads((FOLDER / f"{name}.json").read_text())["source"].startswith("https://huggingface.co/")
        assert named(name).name == name
    path = tmp_path / "config.json"
    path.write_text((FOLDER / "qwen3-32b.json").read_text())
    assert products(named(str(path)), 5) == products(named("Qwen3-32B"), 5)


def fields(**changes):
    known = json.loads((FOLDER / "deepseek-v3.json").read_text())
    return {name: value for name, value in (known | changes).items() if value != "left out"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": "left out"}, "toy has no hidden_size: give a Llama"),
        ({"hidden_size": -1}, "hidden_size=-1 must be an integer from 1"),
        ({"hidden_size": True}, "hidden_size=True must be an integer"),
        ({"num_hidden_layers": 1e3}, "num_hidden_layers=1000.0 must be an integer"),
        (
            {"kv_lora_rank": "left out", "hidden_size": 100, "num_attention_heads": 7, "num_key_value_heads": 7},
            "hidden_size=100 is no multiple of num_attention_heads=7: give head_dim, too",
        ),
        ({"num_attention_heads": 8, "num_key_value_heads": 3}, "=8 is no multiple of num_key_value_heads=3: give one"),
        ({"num_experts_per_tok": 300}, "num_experts_per_tok=300 is more than 256 experts"),
    ],
)
def test_fields_that_are_missing_or_wrong(changes, said):
    with pytest.raises(ArgumentValueError, match=said):
        architecture(fields(**changes), "toy")


QWEN_MOE = {
    "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632, "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24,
    "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936, "tie_word_embeddings": False,
    "sliding_window": 32768, "use_sliding_window": False, "max_window_layers": 21, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "hidden_act": "silu",
}  # fmt: skip
"""Of Qwen1.5-MoE-A2.7B: https://huggingface.co/Qwen/Qwen1.5-MoE-A2.7B/blob/main/config.json"""


def test_an_expert_of_its_own_width_that_all_tokens_visit():
    """14.3 billion parameters are published, 2.7 of them without the embeddings of each token."""
    model = architecture(QWEN_MOE, "moe")
    assert parameters(model) / 1e9 == pytest.approx(14.3, rel=0.005)
    found = {product.name: product for product in products(model, 1)}
    assert (found["gate, shared"].n, found["gate of experts"].n, found["down, shared"].k) == (5632, 1408, 5632)
    assert model.windowed_layers == 0


@pytest.mark.parametrize(
    ("changes", "dense"),
    [
        ({}, 0),
        ({"mlp_only_layers": [0, 5]}, 2),
        ({"decoder_sparse_step": 2}, 12),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [1, 2]}, 13),
        ({"first_k_dense_replace": 3}, 3),
        ({"first_k_dense_replace": 3, "moe_layer_freq": 2}, 14),
    ],
)
def test_which_layers_have_experts(changes, dense):
    model = architecture(QWEN_MOE | changes, "moe")
    assert (model.dense_layers, model.expert_layers) == (dense, 24 - dense)


@pytest.mark.parametrize(
    ("changes", "windowed"),
    [
        ({"use_sliding_window": True}, (32768, 3)),
        ({"use_sliding_window": None, "max_window_layers": None}, (32768, 24)),
        ({"layer_types": ["sliding_attention", "full_attention"] * 12, "sliding_window": 128}, (128, 12)),
        ({"layer_types": ["full_attention"] * 24}, (0, 0)),
        ({"sliding_window_pattern": 6, "sliding_window": 512}, (512, 20)),
        ({"model_type": "gemma2", "sliding_window": 4096}, (4096, 12)),
    ],
)
def test_which_layers_have_windows(changes, windowed):
    model = architecture(QWEN_MOE | changes, "windows")
    assert (model.window, model.windowed_layers) == windowed


@pytest.mark.parametrize(
    ("changes", "tied"), [({}, False), ({"model_type": "gemma2"}, True), ({"model_type": None}, False)]
)
def test_gemma_ties_its_embedding_unless_it_says_otherwise(changes, tied):
    config = {name: value for name, value in (QWEN_MOE | changes).items() if name != "tie_word_embeddings"}
    assert architecture(config, "model").tied == tied
    assert not architecture(config | {"tie_word_embeddings": False}, "model").tied


def test_attention_within_windows():
    """In half of the layers of GPT-OSS a token sees 128, itself among them."""
    model = named("gpt-oss-20b")
    assert (model.window, model.windowed_layers, model.layers) == (128, 12, 24)
    heads, kept = 64 * (64 + 64), 2 * 8 * 64
    prompt = attention(model, 130, 0, "prefill")
    assert prompt.flops == 2 * heads * 12 * (130 * 131 // 2 + (128 * 129 // 2 + 2 * 128))
    assert prompt.nbytes == 130 * kept * 2 * 24
    later = attention(model, 10, 1000, "prefill")
    assert later.flops == 2 * heads * 12 * (10 * 1000 + 55 + 10 * 128)
    assert later.nbytes == kept * 2 * 12 * (1010 + 127 + 10)
    step = attention(model, 4, 100, "decode")
    assert step.flops == 4 * 2 * heads * 24 * 101
    step = attention(model, 4, 1000, "decode")
    assert step.flops == 4 * 2 * heads * 12 * (1001 + 128)
    assert step.nbytes == 4 * kept * 2 * 12 * (1001 + 128)
    assert memory(model, CHIPS["H200"], 3, 1001, 2).cache == 3 * kept * 2 * 12 * (1001 + 128)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "bert"}, "the layers of model_type='bert' are not known here: give a Llama, Mistral"),
        ({"model_type": "mllama"}, "model_type='mllama'"),
        ({"model_type": "qwen3_next"}, "model_type='qwen3_next'"),
        ({"model_type": "deepseek_v32"}, "model_type='deepseek_v32'"),
        ({"attention_chunk_size": 8192}, "attention in chunks .* is not known here: give a Llama"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types must have 24 entries"),
        ({"layer_types": ["linear_attention"] * 24}, "of full_attention and sliding_attention: give them"),
        ({"layer_types": ["sliding_attention"] * 24, "sliding_window": None}, "sliding_window is missing: give it"),
        ({"mlp_only_layers": 3}, "mlp_only_layers=3 must be a list"),
    ],
)
def test_layers_that_are_not_known_are_refused(changes, said):
    with pytest.raises(ArgumentValueError, match=said):
        architecture(QWEN_MOE | changes, "strange")


def test_a_config_inside_another_and_queries_without_latents():
    model = architecture({"text_config": fields(q_lora_rank=None)}, "toy")
    assert products(model, 1)[0].n == 128 * 192 + 576
    assert model.latents.query == 0


def test_names_and_files_that_are_none(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    (tmp_path / "b.json").write_text("{")
    for name, said in (
        ("llama-9", "use deepseek-v3, gpt-oss-120b"),
        (str(tmp_path / "a.json"), "holds no JSON object"),
        (str(tmp_path / "b.json"), "is not JSON"),
        (str(tmp_path / "c.json"), "cannot be read"),
    ):
        with pytest.raises(ArgumentValueError, match=said):
            named(name)
    with pytest.raises(ArgumentValueError, match="tokens=0 must be"):
        products(LLAMA, 0)
    with pytest.raises(ArgumentValueError, match="must be an integer from 1 to 9,007,199,254,740,992"):
        products(LLAMA, 10**400)
    with pytest.raises(ArgumentValueError, match="context=-1 must be"):
        attention(LLAMA, 1, -1, "decode")


def test_memory_of_weights_and_of_keys_and_values():
    """Llama 2 of 7B keeps 32 heads of 128 keys and values in 32 layers: 512 KiB a token; grouped heads keep less."""
    llama = memory(named("llama-2-7b"), CHIPS["H200"], 2, 2048, 2)
    assert llama.cache == 2 * 2048 * 2 * 32 * 128 * 32 * 2 == 2 * 2048 * (512 << 10)
    assert llama.weights == 2 * parameters(named("llama-2-7b"))
    assert (llama.gpus, llama.each) == (1, llama.weights + llama.cache)
    grouped = named("llama-3.1-70b")
    assert memory(grouped, CHIPS["H200"], 1, 1, 2).cache == 2 * 8 * 128 * 80 * 2
    latents = named("deepseek-v3")
    assert memory(latents, CHIPS["H200"], 1, 1, 1).cache == (512 + 64) * 61 * 2
    assert memory(latents, CHIPS["H200"], 1, 0, 1).cache == 0


@pytest.mark.parametrize(("chip", "gpus"), [("H200", 1), ("V100", 4), ("RTX-4090", 3)])
def test_gpus_by_their_memory(chip, gpus):
    """13.5 GB of weights and 47.2 GB of keys and values; a V100 has 16 GB, an RTX 4090 24."""
    found = memory(named("llama-2-7b"), CHIPS[chip], 45, 2000, 2)
    assert found.weights + found.cache == pytest.approx(60.7e9, rel=0.01)
    assert found.gpus == gpus


def test_gpus_share_what_one_cannot_hold():
    held = memory(named("deepseek-v3"), CHIPS["H200"], 64, 2049, 1)
    assert held.weights + held.cache > 4 * held.gpu
    assert held.gpus == 5
    assert held.each == (held.weights + held.cache) / 5 <= held.gpu
    full = Memory(weights=90, cache=10, gpu=50)
    assert (full.gpus, full.each) == (2, 50)
    assert Memory(weights=91, cache=10, gpu=50).gpus == 3


def test_the_command_says_what_does_not_fit():
    def said(*words):
        return CliRunner().invoke(app, ["model", "llm", *words]).stdout

    few = said("llama-2-7b")
    assert re.search(r"keys and values +1\.074 GB of 1 sequence of 2,048 tokens", few)
    assert re.search(r"both on 1 GPU +14\.55 of 141 GB\n", few)
    assert "does not hold" not in few
    many = said("deepseek-v3", "--phase", "decode", "--dtype", "fp8")
    assert re.search(r"both on 5 GPUs +[\d.]+ of 141 GB each\n", many)
    assert "one H200 does not hold them, and 5 do: the times are those of one with enough memory" in many


def pass_of(*words):
    done = CliRunner().invoke(app, ["model", "llm", "llama-2-7b", "--json", *words])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("chip", CHIPS)
def test_every_chip_has_a_predicted_time_of_a_layer_and_of_a_token(chip, phase):
    """Layers and logits make up the pass; nothing is predicted below the speed of light."""
    found = pass_of("--chip", chip, "--phase", phase)
    predicted, least, attention = found["predicted"], found["least"], found["attention"]
    layer = attention["predicted_seconds"] / 32
    layer += sum(each["predicted_seconds"] for each in found["products"] if each["name"] != "logits")
    assert predicted["layer_seconds"] == pytest.approx(layer)
    assert predicted["seconds"] == pytest.approx(32 * layer + found["products"][-1]["predicted_seconds"])
    assert predicted["token_seconds"] * found["tokens"] == pytest.approx(predicted["seconds"])
    assert all(least[name] < predicted[name] for name in least)
    assert all(each["least_seconds"] <= each["predicted_seconds"] for each in found["products"])
    by = {each["predicted_by"] for each in found["products"]}
    assert (by == {"roofline"}) == (chip in ("V100", "B200")) == bool(found["why_roofline"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--chip", "B200"), "B200 multiplies bf16 best by tcgen05, but no kernel here uses it"),
        (("--chip", "V100"), "V100 is sm_70, and tilewright's kernels need sm_80"),
        (("--dtype", "tf32"), "no kernel that multiplies tf32; it has some for bf16, fp16, fp32, fp8, int8"),
        (("--weight-bits", "4"), "no kernel here reads weights of 4 bits and multiplies them in bf16"),
        (("--chip", "RTX-4090", "--dtype", "fp8"), "no kernel takes 2048x12288x4096 fp8_e4m3 nt -> bf16 on RTX-4090"),
    ],
)
def test_a_roofline_stands_in_and_says_why(words, said):
    lines = CliRunner().invoke(app, ["model", "llm", "llama-2-7b", *words]).stdout.splitlines()
    assert lines[-1].startswith("why no kernel: ")
    assert said in lines[-1]
    assert lines[-2].startswith("roofline, at 66% of the chip's arithmetic or 86% of the bandwidth: attention itself")
    for each in pass_of(*words)["products"]:
        assert each["predicted_seconds"] == pytest.approx(each["least_seconds"] / EFFICIENCY[each["bound"]])
        assert each["predicted_by"] == "roofline"


def test_the_roofline_s_efficiency_is_the_median_of_what_was_measured():
    proof = json.loads((RESULTS / "proof_first_look.json").read_text())
    reached = []
    for each in proof["products"]:
        light = of_product(CHIPS["H200"], each["m"], each["n"], each["k"], each["dtype"])
        (ours,) = (known for known in each["contenders"] if known["contender"] == "tilewright")
        if light.bound == "compute":
            reached.append(light.seconds * 1e6 / ours["settled"]["time_us"])
    assert len(reached) == 26
    assert round(statistics.median(reached), 2) == EFFICIENCY["compute"]
    best: dict[tuple[int, int, int], float] = {}
    for m, n, k, layout, kernel, _, micros, _ in json.loads((RESULTS / "gemv_h200.json").read_text())["launches"]:
        if layout == "nt" and kernel != "stream_read" and 2 * n * k > 30e6:
            best[m, n, k] = min(micros, best.get((m, n, k), micros))
    reached = [of_product(CHIPS["H200"], *shape, "bf16").seconds * 1e6 / micros for shape, micros in best.items()]
    assert len(reached) == 40
    assert round(statistics.median(reached), 2) == EFFICIENCY["memory"]


def test_weights_of_the_bits_that_are_multiplied_are_those_of_a_kernel():
    assert pass_of("--weight-bits", "16")["products"] == pass_of()["products"]
    half, whole = (pass_of("--weight-bits", bits, "--phase", "decode")["predicted"] for bits in ("4", "8"))
    assert half["seconds"] < 0.6 * whole["seconds"]


@pytest.mark.parametrize("words", [("--dtype", "fp8"), ("--dtype", "fp8_e4m3"), ("--dtype", "int8", "--chip", "A100")])
def test_bytes_are_predicted_to_be_quicker(words):
    bf16, smaller = pass_of(*words[2:]), pass_of(*words)
    assert smaller["least"]["seconds"] < smaller["predicted"]["seconds"] < 0.7 * bf16["predicted"]["seconds"]
    assert smaller["why_roofline"] == []
    qkv = smaller["products"][0]
    assert qkv["bytes"] == 12288 * 4096 + 2048 * 4096 + 2 * 2048 * 12288
