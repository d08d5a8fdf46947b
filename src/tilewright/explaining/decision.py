"""The planner's way to a kernel, in sentences."""

from collections.abc import Sequence
from math import inf
from typing import Any

from tilewright.dtypes import fp32
from tilewright.explaining.screen import us
from tilewright.hardware import Hardware
from tilewright.model.ranking import correction
from tilewright.planner.choose import Choice, published
from tilewright.planner.choose import asked as asked_kernels
from tilewright.planner.copies import Copied
from tilewright.problem import Problem

EVERY = 10_000
"""More Configs than any kernel offers."""


def decision(problem: Problem, hardware: Hardware, choice: Choice, asked: bool) -> tuple[str, ...]:
    """The branches that led to a choice, and a published rule beside it; asked: whether kernel= or config= named it."""
    if asked:
        return choice.reason, _tree(problem)
    unit = "CUDA cores, which multiply in IEEE arithmetic" if problem.a.dtype is fp32 else "tensor cores"
    steps = [f"{problem.a.dtype} takes {unit}"]
    for kernel, taken in asked_kernels(problem, hardware):
        if not isinstance(taken, Copied):
            steps.append(f"{kernel.name} does not take it: {taken}")
        elif kernel is choice.kernel:
            steps.append(_taken(choice, hardware))
        else:
            rival = Choice(kernel, kernel.best(taken.problem, hardware), taken)
            wanted = f"; it would {taken.wanted()}" if taken.copies else ""
            steps.append(f"{kernel.name} contends, {_ranked(rival, hardware)}{wanted}")
    steps.append(_config(choice, hardware))
    kernel = choice.kernel
    if not choice.tuned and (kernel.unit == "wgmma" or kernel.contends):
        steps.append(
            "ranked times only choose, and may be a third off: the next best are compared by them, and all other "
            "times below are of a model made to predict"
        )
    return (*steps, _tree(problem))


def _taken(choice: Choice, hardware: Hardware) -> str:
    return "; ".join([f"{choice.kernel.name} takes it, {_ranked(choice, hardware)}", *choice.copied.remarks(hardware)])


def _ranked(choice: Choice, hardware: Hardware) -> str:
    """What the model that ranks says, which is for choosing."""
    seconds = choice.compared_seconds(hardware)
    return f"ranked at {us(seconds * 1e6)} us" if seconds < inf else "and no model knows its time"


def _config(choice: Choice, hardware: Hardware) -> str:
    if choice.tuned:
        return "a table has its Config, which was measured to be the quickest"
    kernel, problem = choice.kernel, choice.copied.problem
    candidates = kernel.candidates(problem, hardware, EVERY)
    count = len(candidates)
    remark: Any = kernel.remark(choice.config)
    some = f"the {correction.NEAREST} quickest" if kernel.unit == "wgmma" else "all"
    corrected = f" measured launches correct {some}," if kernel.corrects(problem, hardware) else ""
    least = f"a model gives each of {count} Configs its time,{corrected} and the least wins"
    if count == 1:
        least = "it has one Config"
    epilogue, expression = problem.epilogue, problem.epilogue.expression
    if expression is not None and epilogue.sums_columns and not _splits(candidates):
        others = epilogue._replace(expression=expression._replace(outputs=()), outputs=())
        if _splits(kernel.candidates(problem._replace(epilogue=others), hardware, EVERY)):
            least += "; none splits k, since column_sums are of whole tiles"
    return f"{least}; it {remark}" if remark else least


def _splits(configs: Sequence[Any]) -> bool:
    """Whether a Config splits k."""
    return any(getattr(config, "split_k", 1) > 1 for config in configs)


def _tree(problem: Problem) -> str:
    return f"{published(problem)}; docs/choosing.md judges it by measurements"
