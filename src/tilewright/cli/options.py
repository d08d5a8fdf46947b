"""The options that several commands share, and the meaning of their values."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import Gives
from tilewright.errors import ArgumentValueError, UnavailableError

if TYPE_CHECKING:
    from tilewright.hardware import Hardware
    from tilewright.measure.elements import Elements
    from tilewright.problem import OperandForm


class DTypeName(StrEnum):
    """Names of element types that need no scales, as `tilewright.dtypes` has them."""

    bf16 = "bf16"
    fp16 = "fp16"
    fp32 = "fp32"


class FactorName(StrEnum):
    """Names of the element types that A and B may have; fp8 is fp8_e4m3."""

    bf16 = "bf16"
    fp16 = "fp16"
    fp32 = "fp32"
    fp8 = "fp8"
    fp8_e4m3 = "fp8_e4m3"
    fp8_e5m2 = "fp8_e5m2"
    int8 = "int8"


class ResultName(StrEnum):
    """Names of the element types that results may have."""

    bf16 = "bf16"
    fp16 = "fp16"
    fp32 = "fp32"
    fp8_e4m3 = "fp8_e4m3"
    fp8_e5m2 = "fp8_e5m2"
    int32 = "int32"


class RecipeName(StrEnum):
    """What scales are for, as `tilewright.problem` has it."""

    tensor = "tensor"
    row = "row"
    a_lines_b_squares = "1x128_128x128"
    lines = "1x128_1x128"


class Layout(StrEnum):
    """The layout of A and B; t: transposed, so `nt` has B as (n, k), like a linear layer's weight."""

    nt = "nt"
    nn = "nn"
    tn = "tn"
    tt = "tt"


class ActivationName(StrEnum):
    """Names of activations, as `tilewright.problem` has them."""

    relu = "relu"
    gelu = "gelu"
    gelu_tanh = "gelu_tanh"
    silu = "silu"


class GateName(StrEnum):
    """Names of gates, as `tilewright.expression` has them."""

    interleaved = "interleaved"
    stacked = "stacked"


class BackendName(StrEnum):
    """The backend to run on."""

    auto = "auto"
    gpu = "gpu"
    emulator = "emulator"


class TensorCores(StrEnum):
    """How emulated tensor cores add, as `tilewright.emulator.Device` has it."""

    exact = "exact"
    hardware = "hardware"


