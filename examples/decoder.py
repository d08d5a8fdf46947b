"""Time the layers of a decoder whose products are tilewright's, beside the same layers in plain torch.

The layers are those of a Llama, from transformers, with random weights. Each of --rows sequences has a past of
--context tokens and gets one more. tilewright makes one product of queries, keys and values, and one of gate and up
with SiLU in its epilogue; residuals are added in epilogues, too. Norms, rotations and attention stay torch's. Both are
CUDA graphs, so launches cost both alike, and walk through more layers than the L2 can hold.

A result that differs from torch's by more than its rounding explains ends the program with code 1. Without a GPU, the
products run in the emulator, and nothing is timed.

examples:
  python examples/decoder.py                                 the layers of a Llama 7B, one sequence
  python examples/decoder.py --rows 1 16 64 --kernel gemv    several numbers of sequences, with a kernel of your choice
  python examples/decoder.py --hidden 8192 --heads 64 --kv-heads 8 --intermediate 28672 --json    those of a 70B
  python examples/decoder.py --hidden 64 --heads 4 --intermediate 96 --context 7    small enough for the emulator
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import tilewright as tw
from tilewright.bench import Burst
from tilewright.bench.inputs import sets_beyond
from tilewright.bench.torch_work import replayed
from tilewright.measure.protocol import Work
from tilewright.measure.statistics import median_interval, paired_ratio

try:
    import torch
    import transformers
    from torch.nn.functional import scaled_dot_product_attention
    from transformers.models.llama import modeling_llama as llama
except ImportError as error:
    MISSING = str(error)
else:
    MISSING = ""

AGREEMENT = 4
"""The most that results may differ from torch's, in units of the dtype's precision and in the Frobenius norm: each side
rounds a few times, to other numbers."""

WALKS = 20
"""How often a graph walks through all layers: it then takes the GPU longer than the host takes to launch it."""

WAYS = ("torch", "tilewright")

ADDED = ("out", "down")
"""The products to which a residual is added."""

PRODUCTS = {"qkv": "queries, keys, values", "out": "attention out", "gate_up": "gate and up", "down": "down"}
"""The products of a layer, and what tables call them."""


@dataclass(frozen=True)
class Sizes:
    """The extents of a layer; `kv_heads` heads of keys and values serve `heads` heads of queries."""

    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    context: int

    @property
    def head(self) -> int:
        """The width of a head."""
        return self.hidden // self.heads

    @property
    def weights(self) -> dict[str, tuple[int, int]]:
        """The shape (n, k) of each product's weight."""
        return {
            "qkv": ((self.heads + 2 * self.kv_heads) * self.head, self.hidden),
            "out": (self.hidden, self.heads * self.head),
            "gate_up": (2 * self.intermediate, self.hidden),
            "down": (self.hidden, self.intermediate),
        }


class Weights(NamedTuple):
    """The weights of a layer, each (n, k) as a linear layer keeps it; `qkv` and `gate_up` are stacked along n."""

    qkv: Any
    out: Any
    gate_up: Any
    down: Any


class Plans:
    """The products of a layer for a number of rows: planned once, and called with the weights of every layer.

    Arrays may be of any library. Results lie in arrays of the Plans, which the next layer overwrites.
    """

    def __init__(self, weights: Weights, rows: int, empty: Callable[[int, int], Any], kernel: str = "auto"):
        """Plan for weights like these; `empty` makes arrays of a shape."""
        x, attended = empty(rows, weights.qkv.shape[1]), empty(rows, weights.out.shape[1])
        self._qkv = empty(rows, weights.qkv.shape[0])
        self._gated = empty(rows, weights.down.shape[1])
        self._between, self._last = empty(rows, weights.out.shape[0]), empty(rows, weights.down.shape[0])
        self.of = {
            "qkv": tw.plan(x, weights.qkv.T, out=self._qkv, kernel=kernel),
            "out": tw.plan(attended, weights.out.T, x, out=self._between, kernel=kernel),
            "gate_up": tw.plan(x, weights.gate_up.T, gate="stacked", activation="silu", out=self._gated, kernel=kernel),
            "down": tw.plan(self._gated, weights.down.T, self._between, out=self._last, kernel=kernel),
        }

    def described(self) -> dict[str, dict[str, Any]]:
        """The extents of each product's weight, and what computes it."""
        found = {}
        for name, plan in self.of.items():
            kernel = "" if plan.kernel is None else plan.kernel.name
            found[name] = {"n": plan.problem.n, "k": plan.problem.k, "kernel": kernel, "config": str(plan.config)}
        return found

    def qkv(self, x: Any, weights: Weights) -> Any:
        """Queries, keys and values of x, side by side."""
        return self.of["qkv"](x, weights.qkv.T, out=self._qkv)

    def out(self, attended: Any, x: Any, weights: Weights) -> Any:
        """The projection of what was attended to, added to x."""
        return self.of["out"](attended, weights.out.T, x, out=self._between)

    def gate_up(self, x: Any, weights: Weights) -> Any:
        """silu(gate) * up of x."""
        return self.of["gate_up"](x, weights.gate_up.T, out=self._gated)

    def down(self, gated: Any, x: Any, weights: Weights) -> Any:
        """The way back to the hidden size, added to x."""
        return self.of["down"](gated, weights.down.T, x, out=self._last)


