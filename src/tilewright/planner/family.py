"""Families of products that differ in their number of rows alone: from one's Plan, another's is quickly made.

A server multiplies with another number of rows at every step. The form of a call's arrays names its family, and what
was checked, bound and chosen for one member holds for the others. Scales of blocks of a may lie apart as they like, and
those that `quantize` makes do so by the number of rows: kernels read their distances with their addresses.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from tilewright.arrays import adopt
from tilewright.backends.protocol import Backend, Executable
from tilewright.expression.tree import SCALES
from tilewright.jit.cache import in_memory
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.kernel import Kernel, Launch
from tilewright.kernels.registry import FEW_ROWS, few_rows
from tilewright.planner import tuned
from tilewright.planner.call_arguments import Arrays, stream_handle
from tilewright.planner.choose import Choice, Offers, standing_for
from tilewright.planner.form import Form
from tilewright.planner.plan import Plan, Prepared
from tilewright.planner.request import Request
from tilewright.planner.slots import OUT, A, Slot
from tilewright.planner.tuned_table import Table
from tilewright.problem import Problem

MOST = 256
"""The most families that are kept."""

MOST_CHOICES = 4096
"""The most choices, and the most launches and numbers of rows, of a family that are kept."""

_WITHOUT_ROWS = ("b", SCALES[1])
"""The operands that have no rows of the result, even if they have as many rows as it."""


class Member(NamedTuple):
    """A call as one of a family: `family` names what it shares with the others, and `rows` is its own.

    apart: the position of its scales of blocks of a, whose strides are its own, too.
    """

    family: Hashable
    rows: int
    call: Arrays
    apart: int | None = None

    @classmethod
    def of(cls, call: Arrays, options: Hashable = None) -> "Member | None":
        """The member that a call is; None if its arrays do not show which dimension is m.

        a is 2-D with two rows or more; out and others have as many, or those have one row for all, or are numbers.
        options: what else a Plan depends on.
        """
        arrays, signatures, pointers, names = call
        rows, apart, forms = 0, None, [options]
        for position, signature in enumerate(signatures):
            if signature is None:
                forms.append(None)
                continue
            dtype, shape, strides, device, writable = signature
            extents: tuple[int | None, ...] = shape
            if position == A:
                rows = shape[0] if len(shape) == 2 else 0
                if rows < 2:
                    return None
            if names[position] not in _WITHOUT_ROWS:
                if len(shape) == 2 and shape[0] == rows:
                    extents = (None, shape[1])
                    if names[position] == SCALES[0] and shape[1] > 1:
                        apart, strides = position, ()
                elif position == OUT or not (len(shape) < 2 or (len(shape) == 2 and shape[0] == 1)):
                    return None
            pointer = pointers[position]
            alignment = pointer & -pointer & 15
            forms.append((type(arrays[position]), dtype, extents, strides, device, writable, alignment))
        return cls(tuple(forms), rows, call, apart)


class _Known:
    """What is known of the choices of a family while the tuned tables are these.

    measured: the numbers of rows that tables have entries for. choices: by what `choose` decides alike, with the
    launches of each. offers: what is chosen from, of few rows or columns (True) and of others.
    """

    def __init__(self, tables: tuple[Table, ...], measured: frozenset[int]):
        self.tables, self.measured = tables, measured
        self.choices: dict[tuple[int, int], tuple[Choice, ConfigLaunches]] = {}
        self.offers: dict[bool, Offers] = {}


class _Row(NamedTuple):
    """A slot of a family, and how the bytes that its elements span grow with the number of rows.

    low, high: of one row, from the address on. before, after: of each further row, 0 if it has no rows of the result.
    """

    position: int
    low: int
    high: int
    before: int
    after: int
    slot: Slot
    has_rows: bool

    @classmethod
    def of(cls, slot: Slot, has_rows: bool) -> "_Row":
        """That of a slot of any number of rows."""
        if not has_rows:
            return cls(slot.position, *slot.bounds(), 0, 0, slot, False)
        step = slot.strides[0] * slot.dtype.nbytes
        one = slot._replace(shape=(1, slot.shape[1]))
        return cls(slot.position, *one.bounds(), min(step, 0), max(step, 0), slot, True)

    def resized(self, rows: int) -> Slot:
        """The slot of so many rows."""
        if not self.has_rows:
            return self.slot
        position, (kind, _, steps, device, writable), alignment, shape, strides, dtype = self.slot
        shape = rows, shape[1]
        return Slot(position, (kind, shape, steps, device, writable), alignment, shape, strides, dtype)


class LoadedLaunch(NamedTuple):
    """A launch whose kernel is loaded."""

    launch: Launch
    compiled: CompiledKernel
    executable: Executable


class ConfigLaunches:
    """The launches of a kernel with a Config for problems that differ in m, each made from an earlier one."""

    def __init__(self, kernel: Kernel, config: Any, backend: Backend):
        self._kernel, self._config, self._backend = kernel, config, backend
        self._known: dict[int, tuple[int, Launch, CompiledKernel]] = {}
        """By what of m features depend on: the most rows, the launch of so many, and its kernel."""

    def loaded(self, problem: Problem, *, copied: bool) -> LoadedLaunch | None:
        """A launch that is ready; None if its kernel is not loaded. copied: whether strides may change with m, too.

        The features of problems are the same for all m that the same powers of two up to 8 divide, unless rows are few.
        """
        rows, kernel, config, backend = problem.m, self._kernel, self._config, self._backend
        key = rows if rows <= FEW_ROWS else rows & -rows & 7
        most, like, compiled = self._known.get(key, (0, None, None))
        if like is None or copied:
            like = launch = kernel.assemble(config, problem, backend.hardware, like)
        if not copied:  # the first one too, so that what is kept has the parameters that others copy
            launch = kernel.resized(config, problem, backend.hardware, like)
        if compiled is None:
            compiled = in_memory(launch.source, backend.arch)
            if compiled is None or not backend.has_loaded(compiled):
                return None
        if rows > most:
            self._known[key] = rows, launch, compiled
        return LoadedLaunch(launch, compiled, backend.prepare(compiled, launch.shape, launch.arguments))


class Family:
    """What the products of a family share: a problem but for its m, and slots but for the rows of arrays."""

    def __init__(self, problem: Problem, form: Form, slots: Sequence[Slot], made: Mapping[int, Choice] | None):
        self._problem, self._form, self._backend = problem, form, form.backend
        self._rows = [_Row.of(slot, self._has_rows(slot)) for slot in slots]
        self._made = made
        self._few_rows = few_rows(problem.a.dtype)
        self._met: set[int] = set()
        self._known: _Known | None = None
        self._launches: dict[tuple[str, Any], ConfigLaunches] = {}
        """By kernel and Config."""

    def _has_rows(self, slot: Slot) -> bool:
        named = self._form.names[slot.position] not in _WITHOUT_ROWS
        return named and len(slot.shape) == 2 and slot.shape[0] == self._problem.m

    @classmethod
    def of(cls, request: Request, plan: Plan, made: Mapping[int, Choice] | None = None) -> "Family | None":
        """The family of a planned product; None if what was checked and bound for it may not hold for other rows.

        made: the choices by numbers of rows, if they were made before; others are made when they are needed.
        """
        problem = request.problem
        holds = (
            min(problem.m, problem.columns, problem.k) > 1  # strides of single elements mean nothing, and are replaced
            and request.operands["out"].strides[1] == 1  # out is 2-D, and the transposed product is not computed
            and not problem.epilogue.sums_columns  # which takes another launch
            and (request.kernel, request.config) == ("auto", None)
            and request.backend.name != "emulator"  # which refuses long products
        )
        return cls(problem, plan.form, plan.slots, made) if holds else None

    def plan(self, member: Member, *, alpha: float, beta: float | None, stream: Any) -> Plan | None:
        """The Plan of a member; None if its kernel is not compiled and loaded; raises what planning does."""
        backend, problem, spans = self._backend, self._problem.with_rows(member.rows), self._rows
        if (scales := self._scales(member)) is not None:
            problem = problem.with_strides(SCALES[0], *scales.strides)
            spans = [_Row.of(scales, True) if row.slot.position == member.apart else row for row in spans]
        prepared = self._prepared(problem)
        if prepared is None:
            return None
        rows, (arrays, _, pointers, _) = member.rows, member.call
        more = rows - 1
        bounds = [(at, low + more * before, high + more * after) for at, low, high, before, after, *_ in spans]
        if arrays[OUT] is not None:
            self._form.check_overlap(arrays, pointers, bounds)
        if stream is not None:
            stream_handle(stream, backend)
        slots = partial(_resized, spans, rows)
        return Plan(self._form, problem, prepared, slots, pointers, alpha=alpha, beta=beta, bounds=bounds)

    def has_met(self, rows: int) -> bool:
        """Whether it was asked this before, of late."""
        if rows in self._met:
            return True
        if len(self._met) >= MOST_CHOICES:
            self._met.clear()
        self._met.add(rows)
        return False

    def _scales(self, member: Member) -> Slot | None:
        """The slot of a member's scales of blocks of a, if they lie apart otherwise than those of the family."""
        if (position := member.apart) is None:
            return None
        signature = member.call.signatures[position]
        (known,) = (row.slot for row in self._rows if row.slot.position == position)
        if signature is None or signature[2] == known.signature[2]:
            return None
        return Slot.of(position, signature, adopt(member.call.arrays[position], SCALES[0]))

    def _prepared(self, problem: Problem) -> Prepared | None:
        """What runs for a problem; None if the choice cannot be known, or a kernel is not loaded."""
        found = self._choice(problem)
        if found is None:
            return None
        choice, launches = found
        if choice.copied.copies:
            return self._with_copies(choice, launches, problem)
        loaded = launches.loaded(problem, copied=False)
        return loaded and Prepared(choice, loaded.compiled, loaded.executable, loaded.launch.exchanged)

    def _with_copies(self, choice: Choice, launches: ConfigLaunches, problem: Problem) -> Prepared | None:
        """The same of a choice with copies, which have the size of m, and are made ahead."""
        resized = choice.resized(problem, self._backend.hardware)
        if resized is None:
            return None
        copied = resized.copied
        loaded = launches.loaded(copied.problem, copied=True)
        steps = [self._launches_of(*step[:2]).loaded(step.problem, copied=True) for step in copied.steps]
        ahead = [step.executable for step in steps if step is not None]
        if loaded is None or len(ahead) < len(steps):
            return None
        exchanged = loaded.launch.exchanged
        executable = copied.before(loaded.executable, ahead, self._backend, exchanged)
        return Prepared(resized, loaded.compiled, executable, exchanged)

    def _choice(self, problem: Problem) -> tuple[Choice, ConfigLaunches] | None:
        """The choice for a problem, but for its m, and its launches; None if it cannot be known from that for other m.

        It is the same for all m that `standing_for` gives one number, unless columns are few, or an entry of a tuned
        table is for m alone. Only copies have the size of m.
        """
        m, hardware = problem.m, self._backend.hardware
        if self._made is not None:
            made = self._made.get(m)
            return made and (made, self._launches_of(made.kernel, made.config))
        tables = tuned.tables(hardware)
        known = self._known
        if known is None or known.tables is not tables:
            self._known = known = _Known(tables, tuned.rows_in(tables, problem))
        most = self._few_rows
        measured = m in known.measured
        key = m if problem.n <= most else standing_for(m), measured and m
        if (found := known.choices.get(key)) is not None:
            return found
        few = min(m, problem.n) <= most
        offers = known.offers.get(few)
        if offers is None:
            offers = known.offers[few] = Offers.of(problem, hardware)
        resized = offers.resized(problem)
        if resized is None:
            return None
        if len(known.choices) >= MOST_CHOICES:
            known.choices.clear()
        choice = resized.choice(problem, hardware)
        known.choices[key] = found = choice, self._launches_of(choice.kernel, choice.config)
        return found

    def _launches_of(self, kernel: Kernel, config: Any) -> ConfigLaunches:
        """The launches of a kernel with a Config."""
        key = kernel.name, config
        launches = self._launches.get(key)
        if launches is None:
            if len(self._launches) >= MOST_CHOICES:
                self._launches.clear()
            launches = self._launches[key] = ConfigLaunches(kernel, config, self._backend)
        return launches


def _resized(rows: Sequence[_Row], number: int) -> list[Slot]:
    """Slots of so many rows."""
    return [row.resized(number) for row in rows]


class Families:
    """The families of earlier calls. Any number of threads may use it at once.

    made: as `Family.of` takes it.
    """

    def __init__(self, made: Mapping[int, Choice] | None = None) -> None:
        self._known: dict[Hashable, Family] = {}
        self._made = made

    def find(self, member: Member) -> Family | None:
        """The family of a member, if it is known."""
        try:
            return self._known.get(member.family)
        except TypeError:  # an option that cannot be hashed, and so is wrong: planning says why
            return None

    def add(self, member: Member, request: Request, plan: Plan) -> None:
        """Learn the family of a planned product."""
        family = Family.of(request, plan, self._made)
        if family is not None:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[member.family] = family
