"""What of a config.json decides the products of a model: widths, heads, layers and experts.

The fields are those of Hugging Face's transformers. Families name them alike but for experts and windows: Llama,
Mistral, Qwen, DeepSeek with latent attention, and GPT-OSS.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import ArgumentValueError

FOLDER = Path(__file__).parent / "configs"
"""The configs that come with the package: the fields that count, and where they are from."""

MOST = 1 << 24
"""No extent of a model is as large."""

_KNOWN = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "deepseek_v2", "deepseek_v3", "gpt_oss", "gemma", "phi3",
          "olmo", "kimi_k2")  # fmt: skip
"""How the types of models begin whose layers are known here, but for those that are not."""
_OTHERS = ("qwen3_next", "deepseek_v32", "gemma3n")
_FAMILIES = "Llama, Mistral, Qwen, DeepSeek or GPT-OSS"
_FULL, _SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True, slots=True)
class Latents:
    """Attention whose keys and values are computed from a vector that is kept for each token (MLA).

    query: the rank of the queries' own vector; 0 if queries come straight from the hidden state. rope: of the part of
    keys that heads share. value: of a head.
    """

    query: int
    key_value: int
    rope: int
    value: int


@dataclass(frozen=True, slots=True)
class Experts:
    """Layers with experts: each token visits `per_token` of `count`, each `width` wide, and a network beside them.

    shared_width: that network's, which may be several experts; 0 if there is none.
    """

    count: int
    per_token: int
    width: int
    shared_width: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder of alternating attention and feed-forward layers.

    dense_layers, expert_layers: how many have one feed-forward network, `width` wide, and how many have experts.
    head: elements of a query's and a key's head; with latents without the shared part. tied: whether the logits use the
    embedding's weight. windowed_layers: how many let a token see only the last `window` ones, itself among them.
    """

    name: str
    hidden: int
    width: int
    vocabulary: int
    dense_layers: int
    expert_layers: int
    heads: int
    key_value_heads: int
    head: int
    tied: bool
    latents: Latents | None
    experts: Experts | None
    window: int = 0
    windowed_layers: int = 0

    @property
    def layers(self) -> int:
        """All layers."""
        return self.dense_layers + self.expert_layers


def shipped() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def named(name: str, argument: str = "model") -> Architecture:
    """The architecture of a shipped model, or of a config.json whose path is given.

    Raises an ArgumentValueError that lists the names, or says which field is missing or wrong.
    """
    path = FOLDER / f"{str(name).lower()}.json"
    if str(name).lower() not in shipped():
        path = Path(str(name))
        if path.suffix != ".json":
            raise ArgumentValueError(
                f"{argument}={name!r} is unknown: use {', '.join(shipped())}, or the path of a config.json"
            )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentValueError(f"{argument}={name!r} cannot be read: {error.strerror}; name a config.json") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentValueError(f"{argument}={name!r} is not JSON: {error}; name a config.json") from None
    if not isinstance(config, dict):
        raise ArgumentValueError(f"{argument}={name!r} holds no JSON object: name a config.json")
    return architecture(config, path.stem if path.parent == FOLDER else name)


def architecture(config: Mapping[str, Any], name: str) -> Architecture:
    """The architecture of the fields of a config.json; an ArgumentValueError names a field that is missing or wrong."""
    nested = config.get("text_config")
    fields = _Fields(nested if isinstance(nested, dict) else config, name)
    _require_known(fields)
    layers = fields.number("num_hidden_layers")
    heads = fields.number("num_attention_heads")
    latents = None
    head = fields.number("head_dim", default=0)
    if fields.has("kv_lora_rank"):
        head = fields.number("qk_nope_head_dim")
        latents = Latents(
            fields.number("q_lora_rank", default=0),
            fields.number("kv_lora_rank"),
            fields.number("qk_rope_head_dim"),
            fields.number("v_head_dim"),
        )
    hidden, width = fields.number("hidden_size"), fields.number("intermediate_size")
    key_value_heads = fields.number("num_key_value_heads", default=heads)
    if heads % key_value_heads:
        raise ArgumentValueError(
            f"{name}: num_attention_heads={heads} is no multiple of num_key_value_heads={key_value_heads}: give one"
        )
    if not head and hidden % heads:
        raise ArgumentValueError(
            f"{name}: hidden_size={hidden} is no multiple of num_attention_heads={heads}: give head_dim, too"
        )
    experts, dense_layers = None, layers
    if count := fields.number("n_routed_experts", "num_local_experts", "num_experts", default=0):
        per_token = fields.number("num_experts_per_tok", "experts_per_token")
        expert_width = fields.number("moe_intermediate_size", default=width)
        shared = fields.number("n_shared_experts", default=0) * expert_width
        experts = Experts(
            count, per_token, expert_width, fields.number("shared_expert_intermediate_size", default=shared)
        )
        if per_token > count:
            raise ArgumentValueError(f"{name}: num_experts_per_tok={per_token} is more than {count} experts: give less")
        dense_layers = layers - _expert_layers(fields, layers)
    window, windowed_layers = _windows(fields, layers)
    return Architecture(
        name=name,
        hidden=hidden,
        width=width,
        vocabulary=fields.number("vocab_size"),
        dense_layers=dense_layers,
        expert_layers=layers - dense_layers,
        heads=heads,
        key_value_heads=key_value_heads,
        head=head or hidden // heads,
        tied=bool(fields.values.get("tie_word_embeddings", str(fields.values.get("model_type")).startswith("gemma"))),
        latents=latents,
        experts=experts,
        window=window,
        windowed_layers=windowed_layers,
    )