class Past:
    """The keys and values of a layer's earlier tokens, with a place for the last one; transformers calls it a cache."""

    def __init__(self, sizes: Sizes, rows: int, like: Any):
        """Random ones, of the dtype and device of `like`."""
        shape = (rows, sizes.kv_heads, sizes.context + 1, sizes.head)
        self.keys, self.values = (torch.randn(shape, dtype=like.dtype, device=like.device) for _ in range(2))

    def update(self, keys: Any, values: Any, *others: Any) -> tuple[Any, Any]:
        """Store those of the last token, and return all."""
        self.keys[:, :, -1:], self.values[:, :, -1:] = keys, values
        return self.keys, self.values


class Layer:
    """A layer of transformers, and the same layer with tilewright's products; both share the weights."""

    def __init__(self, config: Any, sizes: Sizes, dtype: Any):
        """A layer with random weights on torch's current device."""
        self.plain, self._sizes = llama.LlamaDecoderLayer(config, 0).to(dtype).requires_grad_(False), sizes
        attention, mlp = self.plain.self_attn, self.plain.mlp
        self.weights = Weights(
            stacked(attention.q_proj, attention.k_proj, attention.v_proj),
            attention.o_proj.weight,
            stacked(mlp.gate_proj, mlp.up_proj),
            mlp.down_proj.weight,
        )

    def planned(self, x: Any, plans: Plans, past: Past, rotation: tuple[Any, Any]) -> Any:
        """What `plain` computes of x (rows, hidden)."""
        sizes, rows, weights = self._sizes, x.shape[0], self.weights
        heads = plans.qkv(self.plain.input_layernorm(x), weights).view(rows, 1, -1, sizes.head).transpose(1, 2)
        q, k, v = heads.split([sizes.heads, sizes.kv_heads, sizes.kv_heads], dim=1)
        q, k = llama.apply_rotary_pos_emb(q, k, *rotation)
        keys, values = past.update(k, v)
        attended = scaled_dot_product_attention(q, keys, values, enable_gqa=sizes.heads != sizes.kv_heads)
        x = plans.out(attended.transpose(1, 2).reshape(rows, -1), x, weights)
        return plans.down(plans.gate_up(self.plain.post_attention_layernorm(x), weights), x, weights)

    def multiply(self, name: str, a: Any, x: Any) -> Any:
        """A product in torch, of a, with x added where a residual is."""
        attention, mlp = self.plain.self_attn, self.plain.mlp
        if name == "qkv":
            return attention.q_proj(a), attention.k_proj(a), attention.v_proj(a)
        if name == "gate_up":
            return mlp.act_fn(mlp.gate_proj(a)) * mlp.up_proj(a)
        return x + (attention.o_proj(a) if name == "out" else mlp.down_proj(a))


def stacked(*linears: Any) -> Any:
    """One weight of several linear layers, which become views of it, so that memory holds it once."""
    weight = torch.cat([linear.weight for linear in linears])
    for linear, part in zip(linears, weight.split([linear.out_features for linear in linears]), strict=True):
        linear.weight = torch.nn.Parameter(part, requires_grad=False)
    return weight


