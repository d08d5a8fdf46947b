"""The choice of a kernel and a Config for a problem, with the reason."""

import re
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError, warn
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Kernel, Launch, fields_of
from tilewright.kernels.registry import FEW_ROWS, KERNELS, considered, kernel_named
from tilewright.model.prediction import Power
from tilewright.planner import tuned
from tilewright.planner.column_sums import adding
from tilewright.planner.copies import Copied, copied
from tilewright.problem import Problem
from tilewright.rounding import round_up


class Choice(NamedTuple):
    """A kernel with its Config, and the problem as it solves it, maybe with copies.

    remarks: what the reason says besides kernel and Config. tuned: whether the Config was measured. compared: whether
    the model compared copies of operands with another kernel. asked: the argument that the caller chose with, if any.
    """

    kernel: Kernel
    config: Any
    remarks: tuple[str, ...]
    copied: Copied
    tuned: bool = False
    compared: bool = False
    asked: str = ""

    @property
    def reason(self) -> str:
        """The reason in one sentence."""
        kernel = self.kernel
        if self.asked:
            said = [f"{kernel.name}: asked for by {self.asked}"]
        else:
            said = [f"{kernel.name}: {kernel.summary}", kernel.remark(self.config)]
        return "; ".join(filter(None, (*said, *self.remarks)))

    def launches(self, hardware: Hardware) -> list[Launch]:
        """All launches, the kernel's own as the last, though sums of columns are added behind it."""
        problem = self.copied.problem
        beside = [*self.copied.launches(hardware), *adding(problem, hardware)]
        return [*beside, self.kernel.assemble(self.config, problem, hardware)]

    def seconds(self, hardware: Hardware, rows: int | None = None, power: Power = "recorded") -> float:
        """What the model says of all launches, or of so many rows; infinite for a kernel that it does not know.

        In the state `recorded`, it is what the planner ranks by.
        """
        problem = self.copied.problem if rows is None else self.copied.problem._replace(m=rows)
        predicted = self.kernel.predict(self.config, problem, hardware, power)
        return inf if predicted is None else predicted.seconds + self.copied.seconds(hardware)

    def by_rows(self, hardware: Hardware) -> Callable[[int], "Choice"]:
        """The Choice for each number of rows where the same kernel is chosen, by the model and without copies."""
        best = self.kernel.best_by_rows(self.copied.problem, hardware)
        return lambda rows: self._replace(config=best(rows))


def standing_for(rows: int) -> int:
    """The most rows of the products for which `choose` decides as for so many, unless there are few columns.

    `gemv` has tiles of 1, 2, 4, 8 and 16 rows, and those of all other kernels are multiples of 8.
    """
    return 1 << (rows - 1).bit_length() if rows <= FEW_ROWS else round_up(rows, 8)


def choose(
    problem: Problem, hardware: Hardware, *, kernel: str = "auto", config: Any = None, measured: bool = True,
    quiet: bool = False,
) -> Choice:  # fmt: skip
    """Choose for a problem on a GPU; `kernel` and `config` override. A tuned Config comes first, if `measured`.

    Kernels are considered in order of preference, and the first that takes the problem is chosen. If one before it
    would take it with copies of operands, or contends, the model decides between them, unless the problem is
    batch-invariant: then no number of rows and no layout of a leads to another kernel. What was measured is not left to
    the model. quiet: log no warning. Raises ValueError if the override does not exist or does not
    fit, and NotImplementedError if no kernel takes the problem.
    """
    if kernel != "auto":
        return _forced(problem, hardware, kernel, config)
    if config is not None:
        name, *others = _kernels_of(config)
        if others:
            raise ArgumentValueError(f"config={config!r} fits {', '.join([name, *others])}: say which with kernel=")
        return _forced(problem, hardware, name, config, named=False)
    offers: list[Choice] = []
    refusals: list[str] = []
    for candidate, copies in asked(problem, hardware):
        if copies is not None:
            offers.append(_offer(candidate, problem, copies, hardware, refusals, measured))
        if refusal := candidate.refuses(problem, hardware):
            refusals.append(f"{candidate.name} does not take it: {refusal}")
    if not offers:
        raise UnsupportedError(f"no kernel takes {problem} on {hardware.name}: " + "; ".join(refusals))
    best = next((offer for offer in offers if offer.tuned), None)
    if best is None:
        rows = problem.m if problem.n <= FEW_ROWS else standing_for(problem.m)
        best = min(offers, key=lambda offer: offer.seconds(hardware, rows)) if len(offers) > 1 else offers[0]
    copying = [offer for offer in offers if offer.copied.copies]
    if quiet:
        pass
    elif best.copied.copies:
        _notice(best.copied.remark(hardware))
    elif best is offers[-1]:
        for offer in copying:
            _notice(f"{offer.kernel.name} does not take it: {offer.copied.reasons[0]}; the next kernel is slower")
    return best._replace(compared=bool(copying) and len(offers) > 1)


