"""What each kernel takes: element types, scales, layouts and architectures, as the kernels themselves answer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright import dtypes
from tilewright.checking.product import Product, suited, whole_tiles
from tilewright.expression.tree import ZERO
from tilewright.hardware import GPUS, standing_for
from tilewright.kernels.kernel import Kernel
from tilewright.measure.elements import Elements
from tilewright.planner.copies import Copied, copied
from tilewright.planner.scaling import SCALED
from tilewright.problem import FAST, cuts_k

ARCHITECTURES = ("sm_70", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
"""One of each generation that NVRTC compiles for, or did."""
LAYOUTS = ("nt", "nn", "tn", "tt")
NO_SCALES = "none"

_FIRST = ("bf16", "fp16", "fp32")
"""The element types of records that name none: those that there were."""
_EACH_WITH_EACH = tuple(str(Elements.of(a, b)) for a in dtypes.FP8 for b in dtypes.FP8)


class Support(NamedTuple):
    """Products that a kernel takes in the same layouts on the same architectures.

    types: of A and B; scales: recipes, NO_SCALES among them, those with `fast` behind them with fast accumulation and
    those with `zero_a` with zero points of A.
    cases: how many generated products of a kernel and types came out right on a GPU; 0 if only the emulator ran them.
    """

    kernel: str
    types: tuple[str, ...]
    scales: tuple[str, ...]
    layouts: tuple[str, ...]
    architectures: tuple[str, ...]
    cases: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()

    @property
    def types_text(self) -> str:
        """The types; all pairs of fp8 in few words."""
        if self.types == _EACH_WITH_EACH:
            return f"{', '.join(kind.name for kind in dtypes.FP8)}, each with each"
        return ", ".join(self.types)


def support(kernel: Kernel, record: Mapping[str, Any] | None = None) -> list[Support]:
    """What a kernel takes without copies of operands; `record` is that of the last GPU run, for `cases`."""
    scales: dict[tuple[Elements, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    usual: dict[Elements, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for elements in _questions():
        found = usual[elements] = list(_answers(kernel, elements))
        if elements.fast_accumulation and found == usual[elements._replace(fast_accumulation=False)]:
            continue  # it makes no difference to what is taken
        text = " ".join([elements.recipe or NO_SCALES, *([FAST] if elements.fast_accumulation else [])])
        types = Elements.of(elements.a, elements.b)
        for layouts, architectures in found:
            scales.setdefault((types, layouts, architectures), []).append(text)
        if elements.a is dtypes.int8 and elements.recipe is not None:
            for layouts, architectures in _answers(kernel, elements, zero_a=True):
                scales.setdefault((types, layouts, architectures), []).append(f"{text} {ZERO}")
    rows: dict[tuple[Any, ...], list[str]] = {}
    for (kinds, layouts, architectures), texts in scales.items():
        key = (tuple(texts), layouts, architectures, _cases(kernel, kinds.a.name, architectures, record))
        rows.setdefault(key, []).append(str(kinds).removesuffix(f" -> {kinds.out}"))
    return [Support(kernel.name, tuple(names), *key) for key, names in rows.items()]


def _questions() -> Iterator[Elements]:
    """The elements of all products, each with every type of result; those without fast accumulation come first."""
    for a, b in dtypes.PRODUCTS:
        for recipe in (None, *SCALED.get(a, ())):
            elements = Elements.of(a, b, None, recipe)
            yield elements
            if a in dtypes.FP8 and not cuts_k(recipe):
                yield elements._replace(fast_accumulation=True)


def _answers(
    kernel: Kernel, elements: Elements, zero_a: bool = False
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The layouts that a kernel takes, with the architectures where it takes these; zero_a: with zero points of A."""
    taken: dict[str, list[str]] = {arch: [] for arch in ARCHITECTURES}
    shape, *_ = whole_tiles(kernel) or [suited((16, 128, 128), kernel)]
    results = dtypes.results(elements.a, elements.b, scaled=elements.recipe is not None)
    for layout in LAYOUTS:
        problems = [
            Product(
                *shape,
                elements.a,
                out,
                layout,
                b_dtype=elements.b,
                recipe=elements.recipe,
                fast_accumulation=elements.fast_accumulation,
                zero_a=zero_a,
            ).problem
            for out in results
        ]
        for arch, layouts in taken.items():
            hardware = standing_for(arch)
            made = [copied(problem, kernel, hardware) for problem in problems]
            if any(isinstance(each, Copied) and not each.offsets for each in made):
                layouts.append(layout)
    for alike in dict.fromkeys(tuple(found) for found in taken.values() if found):
        yield alike, tuple(arch for arch, found in taken.items() if tuple(found) == alike)


def _cases(kernel: Kernel, dtype: str, architectures: Sequence[str], record: Mapping[str, Any] | None) -> int:
    """How many cases of a kernel the record has, if its GPU and the type of A are among them."""
    if record is None or GPUS[record["gpu"]].arch not in architectures:
        return 0
    verified = record["dtypes"].get(kernel.name, ()) if "dtypes" in record else _FIRST
    cases: int = record["cases"].get(kernel.name, 0) if dtype in verified else 0
    return cases