class Decoder:
    """Layers one after the other, in both ways, at a number of rows."""

    def __init__(self, layers: Sequence[Layer], sizes: Sizes, rows: int, rotary: Any, kernel: str):
        """Plan, and make random activations and pasts."""
        self._like = layers[0].weights.qkv
        self.layers, self.rows, self.plans = layers, rows, Plans(layers[0].weights, rows, self._empty, kernel)
        self.x = 0.02 * self._empty(rows, sizes.hidden).normal_()  # small, so that what layers add to it shows
        self.pasts = [Past(sizes, rows, self._like) for _ in layers]
        self._rotation = rotary(self.x, torch.full((rows, 1), sizes.context, device=self.x.device))

    def plain(self, layer: Layer, past: Past, x: Any) -> Any:
        """A layer in torch."""
        made = layer.plain(x.unsqueeze(1), past_key_values=past, position_embeddings=self._rotation)
        return made.squeeze(1)

    def planned(self, layer: Layer, past: Past, x: Any) -> Any:
        """A layer with tilewright's products."""
        return layer.planned(x, self.plans, past, self._rotation)

    def difference(self) -> float:
        """The largest difference of a layer's two results, in the Frobenius norm, in units of the dtype's precision."""
        worst = 0.0
        for layer, past in zip(self.layers, self.pasts, strict=True):
            expected, found = (way(layer, past, self.x).double() for way in (self.plain, self.planned))
            worst = max(worst, float((found - expected).norm() / expected.norm()))
        return worst / float(torch.finfo(self.x.dtype).eps)

    def walks(self) -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
        """Walks through all layers in torch and with tilewright: of each product alone, and of whole layers."""
        found: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "layer": (partial(self._walk, self.plain), partial(self._walk, self.planned))
        }
        for name in PRODUCTS:
            a = self._empty(self.rows, getattr(self.layers[0].weights, name).shape[1]).normal_()
            planned = partial(getattr(self.plans, name), a, *([self.x] if name in ADDED else []))
            found[name] = partial(self._multiply, name, a), partial(self._multiply_planned, planned)
        return found

    def _walk(self, way: Callable[[Layer, Past, Any], Any]) -> None:
        x = self.x
        for layer, past in zip(self.layers, self.pasts, strict=True):
            x = way(layer, past, x)

    def _multiply(self, name: str, a: Any) -> None:
        for layer in self.layers:
            layer.multiply(name, a, self.x)

    def _multiply_planned(self, planned: Callable[[Weights], Any]) -> None:
        for layer in self.layers:
            planned(layer.weights)

    def _empty(self, m: int, n: int) -> Any:
        return torch.empty(m, n, dtype=self._like.dtype, device=self._like.device)


def measured(decoder: Decoder, burst: Burst) -> dict[str, dict[str, Any]]:
    """Microseconds of each product and of a layer in both ways, and how many times faster ours is, with intervals."""
    works: dict[str, Work] = {}
    for name, walks in decoder.walks().items():
        for way, walk in zip(WAYS, walks, strict=True):
            walk()
            works[f"{name} {way}"] = replayed(torch, partial(repeat, walk), WALKS * len(decoder.layers))
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for cycle in burst.measure(works):
        for name, sample in cycle.items():
            seconds[name].append(sample.seconds)
    found = {}
    for name in (*PRODUCTS, "layer"):
        theirs, ours = (seconds[f"{name} {way}"] for way in WAYS)
        times = (median_interval([1e6 * each for each in one]).as_dict() for one in (theirs, ours))
        found[name] = {**dict(zip(WAYS, times, strict=True)), "ratio": paired_ratio(ours, theirs).as_dict()}
    return found


def repeat(walk: Callable[[], None]) -> None:
    """Walk often enough for the GPU to take longer than the host takes to launch a graph of it."""
    for _ in range(WALKS):
        walk()


def lines(case: dict[str, Any]) -> list[str]:
    """What was found at a number of rows, for people."""
    times, rows = case.get("us"), case["rows"]
    heads = "" if times is None else f"{'torch us':>10}{'tilewright us':>15}{'ratio':>8}"
    found = [
        f"{rows} rows: results differ from torch's by {case['difference']:.2f} units, and {AGREEMENT} are allowed",
        f"{'':24}{'n x k':>15}{heads}  kernel",
    ]
    for name, about in case["products"].items():
        shape = f"{about['n']} x {about['k']}"
        found.append(f"{PRODUCTS[name]:24}{shape:>15}{_times(times, name)}  {about['kernel']}")
    if times is None:
        return found
    token = [times["layer"][way]["median"] / rows for way in WAYS]
    return [
        *found,
        f"{'a layer':39}{_times(times, 'layer')}",
        f"a layer takes {token[0]:.2f} us a token in torch and {token[1]:.2f} us with tilewright",
    ]


