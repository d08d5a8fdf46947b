"""What of a config.json decides the products of a model: widths, heads, layers and experts.

The fields are those of Hugging Face's transformers. Four families name them alike but for experts: Llama, Qwen,
DeepSeek with latent attention, and GPT-OSS.
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
    """Layers with experts: each token visits `per_token` of `count`, and all of `shared`, each `width` wide."""

    count: int
    per_token: int
    width: int
    shared: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder of alternating attention and feed-forward layers.

    dense_layers, expert_layers: how many have one feed-forward network, `width` wide, and how many have experts.
    head: elements of a query's and a key's head; with latents without the shared part. tied: whether the logits use the
    embedding's weight.
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
        experts = Experts(count, per_token, expert_width, fields.number("n_shared_experts", default=0))
        if per_token > count:
            raise ArgumentValueError(f"{name}: num_experts_per_tok={per_token} is more than {count} experts: give less")
        dense_layers = min(fields.number("first_k_dense_replace", default=0), layers)
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
        tied=bool(fields.values.get("tie_word_embeddings", False)),
        latents=latents,
        experts=experts,
    )


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
                raise ArgumentValueError(
                    f"{self.name} has no {' or '.join(names)}: give a Llama, Qwen, DeepSeek or GPT-OSS"
                )
            return default
        value = self.values[field]
        least = 1 if default is None else 0
        if type(value) is not int or not least <= value <= MOST:
            raise ArgumentValueError(f"{self.name}: {field}={value!r} must be an integer from {least} to {MOST:,}")
        return value
