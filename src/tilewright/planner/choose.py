"""The choice of a kernel and a Config for a problem, with the reason."""

import re
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

from tilewright.errors import ArgumentTypeError, ArgumentValueError, TilewrightError, UnsupportedError, warn
from tilewright.hardware import Hardware
from tilewright.kernels.config_fields import brief, fields_of
from tilewright.kernels.kernel import ConfigError, Kernel, Launch
from tilewright.kernels.refusal import Refusal
from tilewright.kernels.registry import FEW_ROWS, KERNELS, considered, few_rows, kernel_named
from tilewright.model.prediction import Power
from tilewright.planner import tuned
from tilewright.planner.column_sums import adding
from tilewright.planner.copies import Copied, copied
from tilewright.planner.tuned_table import Entry
from tilewright.problem import Problem
from tilewright.rounding import round_up

THIN, DEEP = 64, 4
"""The thresholds of a published decision tree ("GEMM in depth", chapter 9): thin below so many rows or columns, and
stream-K if k is more than so many times the smaller extent."""


class Choice(NamedTuple):
    """A kernel with its Config, and the problem as it solves it, maybe with copies.

    origin: where the Config was measured, if it was. copying: why there are copies, and what they cost. refusals: why
    the kernels before it do not take the problem as it is. asked: the argument that the caller chose with, if any.
    """

    kernel: Kernel
    config: Any
    copied: Copied
    origin: str = ""
    copying: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    asked: str = ""

    @property
    def tuned(self) -> bool:
        """Whether the Config was measured."""
        return bool(self.origin)

    @property
    def reason(self) -> str:
        """The reason in one sentence."""
        return "; ".join(self.reasons)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Its parts, of which the first names the kernel.

        The last is no reason: it is what a published decision tree says of the product, beside what was chosen. It is
        left out if a kernel was asked for.
        """
        return self.reasons_for(self.copied.problem)

    def reasons_for(self, problem: Problem) -> tuple[str, ...]:
        """Those for a problem that differs in m at most."""
        kernel = self.kernel
        if self.asked:
            return (f"{kernel.name}: asked for by {self.asked}", *self.copying)
        said = f"{kernel.name}: {kernel.summary}", kernel.remark(self.config), self.origin
        return tuple(filter(None, (*said, *self.copying, *self.refusals, published(problem))))

    def launches(self, hardware: Hardware) -> list[Launch]:
        """All launches, the kernel's own as the last, though sums of columns are added behind it.

        Raises an UnsupportedError for a product that is too large for them.
        """
        problem = self.copied.problem
        try:
            beside = [*self.copied.launches(hardware), *adding(problem, hardware)]
            return [*beside, self.kernel.assemble(self.config, problem, hardware)]
        except ConfigError as error:
            raise self._refusal(error) from None

    def check(self, hardware: Hardware) -> Any:
        """The Constants of its Config; raises as `launches` does."""
        try:
            return self.kernel.check(self.config, self.copied.problem, hardware)
        except ConfigError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: ConfigError) -> TilewrightError:
        """The error about a Config, or one about the product if no caller gave that Config."""
        if self.asked == "config=":
            return error
        return UnsupportedError(
            f"the product of a and b is too large for {self.kernel.name} with {brief(self.config)}, which the planner "
            f"chose: {error.fault}"
        )

    def seconds(self, hardware: Hardware, power: Power = "recorded") -> float:
        """What the model says of all launches; infinite for a kernel that it does not know.

        In the state `recorded`, it is what the planner ranks by.
        """
        kernel, copied = self.kernel, self.copied
        if power == "recorded":
            return kernel.ranked_seconds(self.config, copied.problem, hardware) + copied.ranked_seconds(hardware)
        predicted = kernel.predict(self.config, copied.problem, hardware, power)
        return inf if predicted is None else predicted.seconds + copied.seconds(hardware)

    def compared_seconds(self, hardware: Hardware) -> float:
        """What the planner compares with other kernels: the least that the model says of this one, uncorrected.

        Of a Config that is not the kernel's own choice, it is what the planner ranks by.
        """
        kernel, copied = self.kernel, self.copied
        if self.tuned or self.config != kernel.best(copied.problem, hardware):
            return self.seconds(hardware)
        return Offer(kernel, copied, ()).seconds(copied.problem.m, hardware)

    def resized(self, problem: Problem, hardware: Hardware) -> "Choice | None":
        """The choice for a problem that differs in m, or in distances of scales that change along k.

        `choose` decides alike about both. None as in `copying`.
        """
        if not self.copied.copies:
            return self._replace(copied=Copied(problem))
        copied = self.copied.resized(problem)
        return copied and self._replace(copied=copied, copying=copied.remarks(hardware))


def published(problem: Problem) -> str:
    """What the published decision tree, which decides nothing here, says of a product, with its threshold."""
    least = min(problem.m, problem.n)
    if least == 1:
        said = "a GEMV, since m or n is 1"
    elif least < THIN:
        said = f"a thin kernel, since min(m, n) < {THIN}"
    elif problem.k > DEEP * least:
        said = f"stream-K, since k > {DEEP} min(m, n)"
    else:
        said = f"a tiled GEMM, since min(m, n) >= {THIN} and k <= {DEEP} min(m, n)"
    return f"for comparison, a published decision tree would take {said}"


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
    return Offers.of(problem, hardware).choice(problem, hardware, measured=measured, quiet=quiet)


class Offer(NamedTuple):
    """A kernel that takes a problem, maybe with copies; refusals: why those before it do not take it as it is."""

    kernel: Kernel
    copied: Copied
    refusals: tuple[str, ...]

    def seconds(self, rows: int, hardware: Hardware) -> float:
        """What the model says of so many rows, with the copies."""
        seconds = self.kernel.best_seconds(self.copied.problem._replace(m=rows), hardware)
        return seconds + self.copied.ranked_seconds(hardware, rows)


class Offers(NamedTuple):
    """What a product is chosen from, in order of preference: the same whatever its m, up to `few_rows` or above.

    follow: whether that is so; where copies would take too much memory, it is not.
    """

    offers: tuple[Offer, ...]
    follow: bool

    @classmethod
    def of(cls, problem: Problem, hardware: Hardware) -> "Offers":
        """Those for a problem; raises as `choose` does."""
        offers: list[Offer] = []
        refusals: list[str] = []
        reasons: dict[str, list[str]] = {}
        follow = True
        for kernel, taken in asked(problem, hardware):
            if isinstance(taken, Copied):
                offers.append(Offer(kernel, taken, tuple(refusals)))
                if taken.copies:
                    refusals.append(f"{kernel.name} would {taken.wanted()}")
            else:
                refusals.append(f"{kernel.name} does not take it: {taken}")
                reasons.setdefault(str(taken), []).append(kernel.name)
                follow = follow and not taken.operand
        if not offers:
            raise UnsupportedError(f"no kernel takes {problem} on {hardware.name}: {_each_once(reasons)}")
        return cls(tuple(offers), follow)

    def resized(self, problem: Problem) -> "Offers | None":
        """Those for a problem that differs in m; None if they are others."""
        if not self.follow:
            return None
        resized = []
        for kernel, before, refusals in self.offers:
            if (copied := before.resized(problem)) is None:
                return None
            resized.append(Offer(kernel, copied, refusals))
        return Offers(tuple(resized), True)

    def choice(self, problem: Problem, hardware: Hardware, *, measured: bool = True, quiet: bool = False) -> Choice:
        """The best for the problem; the rest is as in `choose`."""
        found = self._measured(problem, hardware) if measured else None
        offer, config, origin = found or self._modeled(problem, hardware)
        choice = Choice(offer.kernel, config, offer.copied, origin, offer.copied.remarks(hardware), offer.refusals)
        if not quiet:
            self._warn(choice)
        return choice

    def entry(self, problem: Problem, hardware: Hardware) -> Entry | None:
        """What the tables say first that one of these can use."""
        solved = {offer.kernel.name: offer.copied.problem for offer in self.offers}
        return tuned.best(problem, solved, hardware)

    def _measured(self, problem: Problem, hardware: Hardware) -> tuple[Offer, Any, str] | None:
        """The offer that a table has a Config of, with that and its reason."""
        if (entry := self.entry(problem, hardware)) is None:
            return None
        offer = next(each for each in self.offers if each.kernel.name == entry.kernel)
        return offer, entry.made_config(), f"tuned for {entry.m} rows"

    def _modeled(self, problem: Problem, hardware: Hardware) -> tuple[Offer, Any, str]:
        """The offer that the model says is the quickest, with its Config."""
        rows = problem.m if problem.n <= few_rows(problem.a.dtype) else standing_for(problem.m)
        offer = self.offers[0]
        if len(self.offers) > 1:
            offer = min(self.offers, key=lambda each: each.seconds(rows, hardware))
        return offer, offer.kernel.best(offer.copied.problem._replace(m=rows), hardware), ""

    def _warn(self, choice: Choice) -> None:
        """Log what is slower than it need be: copies, or the last kernel in place of copies."""
        if choice.copied.repacking is not None:
            _notice("; ".join(choice.copying))
        elif choice.kernel is self.offers[-1].kernel:
            for kernel, copied, _ in self.offers:
                if copied.repacking is not None:
                    _notice(
                        f"{choice.kernel.name} runs in place of {kernel.name}, since {copied.reasons[0]}; "
                        f"operands that need no copy are quicker"
                    )


def exact_entry(problem: Problem, hardware: Hardware) -> Entry | None:
    """The entry that `choose` takes for a problem, if it was measured with as many rows."""
    try:
        entry = Offers.of(problem, hardware).entry(problem, hardware)
    except UnsupportedError:
        return None
    return entry if entry is not None and entry.m == problem.m else None


def _each_once(kernels: Mapping[str, list[str]]) -> str:
    """By reason, the kernels that refuse a product for it; a reason that several share comes first."""
    shared_first = sorted(kernels.items(), key=lambda item: -len(item[1]))
    return "; ".join(
        f"{' and '.join(names)} {'do' if len(names) > 1 else 'does'} not take it: {reason}"
        for reason, names in shared_first
    )


def asked(problem: Problem, hardware: Hardware) -> Iterator[tuple[Kernel, Copied | Refusal]]:
    """The kernels that `choose` asks, in its order, and the problem as each takes it, or why it does not."""
    for kernel in considered(problem):
        taken = copied(problem, kernel, hardware)
        yield kernel, taken
        # With batch_invariant, another kernel would add in another order.
        if isinstance(taken, Copied) and (problem.batch_invariant or not (taken.copies or kernel.contends)):
            return


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
    if isinstance(copies, Refusal) or (copies.copies and name not in KERNELS):  # a rung is as it is
        refusal = copies if isinstance(copies, Refusal) else kernel.refuses(problem, hardware)
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
    return Choice(kernel, config, copies, copying=copies.remarks(hardware), asked=asked)
