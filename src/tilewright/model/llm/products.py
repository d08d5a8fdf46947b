"""The products of one pass through a model: every GEMM, and attention beside them."""

from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

from tilewright.model.llm.architecture import Architecture, Experts
from tilewright.rounding import MOST_COUNTED, natural, one_of, real

Phase = Literal["prefill", "decode"]
"""Reading a prompt, all of whose tokens pass together; or writing, where each sequence gives one token."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product of activations by weights, out = activations (m, k) @ weights (k, n), that several layers have.

    m: rows; of experts, the mean of those that are visited. copies: such products of a layer, each with its own weight.
    layers: how many layers have it.
    """

    name: str
    m: float
    n: int
    k: int
    copies: float
    layers: int

    @property
    def flops(self) -> float:
        """Operations of a layer."""
        return 2 * self.m * self.n * self.k * self.copies

    def nbytes(self, element: float = 2, weight: float = 2) -> float:
        """Bytes of a layer: weights, activations and results once each, by the bytes of an element and of a weight.

        Results have 2 bytes where activations have fewer.
        """
        activations, results = self.m * self.k * element, self.m * self.n * max(element, 2)
        return (self.n * self.k * weight + activations + results) * self.copies

    def intensity(self, element: float = 2, weight: float = 2) -> float:
        """Operations per byte."""
        return self.flops / self.nbytes(element, weight)


@dataclass(frozen=True, slots=True)
class Attention:
    """What attention does with queries, keys and values in all layers together; `flops` operations, `nbytes` read."""

    flops: float
    nbytes: float


def products(model: Architecture, tokens: int) -> list[Product]:
    """The products of one pass with so many tokens: of a prompt, or one of each sequence.

    A product that only some layers have says so. Logits are computed for each token. Raises an ArgumentValueError for
    tokens below 1.
    """
    natural("tokens", tokens, 1, MOST_COUNTED)
    found = [Product(name, tokens, n, k, 1, model.layers) for name, n, k in _attention_weights(model)]
    if model.dense_layers:
        found += _feed_forward("", tokens, model.width, model, 1, model.dense_layers)
    if model.experts is not None:
        found += _experts(model, model.experts, tokens)
    return [*found, Product("logits", tokens, model.vocabulary, model.hidden, 1, 1)]


def attention(model: Architecture, tokens: int, context: int, phase: Phase, element: float = 2) -> Attention:
    """Scores and weighted values of one pass, beside the products with weights.

    context: tokens that each sequence already has. In a prefill each token sees those before it, as far as a layer's
    window reaches. In decoding each sequence's keys and values are read once. element: bytes of one. Raises an
    ArgumentValueError for what cannot be.
    """
    natural("tokens", tokens, 1, MOST_COUNTED)
    natural("context", context, 0, MOST_COUNTED)
    one_of("phase", phase, get_args(Phase))
    real("element", element, 1 / 8, 8)
    kept = kept_elements(model)
    if model.latents is None:
        query_key, value = model.head, model.head
    elif phase == "prefill":  # keys and values are computed from the latents
        query_key, value = model.head + model.latents.rope, model.latents.value
        kept = model.heads * (query_key + value)
    else:  # queries meet the latents themselves
        query_key, value = kept, model.latents.key_value
    sequences, each = (1, tokens) if phase == "prefill" else (tokens, 1)
    full, windowed, window = model.layers - model.windowed_layers, model.windowed_layers, model.window
    seen = full * _seen(each, context) + windowed * _seen(each, context, window)
    read = full * (context + each) + windowed * (min(context, max(window - 1, 0)) + each)
    flops = 2 * sequences * seen * model.heads * (query_key + value)
    return Attention(flops, sequences * read * kept * element)


def _seen(tokens: int, context: int, window: float = inf) -> float:
    """How many tokens that many ones see together, each itself and those before it, at most `window`."""
    growing = min(max(window - context, 0), tokens)  # those that see all of the context
    return growing * context + growing * (growing + 1) / 2 + ((tokens - growing) * window if tokens > growing else 0)


def kept_tokens(model: Architecture, tokens: int) -> int:
    """The tokens that all layers together keep of a sequence; those with a window no more than it has."""
    windowed = model.windowed_layers
    return (model.layers - windowed) * tokens + windowed * min(tokens, model.window)


def kept_elements(model: Architecture) -> int:
    """The elements that a layer keeps of each token: a key and a value of each head for them, or the latents."""
    if model.latents is None:
        return 2 * model.key_value_heads * model.head
    return model.latents.key_value + model.latents.rope


def parameters(model: Architecture) -> int:
    """All weights of matrices, the embedding included; norms and biases aside."""
    every = model.vocabulary * model.hidden * (1 if model.tied else 2)
    every += sum(n * k for _, n, k in _attention_weights(model)) * model.layers
    every += 3 * model.width * model.hidden * model.dense_layers
    if model.experts is not None:
        widths = model.experts.width * model.experts.count + model.experts.shared_width
        every += (3 * widths + model.experts.count) * model.hidden * model.expert_layers
    return every


def visited(experts: Experts, tokens: int) -> float:
    """How many experts at least one token visits, on the average, if all are chosen alike."""
    missed: float = (1 - experts.per_token / experts.count) ** tokens
    return experts.count * (1 - missed)


def _attention_weights(model: Architecture) -> list[tuple[str, int, int]]:
    """The names, n and k of attention's products with weights."""
    latents = model.latents
    if latents is None:
        rows = (model.heads + 2 * model.key_value_heads) * model.head
        return [("QKV", rows, model.hidden), ("attention out", model.hidden, model.heads * model.head)]
    queries = model.heads * (model.head + latents.rope)
    kept = latents.key_value + latents.rope
    first = (
        [("latents", latents.query + kept, model.hidden), ("queries of latents", queries, latents.query)]
        if latents.query
        else [("queries and latents", queries + kept, model.hidden)]
    )
    return [
        *first,
        ("keys, values of latents", model.heads * (model.head + latents.value), latents.key_value),
        ("attention out", model.hidden, model.heads * latents.value),
    ]


def _feed_forward(of: str, rows: float, width: int, model: Architecture, copies: float, layers: int) -> list[Product]:
    return [
        Product(f"gate{of}", rows, width, model.hidden, copies, layers),
        Product(f"up{of}", rows, width, model.hidden, copies, layers),
        Product(f"down{of}", rows, model.hidden, width, copies, layers),
    ]


def _experts(model: Architecture, experts: Experts, tokens: int) -> list[Product]:
    """The router, the experts that are visited with their mean rows, and those that all tokens visit."""
    at_work, layers = visited(experts, tokens), model.expert_layers
    rows = tokens * experts.per_token / at_work
    found = [Product("router", tokens, experts.count, model.hidden, 1, layers)]
    found += _feed_forward(" of experts", rows, experts.width, model, at_work, layers)
    if experts.shared_width:
        found += _feed_forward(", shared", tokens, experts.shared_width, model, 1, layers)
    return found