def _times(times: dict[str, Any] | None, name: str) -> str:
    if times is None:
        return ""
    return "{:10.2f}{:15.2f}{:8.3f}".format(*(times[name][each]["median"] for each in (*WAYS, "ratio")))


def cases(options: argparse.Namespace, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """What is found at each number of rows."""
    on_gpu = torch.cuda.is_available()
    device, dtype = "cuda" if on_gpu else "cpu", getattr(torch, {"bf16": "bfloat16", "fp16": "float16"}[options.dtype])
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size if on_gpu else 0
    torch.manual_seed(0)
    with torch.device(device), torch.inference_mode():
        config = transformers.LlamaConfig(
            hidden_size=sizes.hidden,
            intermediate_size=sizes.intermediate,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.kv_heads,
            max_position_embeddings=sizes.context + 1,
            attn_implementation="sdpa",
        )
        layers = [Layer(config, sizes, dtype) for _ in range(options.layers or layers_beyond(sizes, l2_bytes))]
        rotary = llama.LlamaRotaryEmbedding(config)
        for rows in options.rows:
            decoder = Decoder(layers, sizes, rows, rotary, options.kernel)
            case = {"rows": rows, "layers": len(layers), "difference": decoder.difference()}
            case["products"] = decoder.plans.described()
            if on_gpu and case["difference"] <= AGREEMENT:
                case["us"] = measured(decoder, Burst(cycles=options.cycles, idle_seconds=options.idle))
            yield case


def layers_beyond(sizes: Sizes, l2_bytes: int) -> int:
    """How many layers there must be for a walk through the smallest of their products to read twice the L2."""
    return sets_beyond(l2_bytes, 2 * min(n * k for n, k in sizes.weights.values()))


def count(text: str) -> int:
    """A whole number from 1 on."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default, text in (
        ("hidden", 4096, "the hidden size"),
        ("heads", 32, "heads of queries"),
        ("kv-heads", None, "heads of keys and values (default: as many)"),
        ("intermediate", 11008, "columns of gate and of up"),
        ("context", 512, "earlier tokens of each sequence"),
        ("layers", None, "layers (default: as many as the L2 cannot hold)"),
        ("cycles", 5, "cycles of the measurement"),
    ):
        shown = "" if default is None else f" (default: {default})"
        parser.add_argument(f"--{name}", type=count, default=default, metavar="N", help=text + shown)
    parser.add_argument("--rows", type=count, nargs="+", default=[1], metavar="M", help="sequences (default: 1)")
    parser.add_argument("--dtype", choices=("bf16", "fp16"), default="bf16", help="(default: bf16)")
    parser.add_argument("--kernel", default="auto", help="of all products (default: the planner's choice)")
    parser.add_argument("--idle", type=float, default=0.1, metavar="S", help="seconds of rest before each turn")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    options.kv_heads = options.kv_heads or options.heads
    for larger, smaller in (("hidden", "heads"), ("heads", "kv_heads")):
        if vars(options)[larger] % vars(options)[smaller]:
            parser.error(f"--{larger} must be a multiple of --{smaller.replace('_', '-')}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, time and print; returns 1 if a result is wrong."""
    options = options_of(arguments)
    if MISSING:
        sys.exit(f"this example needs torch and transformers: {MISSING}")
    sizes = Sizes(options.hidden, options.heads, options.kv_heads, options.intermediate, options.context)
    record: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "examples/decoder.py", *(sys.argv[1:] if arguments is None else arguments)]),
        "versions": {"torch": str(torch.__version__), "transformers": str(transformers.__version__)},
        "sizes": asdict(sizes),
        "dtype": options.dtype,
        "kernel": options.kernel,
        "cases": [],
    }
    try:
        for case in cases(options, sizes):
            record["cases"].append(case)
            if not options.json:
                print("\n".join(lines(case)), flush=True)
    except tw.TilewrightError as error:
        sys.exit(str(error))
    if options.json:
        print(json.dumps(record))
    return int(any(case["difference"] > AGREEMENT for case in record["cases"]))


if __name__ == "__main__":
    sys.exit(main())
