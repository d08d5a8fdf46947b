"""Generated products for the kernels of the ladder: one layout, whole tiles where they ask for them, padded rows."""

from support.memory import View
from support.variant import Variant
from tilewright import dtypes
from tilewright.checking.product import Product
from tilewright.hardware import H200
from tilewright.kernels.ladder import LADDER
from tilewright.kernels.ladder.kernel import LadderKernel

MAX_CTAS = 6

RUNGS = {name: rung.kernel for name, rung in LADDER.items() if isinstance(rung.kernel, LadderKernel)}
"""The kernels of the ladder that are not production kernels."""


def product(kernel, dtype=None):
    """A problem of 512^3 that the kernel takes, of its first input type where none is named."""
    kind = dtype or kernel.inputs[0]
    return Product(512, 512, 512, kind, kind, kernel.layout).problem


def ladder_variants():
    """Of each rung: every input type and Config plain, and the first of both with c and bias."""
    for name, kernel in RUNGS.items():
        configs = {dtype.name: kernel.configs(product(kernel, dtype), H200) for dtype in kernel.inputs}
        for number, (dtype, (config, *others)) in enumerate(configs.items()):
            yield _variant(name, config, dtype)
            if not number:
                yield _variant(name, config, dtype, c=dtype, bias="fp32", activation="relu")
                for other in others:
                    yield _variant(name, other, dtype)


def _variant(name, config, dtype, **epilogue):
    kernel = RUNGS[name]
    line = 16 if kernel.whole_tiles else dtypes.parse(dtype, "dtype").nbytes
    a, b = ("mn" if kernel.layout[0] == "t" else "k", "k" if kernel.layout[1] == "t" else "mn")
    return Variant(name, config, dtype, f"{a}{line}", f"{b}{line}", 16 if kernel.whole_tiles else 2, dtype, **epilogue)


def draw_rung(variant, random, liberties):
    """The fields of a Case (support/cases.py) of the variant; without liberties one tile, packed."""
    kernel = RUNGS[variant.kernel]
    free = liberties > 0
    while True:
        tiles = (kernel.tile_m * kernel.cluster_m, kernel.tile_n, kernel.tile_k)
        m, n, k = (_extent(kernel, tile, random, free) for tile in tiles)
        if -(-m // kernel.tile_m) * -(-n // kernel.tile_n) <= MAX_CTAS:
            break

    def matrix(dtype, rows, columns, transposed=False):
        inner = rows if transposed else columns
        unit = 16 // dtypes.parse(dtype, "dtype").nbytes if kernel.whole_tiles else 1
        pitch = inner + (random.choice((0, 0, 1, 3)) * unit if free else 0)
        return View(dtype, (rows, columns), (1, pitch) if transposed else (pitch, 1))

    dtype = variant.dtype
    a = matrix(dtype, m, k, kernel.layout[0] == "t")
    b = matrix(dtype, k, n, kernel.layout[1] == "t")
    out = matrix(variant.out_dtype, m, n)
    data = random.choice(("integers", "normal", "special")) if free else "integers"
    fields = {"a": a, "b": b, "out": out, "alpha": random.choice((1.0, -0.5, 2.0)), "data": data}
    if variant.c:
        in_place = random.random() < 0.25
        fields |= {"c": out if in_place else matrix(variant.c, m, n), "in_place": in_place, "beta": 0.5}
    if variant.bias:
        fields["bias"] = View(variant.bias, (n,), (1,))
    return fields | {"seed": random.randrange(1 << 30)}


def _extent(kernel, tile, random, free):
    if not free:
        return tile if kernel.whole_tiles else max(tile - 3, 5)
    if kernel.whole_tiles:
        return tile * random.choice((1, 1, 2, 3, 5) if tile < 128 else (1, 1, 2))
    return random.choice((1, 2, 3, 7, tile, 2 * tile, max(1, tile + random.randint(-3, 3)), random.randint(1, 97)))


LADDER_VARIANTS = tuple(ladder_variants())