def asked(problem: Problem, hardware: Hardware) -> Iterator[tuple[Kernel, Copied | None]]:
    """The kernels that `choose` asks, in its order, and the problem as each takes it; None if it does not."""
    for kernel in considered(problem):
        taken = copied(problem, kernel, hardware)
        yield kernel, taken
        # With batch_invariant, another kernel would add in another order.
        if taken is not None and (problem.batch_invariant or not (taken.copies or kernel.contends)):
            return


def _offer(
    kernel: Kernel, problem: Problem, copies: Copied, hardware: Hardware, refusals: Sequence[str], measured: bool
) -> Choice:
    """The Choice of a kernel that takes the problem, maybe after copies; `refusals`: of the kernels before it."""
    found = tuned.best(problem, copies.problem, hardware, kernel.name) if measured else None
    config, origin = found or (kernel.best(copies.problem, hardware), "")
    return Choice(kernel, config, (origin, copies.remark(hardware), *refusals), copies, bool(origin))


_noticed: set[str] = set()
"""The messages that were logged, without their numbers."""


def _notice(message: str) -> None:
    """Log a warning, unless one was logged that differs in its numbers alone: a ragged batch would bring many."""
    kind = re.sub(r"\d+", "", message)
    if kind not in _noticed:
        _noticed.add(kind)
        warn(message)


def check_names(kernel: str, config: Any) -> None:
    """Raise if `kernel` or `config` is not in the registry, whatever the problem."""
    if kernel != "auto":
        kernel_named(kernel, "kernel", "'auto'")
    if config is not None:
        _kernels_of(config)


def _kernels_of(config: Any) -> list[str]:
    """The kernels that take Configs of this type: one, or several rungs of the ladder."""
    from tilewright.kernels.registry import EVERY_KERNEL  # late: it imports the ladder

    found = [name for name, kernel in EVERY_KERNEL.items() if isinstance(config, kernel.config_type)]
    if not found:
        types = dict.fromkeys(kernel.config_type for kernel in EVERY_KERNEL.values() if fields_of(kernel.config_type))
        known = ", ".join(f"tilewright.{each.__name__}" for each in types)
        raise ArgumentTypeError(f"config={config!r} is not a Config of any kernel: pass one of {known}")
    return found


def _forced(problem: Problem, hardware: Hardware, name: str, config: Any, named: bool = True) -> Choice:
    """The kernel that was asked for; `named`: with kernel=, and not by the type of `config` alone."""
    kernel = kernel_named(name, "kernel", "'auto'")
    copies = copied(problem, kernel, hardware)
    if copies is None or (copies.copies and name not in KERNELS):  # a rung is as it is
        refusal = kernel.refuses(problem, hardware)
        if named:
            raise ArgumentValueError(
                f"kernel={name!r} does not take {problem} on {hardware.name}: {refusal}; use kernel='auto'"
            )
        raise ArgumentValueError(
            f"config={config!r} is for kernel {name!r}, which does not take {problem} on {hardware.name}: {refusal}; "
            f"leave config out"
        )
    asked = "kernel=" if config is None else "config="
    if config is None:
        config = kernel.best(copies.problem, hardware)
    else:
        kernel.check(config, copies.problem, hardware)
    return Choice(kernel, config, (copies.remark(hardware),), copies, asked=asked)
