"""From a shape of the command line to a Problem, and operands without memory."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tilewright.cli.options import ActivationName, ElementOptions, expression_of
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.bench.inputs import Shape
    from tilewright.measure.elements import Elements
    from tilewright.operand import Spec
    from tilewright.problem import Problem


def problem_of(
    shape: "Shape",
    bias: bool,
    activation: ActivationName | None,
    said: Mapping[str, Any] | None = None,
    *,
    scales_out: bool = False,
) -> "Problem":
    """The Problem that a call with aligned operands of this shape and layout poses; raises what such a call raises.

    said: an expression and its forms as `expression_of` has them, beside which are no bias and no activation.
    scales_out: whether a result of fp8 has a scale.
    """
    from tilewright.operand import spec
    from tilewright.planner import expressions
    from tilewright.planner.request import bound, with_result
    from tilewright.planner.scaling import Scaling
    from tilewright.problem import operand_names

    elements, m, n, k = shape.elements, shape.m, shape.n, shape.k
    a = stored((m, k), elements.a.name, shape.layout[0])
    b = stored((k, n), elements.b.name, shape.layout[1])
    of_sums = elements.beside.name if elements.out.kind == "float" else "fp32"
    added = spec((n,), of_sums) if bias else None
    function = None if activation is None else activation.value
    scale_out = spec((), "fp32") if scales_out else None
    scaling = Scaling(elements.recipe, **scales(elements, m, n, k), scale_out=scale_out)
    epilogue = arguments_of(said or {}, (m,), n, of_sums)
    expression, arrays = expressions.expression_of(
        **epilogue, activation=function, scaling=scaling, c=None, beta=None, bias=added
    )
    if expression is not None:
        added = function = None  # they are in it
    columns = n // 2 if expression is not None and expression.gate else n
    out = spec((m, columns), elements.out.name)
    given = zip(operand_names(expression), (a, b, None, added, out, *arrays), strict=True)
    operands = {name: each.operand(place) for place, (name, each) in enumerate(given) if each is not None}
    return bound(
        with_result(operands, None, expression), activation=function, expression=expression, alpha=1.0,
        batch_invariant=False, fast_accumulation=elements.fast_accumulation,
    ).problem  # fmt: skip


def arguments_of(said: Mapping[str, Any], rows: tuple[int, ...], n: int, dtype: str) -> dict[str, Any]:
    """`epilogue`, `operands`, `gate` and `outputs` as `plan` takes them, Specs of this type; None if none is said.

    said: an expression and its forms, as `expression_of` has them. rows: m, behind the batches.
    """
    from tilewright.operand import spec

    if not said:
        return dict.fromkeys(("epilogue", "operands", "gate", "outputs"))
    expression = said["expression"]
    columns = n // 2 if expression.gate else n
    outputs = {"acc": spec((*rows, n), dtype), "amax": spec((1,), "fp32"), "column_sums": spec((columns,), "fp32")}
    return {
        "epilogue": expression.text,
        "operands": {form.name: spec(form.shape(rows[-1], columns), dtype) for form in said["forms"]} or None,
        "gate": expression.gate,
        "outputs": {name: outputs[name] for name in expression.outputs} or None,
    }


def require_elements(elements: "Elements") -> None:
    """Raise what a call with such elements raises; it names the options."""
    from tilewright.bench.inputs import Shape

    problem_of(Shape(2, 2, 2, str(elements)), bias=False, activation=None)


def elements_for(types: ElementOptions, kernel: str) -> "Elements":
    """The Elements of a product for a kernel, by default bf16.

    Raises an ArgumentValueError if that is the default, and the kernel is named and does not multiply it.
    """
    elements = types.elements()
    if types.dtype is None and types.b_dtype is None and kernel != "auto":
        from tilewright.checking.product import NotTaken, first_accepted, suited, whole_tiles
        from tilewright.hardware import H200
        from tilewright.kernels.registry import kernel_named

        named = kernel_named(kernel, "--kernel", "'auto'")
        with suppress(NotTaken):  # the planner says why
            taken = first_accepted(named, H200, [*whole_tiles(named), suited((64, 64, 64), named)]).dtype
            if taken is not elements.a:
                raise ArgumentValueError(
                    f"--kernel={kernel!r} does not multiply {elements.a}, the default of --dtype: give --dtype {taken}"
                )
    return elements


def epilogue_of(
    elements: "Elements | None", *said: Any, bias: bool, activation: ActivationName | None
) -> dict[str, Any]:
    """What a Product of these elements has of the epilogue: an expression, else a bias and an activation.

    said: --epilogue, --operand, --gate and --outputs. Raises what `expression_of` raises.
    """
    from tilewright.dtypes import FP8

    scaled = elements is not None and (elements.recipe is not None or elements.out in FP8)
    found = expression_of(*said, bias=bias, activation=activation, scaled=scaled)
    return found or ({} if scaled else {"bias": bias, "activation": activation and activation.value})


def scales(elements: "Elements", m: int, n: int, k: int) -> dict[str, Any]:
    """The scales of a product, Specs by the names that `plan` has for them; none without a recipe."""
    from tilewright.operand import spec
    from tilewright.problem import RECIPES

    if elements.recipe is None:
        return {}
    of_a, of_b = RECIPES[elements.recipe]
    return {"scale_a": spec(of_a.shape(m, k), "fp32"), "scale_b": spec(of_b.shape(k, n), "fp32")}


def stored(shape: tuple[int, ...], dtype: str, letter: str) -> "Spec":
    """An operand that is stored as a letter of layouts says, or a batch of such."""
    from tilewright.measure.layouts import place_of
    from tilewright.operand import contiguous_strides, spec

    *batches, rows, columns = shape
    extents, strides = place_of(letter, rows, columns)
    *others, _, _ = contiguous_strides((*batches, *extents))
    return spec(shape, dtype, (*others, *strides))