def _require_known(fields: "_Fields") -> None:
    """Raise an ArgumentValueError for a type of model whose layers are other ones; one that says none is taken."""
    kind = fields.values.get("model_type")
    if kind is not None and (not str(kind).startswith(_KNOWN) or str(kind).startswith(_OTHERS)):
        raise ArgumentValueError(
            f"{fields.name}: the layers of model_type={str(kind)!r} are not known here: give a {_FAMILIES}, or leave "
            f"model_type out if its layers are such"
        )


def _expert_layers(fields: "_Fields", layers: int) -> int:
    """How many layers have experts: those behind the first dense ones, or every so many, but not those named."""
    first, step = fields.number("first_k_dense_replace", default=0), fields.number("decoder_sparse_step", default=1)
    every, dense = fields.number("moe_layer_freq", default=1), fields.values.get("mlp_only_layers") or []
    if not isinstance(dense, list):
        raise ArgumentValueError(f"{fields.name}: mlp_only_layers={dense!r} must be a list of layers: give one")
    return sum(
        layer >= first and layer % max(every, 1) == 0 and (layer + 1) % max(step, 1) == 0 and layer not in dense
        for layer in range(layers)
    )


def _windows(fields: "_Fields", layers: int) -> tuple[int, int]:
    """The tokens of a window, and how many layers have one; 0 and 0 if none has."""
    if fields.has("attention_chunk_size"):
        raise ArgumentValueError(
            f"{fields.name}: attention in chunks (attention_chunk_size) is not known here: give a {_FAMILIES}"
        )
    window, kinds = fields.number("sliding_window", default=0), fields.values.get("layer_types")
    if isinstance(kinds, list):
        if len(kinds) != layers or any(kind not in (_FULL, _SLIDING) for kind in kinds):
            raise ArgumentValueError(
                f"{fields.name}: layer_types must have {layers} entries of {_FULL} and {_SLIDING}: give them"
            )
        windowed = kinds.count(_SLIDING)
        if windowed and not window:
            raise ArgumentValueError(
                f"{fields.name}: layer_types has {_SLIDING}, and sliding_window is missing: give it"
            )
    elif fields.has("sliding_window_pattern") or fields.values.get("model_type") == "gemma2":
        windowed = layers - layers // max(fields.number("sliding_window_pattern", default=2), 1)
    elif fields.values.get("use_sliding_window") is not False:
        windowed = layers - min(fields.number("max_window_layers", default=0), layers)
    else:
        windowed = 0
    return (window, windowed) if window and windowed else (0, 0)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a config, and its name for messages."""

    values: Mapping[str, Any]
    name: str

    def has(self, field: str) -> bool:
        return self.values.get(field) is not None

    def number(self, *names: str, default: int | None = None) -> int:
        """The first of several fields that is there; null is as good as missing."""
        field = next(filter(self.has, names), None)
        if field is None:
            if default is None:
                raise ArgumentValueError(f"{self.name} has no {' or '.join(names)}: give a {_FAMILIES}")
            return default
        value = self.values[field]
        least = 1 if default is None else 0
        if type(value) is not int or not least <= value <= MOST:
            raise ArgumentValueError(f"{self.name}: {field}={value!r} must be an integer from {least} to {MOST:,}")
        return value
