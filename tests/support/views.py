"""Views for generated cases: strides, alignment and broadcasting, drawn from a `random.Random`."""

from support.memory import View
from tilewright import dtypes
from tilewright.operand import contiguous_strides


def storage_class(text, k_position):
    """("k16", where k is) -> (position of the contiguous dimension, bytes aligned along it)."""
    name = text.rstrip("0123456789")
    return k_position if name == "k" else -3 - k_position, int(text[len(name) :])


def broadcastable(batch, random):
    """A batch shape that broadcasts to `batch`: extents replaced by 1, leading ones left out."""
    shape = tuple(1 if random.random() < 0.25 else extent for extent in batch)
    return shape[random.randint(0, len(shape)) :] if random.random() < 0.25 else shape


def view(dtype, shape, fast, nbytes, random, free, signed, distinct=False, apart=True):
    """Strides for `shape` that allow accesses of `nbytes` along dimension `fast`, and of no more if `nbytes` < 16.

    nbytes: 0 if neighbors along `fast` are never neighbors in memory.
    apart: whether they need not be if these are single elements.
    """
    width = dtypes.parse(dtype, "dtype").nbytes
    unit, line = max(nbytes // width, 1), 16 // width
    anything = unit == 1 and free and (apart or nbytes == 0)
    first_steps = (2, 3) if nbytes == 0 else (1, 1, 1, 2, 3)
    dims = sorted(range(len(shape)), key=lambda dim: (dim != fast % max(len(shape), 1), -dim))
    if free and random.random() < 0.3:
        rest = dims[1:]
        random.shuffle(rest)
        dims[1:] = rest
    skew = unit * random.randrange(line // unit) if free else 0
    odd = unit < line
    strides, reach = [0] * len(shape), 1
    if anything and not distinct and random.random() < 0.05:
        return View(dtype, shape, tuple(strides), skew)
    for position, dim in enumerate(dims):
        if position == 0:
            step = random.choice(first_steps) if anything else first_steps[0]
        else:
            steps = -(-reach // unit) + (random.choice((0, 0, 1, 2, 5)) if free else 0)
            if odd and position == 1 and steps % 2 == 0:
                steps += 1
            step = steps * unit
        if signed and free and (position or anything) and random.random() < 0.15:
            step = -step
        if position and not distinct and signed and free and random.random() < 0.05:
            step = 0
        strides[dim] = step
        reach = max(reach, abs(step) * max(shape[dim], 1))
    return View(dtype, shape, tuple(strides), skew)


def addend(dtype, result, random, free, pairs, alike=False):
    """A view that broadcasts to the result: full, along rows or columns, a scalar.

    With `pairs` its rows are contiguous and aligned to two elements; otherwise its strides are any. If
    rows are `alike`, one stands for all.
    """
    shape = broadcastable(result, random) if free else result
    if free and not pairs and random.random() < 0.1:
        shape = ()
    if alike:
        shape = (*(1 for _ in result[1:]), 1 if free and random.random() < 0.2 else result[-1])
    nbytes = dtypes.parse(dtype, "dtype").nbytes
    if pairs:
        shape = (*shape[:-1], *result[-1:])
        return view(dtype, shape, -1, 2 * nbytes, random, free, signed=True)
    fast = random.randint(-len(shape), -1) if shape and free else -2
    return view(dtype, shape, fast, nbytes, random, free, signed=True)


def operand(form, dtype, rows, columns, result, random, free):
    """A view of an operand of an expression that broadcasts to the result; see Variant."""
    shape = {"row": columns, "column": rows + (1,) * len(columns), "scalar": (), "full": result}[form]
    nbytes = dtypes.parse(dtype, "dtype").nbytes
    if form != "full" or not free:
        return View(dtype, shape, contiguous_strides(shape), random.randrange(16 // nbytes) if free else 0)
    return view(dtype, shape, random.randint(-len(shape), -1) if shape else -1, nbytes, random, free, signed=True)


def scales(variant, a_shape, b_shape, random, free):
    """Views of what is `hidden` of a variant: scales of a and of b, zero points of rows of a, a scale of results.

    Columns of scales of b can be read in pairs where n is even.
    """
    of_out = (View("fp32", (), ()),) if variant.out_scaled else ()
    if variant.recipe is None:
        return of_out
    *a_batch, m, k = a_shape
    *b_batch, _, n = b_shape
    blocks = -(-k // 128)
    shapes = {
        "tensor": ((), ()),
        "row": ((*a_batch, m, 1), (*b_batch, 1, n)),
        "1x128_128x128": ((*a_batch, m, blocks), (*b_batch, blocks, -(-n // 128))),
        "1x128_1x128": ((*a_batch, m, blocks), (*b_batch, blocks, n)),
    }[variant.recipe]
    fast = (random.choice((-2, -1)) if variant.scales_blocks else -2, -1)
    of_columns = variant.recipe == "1x128_1x128" and variant.n_multiple % 2 == 0
    nbytes = (random.choice((4, 16)) if variant.scales_blocks else 4, random.choice((8, 16)) if of_columns else 4)
    found = tuple(
        view("fp32", shape, along, aligned, random, free, signed=True) if shape else View("fp32", (), ())
        for shape, along, aligned in zip(shapes, fast, nbytes, strict=True)
    )
    zeros = random.choice(((), (1, 1), (*a_shape[:-1], 1))) if free else (*a_shape[:-1], 1)
    zero = (view("int32", zeros, -2, 4, random, free, signed=True),) if variant.zero else ()
    return (*found, *zero, *of_out)