_EXTENTS = "Rows of A, columns of B, and columns of A, which B has as rows; also as M,N,K, or one number for a cube."
_NAMES = Gives("m", "n", "k")
ShapeWords = Annotated[list[str], typer.Argument(metavar="M N K", help=_EXTENTS, show_default=False), _NAMES]
OptionalShapeWords = Annotated[
    list[str] | None, typer.Argument(metavar="[M N K]", help=_EXTENTS, show_default=False), _NAMES
]
DTypeOption = Annotated[DTypeName, typer.Option("--dtype", help="Element type of A and B.")]
LayoutOption = Annotated[
    Layout, typer.Option("--layout", help="How A and B are stored; t is transposed: nt has B as (n, k).")
]
OwnLayoutOption = Annotated[
    Layout | None,
    typer.Option(
        "--layout",
        help="How A and B are stored, t: transposed; by default nt, or the only one that a rung takes.",
        show_default=False,
    ),
]
ActivationOption = Annotated[
    ActivationName | None, typer.Option("--activation", help="Applied to the result.", show_default=False)
]
EpilogueOption = Annotated[
    str | None,
    typer.Option("--epilogue", help='What becomes of the sum, such as "gelu(acc + bias)".', show_default=False),
]
OperandOption = Annotated[
    list[str] | None,
    typer.Option(
        "--operand",
        help="An operand of --epilogue, NAME=SHAPE; SHAPE is n, m,1 or m,n, or 1 for a single number. Once for each.",
        show_default=False,
    ),
]
GateOption = Annotated[
    GateName | None,
    typer.Option(
        "--gate",
        help="Make one column of two, x and y, by --epilogue; without it, as x * y, or with an activation of x.",
        show_default=False,
    ),
]
OutputsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--outputs", help="Further outputs: acc, amax, column_sums, with commas, or once for each.", show_default=False
    ),
]
BackendOption = Annotated[BackendName, typer.Option("--backend", help="Where to run.")]
TensorCoresOption = Annotated[
    TensorCores,
    typer.Option("--tensor-cores", help="How the emulator adds products: in float32, or bit for bit as an H200."),
]
KernelOption = Annotated[str, typer.Option("--kernel", help="auto, or the name of a kernel or a rung.")]
AnyGpuOption = Annotated[
    str | None,
    typer.Option("--gpu", "--chip", help="The GPU, such as H20, here or not; by default this machine's, else H200."),
]
BatchOption = Annotated[int, typer.Option("--batch", help="So many products, each of an A and a B of its own.", min=1)]
BatchInvariantOption = Annotated[
    bool, typer.Option("--batch-invariant", help="Rows of the result must not depend on each other.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random operands.", min=0)]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", help="Compilations at once; by default one per core.", min=1, show_default=False),
]
ZeroOption = Annotated[bool, typer.Option("--zero-a", help="Give rows of an A of int8 zero points.")]
WithBias = Annotated[bool, typer.Option("--bias/--no-bias", help="With a vector along N.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@dataclass(frozen=True, slots=True)
class ElementOptions:
    """The element types of a product, the recipe of its scales, and how sums of fp8 are added."""

    dtype: Annotated[
        FactorName | None,
        typer.Option("--dtype", help="Element type of A and B.", show_default="bf16"),
        Gives("a"),
    ] = None
    b_dtype: Annotated[
        FactorName | None,
        typer.Option("--b-dtype", help="Element type of B, if it is another than A's.", show_default=False),
        Gives("b"),
    ] = None
    out_dtype: Annotated[
        ResultName | None,
        typer.Option(
            "--out-dtype",
            help="Element type of the result; by default A's, bf16 for fp8 and scaled int8, int32 for int8.",
            show_default=False,
        ),
        Gives("out"),
    ] = None
    recipe: Annotated[
        RecipeName | None,
        typer.Option("--recipe", help="What each scale of fp8 and int8 is for; by default all are 1.",
                     show_default=False),
    ] = None  # fmt: skip
    fast_accumulation: Annotated[
        bool, typer.Option("--fast-accumulation", help="Let sums of fp8 stay in tensor cores, which cut them.")
    ] = False

    def elements(self, usual: "Elements | None" = None) -> "Elements":
        """The Elements: without --dtype, what is not given is as in `usual`, by default bf16."""
        from tilewright import dtypes
        from tilewright.measure.elements import Elements

        if self.dtype is not None or usual is None:
            usual = Elements.of(dtypes.parse(self.dtype or "bf16", "--dtype"))
        b = usual.b if self.b_dtype is None else dtypes.parse(self.b_dtype, "--b-dtype")
        if self.dtype is None and (usual.a, b) not in dtypes.PRODUCTS:
            raise ArgumentValueError(f"--b-dtype={b} is not multiplied by {usual.a}, a's type here: give --dtype, too")
        recipe = usual.recipe if self.recipe is None else self.recipe.value
        same = (b, recipe) == (usual.b, usual.recipe)
        out = dtypes.by_name(self.out_dtype) or (usual.out if same else None)
        return Elements.of(usual.a, b, out, recipe, self.fast_accumulation or usual.fast_accumulation)


_FORMS = {"n": (False, True), "1,n": (False, True), "m,1": (True, False), "m,n": (True, True), "1": (False, False)}
"""Whether an operand of a shape has elements of its own for each row, and for each column."""


def expression_of(
    epilogue: str | None,
    operands: list[str] | None,
    gate: GateName | None,
    outputs: list[str] | None = None,
    *,
    bias: bool = False,
    activation: ActivationName | None = None,
    scaled: bool = False,
) -> dict[str, Any]:
    """The fields of a Product that --epilogue, --operand, --gate and --outputs say; none without them.

    scaled: whether --bias and --activation without them are an expression too, as beside scales.
    Raises a ValueError for a bad one, and for --bias or --activation beside an expression.
    """
    from tilewright.expression.grammar import parse
    from tilewright.expression.tree import finished_text

    if epilogue is None and gate is None and not outputs and not operands:
        if not scaled or not (bias or activation):
            return {}
        epilogue = finished_text(activation and activation.value, sums="acc + bias" if bias else "acc")
        operands, bias, activation = (["bias=n"] if bias else []), False, None

    if epilogue is None and operands:
        raise ArgumentValueError("--operand is read by an expression, and there is none: give --epilogue")
    if epilogue is None:
        epilogue, activation = finished_text(activation and activation.value, gate and gate.value), None
    if bias or activation is not None:
        raise ArgumentValueError(
            "with --epilogue, --gate or --outputs, an expression says what becomes of the sum: write --bias and "
            "--activation into --epilogue, such as 'relu(acc + bias)' with --operand bias=n"
        )
    forms = forms_of(operands)
    expression = parse(epilogue, list(forms), gate and gate.value)
    expression = expression._replace(outputs=outputs_of(",".join(outputs), "--outputs") if outputs else ())
    return {"expression": expression, "forms": tuple(forms[name] for name in expression.operands)}


def forms_of(operands: list[str] | None) -> "dict[str, OperandForm]":
    """What --operand says, by name; a ValueError for a bad one."""
    from tilewright.problem import OperandForm

    forms = {}
    for text in operands or ():
        name, _, shape = text.partition("=")
        if shape not in _FORMS:
            raise ArgumentValueError(
                f"--operand={text!r} names no shape: write NAME=SHAPE, with one of {'; '.join(_FORMS)} for SHAPE"
            )
        if name in forms:
            raise ArgumentValueError(f"--operand={text!r} has the name of another operand: give each name once")
        forms[name] = OperandForm(name, *_FORMS[shape])
    return forms


def outputs_of(text: str, option: str) -> tuple[str, ...]:
    """The further outputs that an option names, with commas; a ValueError for an unknown one, or one named twice."""
    from tilewright.expression.tree import OUTPUTS

    given = [name.strip() for name in text.split(",")]
    for name in given:
        if name not in OUTPUTS:
            raise ArgumentValueError(f"{option} has the output {name!r}, which is unknown: use {', '.join(OUTPUTS)}")
        if given.count(name) > 1:
            raise ArgumentValueError(f"{option} has the output {name!r} twice: give each once")
    return tuple(name for name in OUTPUTS if name in given)


def shape_of(words: list[str] | None) -> tuple[int, int, int] | None:
    """(m, n, k) of ShapeWords, or None if there are none; raises a ValueError for what is no shape."""
    return parse_shape(" ".join(words), "M N K") if words else None


def with_sums(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The shape; raises a ValueError if such a product has no sums."""
    if min(shape) < 1:
        raise ArgumentValueError(f"M N K are {shape}, so there are no sums: give extents of 1 or more")
    return shape


def planned_gpu(name: str) -> "Hardware":
    """The GPU that --gpu names, if the planner knows it when it is not there; an ArgumentValueError lists those."""
    from tilewright.hardware import GPUS, named
    from tilewright.model.chips import CHIPS

    found = named(name, "--gpu", CHIPS, tuple(GPUS)).gpu
    if found.name not in GPUS:
        raise ArgumentValueError(
            f"--gpu={name!r} is known to the models alone, which `explain`, `report`, `run` and `check` ask; kernels "
            f"for one that is not here are chosen for {', '.join(GPUS)}: use one of these, or that GPU itself"
        )
    return found


def emulated_gpu(name: str | None, backend: BackendName, elements: "Elements") -> "Hardware":
    """The GPU that the emulator stands in for: what --gpu names, if a kernel there can multiply them, or an H200."""
    from tilewright.hardware import H200

    if name is None:
        return H200
    if backend == BackendName.gpu:
        raise ArgumentValueError(
            f"--gpu={name!r} says which GPU is emulated, and --backend gpu takes the one that is here: leave one out"
        )
    from tilewright.explaining.explained import gpu_of, require_kernel

    gpu, _ = gpu_of(name, dtype=elements.a)
    require_kernel(gpu, elements.a)
    return gpu


def wants_gpu(backend: BackendName) -> bool:
    """Whether to run on a GPU; "auto" does if there is one, and "gpu" raises a RuntimeError if there is none."""
    from tilewright.api import gpu_count

    on_gpu = backend != BackendName.emulator and gpu_count() > 0
    if backend == BackendName.gpu and not on_gpu:
        raise UnavailableError(
            "--backend gpu needs an NVIDIA GPU with its driver, and none is usable here: leave --backend at auto, or "
            "see what `tilewright doctor` finds"
        )
    return on_gpu


def require_writable(option: str, path: Path | None) -> None:
    """Raise a ValueError, before any measurement, if a file could not be written."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise ArgumentValueError(f"{option}={path} is in a folder that does not exist: make it first")
    target = path.resolve()  # keeps a link
    there = target.exists()
    try:
        target.open("ab").close()
        if not there:
            target.unlink()
    except OSError as error:
        raise ArgumentValueError(f"{option}={path} cannot be written: {error.strerror}: name another file") from None


def require_plot(path: Path | None) -> None:
    """Raise an error, before any measurement, if --plot could not be drawn."""
    if path is not None:
        from tilewright.plots.style import require_matplotlib

        require_matplotlib(path)
        require_writable("--plot", path)


def parse_shape(text: str, option: str) -> tuple[int, int, int]:
    """(m, n, k) of "M,N,K", "MxNxK" or "M N K", or of a cube's "N" or "N^3"."""
    parts = re.split(r"\s*[,x]\s*|\s+", text.strip().lower())
    if len(parts) == 1:
        parts = [parts[0].removesuffix("^3")] * 3
    if len(parts) != 3 or not all(map(str.isdecimal, parts)):
        raise ArgumentValueError(
            f"{option}={text!r} is not a shape: write M,N,K of natural numbers, such as 512,2048,1024 or "
            "512x2048x1024, or 4096 for a cube"
        )
    if max(map(len, parts)) > 20:
        digits = max(map(len, parts))
        raise ArgumentValueError(f"{option} has an extent of {digits} digits, and no array is as large: give less")
    m, n, k = map(int, parts)
    return m, n, k


def hardware_of(arch: str) -> "Hardware":
    """A GPU with this architecture: sm_90a, or sm_ and any sufficient capability that NVRTC supports."""
    from tilewright.hardware import HOPPER, LEAST_CAPABILITY, standing_for
    from tilewright.jit.compile import compilable

    targets = [f"sm_{capability}" for capability in compilable() if capability >= LEAST_CAPABILITY]
    if "sm_90" in targets:
        targets.append(HOPPER)
    if arch not in targets:
        raise ArgumentValueError(
            f"--arch={arch!r} is not an architecture that tilewright and NVRTC know: use {', '.join(targets)}"
        )
    return standing_for(arch)
