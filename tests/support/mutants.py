"""Mutants of a kernel: its PTX with one synchronizing instruction, or one constant of its pipeline, made wrong.

This works on the text alone. It knows the instruction set, not the emulator and nothing of what it checks: what is
generated must not depend on what is found.

Every wait, fence, arrive, commit and barrier is dropped and, where PTX has something weaker to offer, weakened; numbers
of groups, arrivals, threads, bytes, stages and parities are shifted. The copies of a source line that inlining makes
are mutants of their own. Unrolling repeats a line with the same callers at many places: of these the first, the middle
and the last are taken, since MOST_COPIES of one fault say no less than twenty.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

MOST_COPIES = 3
"""Mutants of one kind and one source line, callers included."""

Frame = tuple[str, int]
"""A source line: file as PTX names it, and number."""


@dataclass(frozen=True)
class Mutant:
    """One change of a module's text: `replacement` instead of what stands at `span`.

    frames: the source line, innermost first, then the lines that it was inlined into. source: the texts of those that
    are known, without comments, and without the wrappers of one instruction each. label, copy: kind and place in words,
    and which of the mutants with that label it is, from 1 on.
    """

    kind: str
    label: str
    copy: int
    original: str
    replacement: str
    span: tuple[int, int]
    frames: tuple[Frame, ...]
    source: tuple[str, ...]

    @property
    def name(self):
        """Tells it from the module's other mutants, without line numbers, which change with lines elsewhere."""
        return self.label if self.copy == 1 else f"{self.label} ({self.copy})"

    def apply(self, ptx):
        """The mutated module."""
        start, end = self.span
        return ptx[:start] + self.replacement + ptx[end:]

    @property
    def place(self):
        """The source lines, for people."""
        return " < ".join(f"{file.rsplit('/', 1)[-1]}:{line}" for file, line in self.frames)


@dataclass(frozen=True)
class Statement:
    """An instruction, its guard apart, where it stands in the text and in the source."""

    text: str
    guard: str
    span: tuple[int, int]
    frames: tuple[Frame, ...]

    @property
    def opcode(self):
        return re.match(r"\w+", self.text)[0]

    @property
    def operands(self):
        """The operands that stand outside braces."""
        return [operand.strip() for operand in self.text.partition(" ")[2].split(",")]


# ---------------------------------------------------------------- one instruction

_ANY_WAIT = r"mbarrier\.(?:try|test)_wait"
_BARRIER = r"(?:bar|barrier)(?:\.cta)?"

RULES = (
    ("drop mbarrier.init", r"mbarrier\.init\b.*", ""),
    ("drop mbarrier wait", rf"{_ANY_WAIT}\S* ([^,]+),.*", r"setp.eq.u32 \1, 0, 0"),
    ("drop mbarrier.arrive", r"mbarrier\.(?:arrive|arrive_drop|expect_tx)\b.*", ""),
    ("drop cp.async.mbarrier.arrive", r"cp\.async\.mbarrier\.arrive\b.*", ""),
    ("drop cp.async.commit_group", r"cp\.async\.commit_group", ""),
    ("drop cp.async.wait_group", r"cp\.async\.wait_(?:group|all)\b.*", ""),
    ("drop cp.async.bulk.commit_group", r"cp\.async\.bulk\.commit_group", ""),
    ("drop cp.async.bulk.wait_group", r"cp\.async\.bulk\.wait_group\b.*", ""),
    ("drop wgmma.fence", r"wgmma\.fence\b.*", ""),
    ("drop wgmma.commit_group", r"wgmma\.commit_group\b.*", ""),
    ("drop wgmma.wait_group", r"wgmma\.wait_group\b.*", ""),
    ("drop fence", r"(?:fence|membar)\.(?!proxy|mbarrier_init).*", ""),
    ("drop fence.proxy", r"fence\.proxy\b.*", ""),
    ("drop fence.mbarrier_init", r"fence\.mbarrier_init\b.*", ""),
    ("drop bar.sync", rf"{_BARRIER}\.(?:sync|arrive)\b.*", ""),
    ("drop bar.red", rf"{_BARRIER}\.red\S*\.pred ([^,]+), .*, ([^,]+)", r"mov.pred \1, \2"),
    ("drop bar.warp.sync", r"(?:bar|barrier)\.warp\.sync\b.*", ""),
    ("drop barrier.cluster.arrive", r"barrier\.cluster\.arrive\b.*", ""),
    ("drop barrier.cluster.wait", r"barrier\.cluster\.wait\b.*", ""),
    ("drop griddepcontrol.wait", r"griddepcontrol\.wait", ""),
    ("weaken bar.sync to bar.warp.sync", rf"{_BARRIER}\.sync\b.*", "bar.warp.sync -1"),
    (
        "weaken barrier.cluster.arrive to .relaxed",
        r"(barrier\.cluster\.arrive)(?:\.release)?(?!\.relaxed)(.*)",
        r"\1.relaxed\2",
    ),
    (
        "weaken mbarrier wait to .relaxed",
        rf"({_ANY_WAIT}(?:\.parity)?)(?:\.acquire\.cta)?(\.shared.*)",
        r"\1.relaxed.cta\2",
    ),
    ("weaken mbarrier wait to .relaxed", rf"({_ANY_WAIT}(?:\.parity)?)\.acquire(\.cluster.*)", r"\1.relaxed\2"),
    ("weaken mbarrier wait to .cta", rf"({_ANY_WAIT}(?:\.parity)?\.acquire)\.cluster(.*)", r"\1.cta\2"),
    (
        "weaken mbarrier.arrive to .relaxed",
        r"(mbarrier\.arrive(?:\.expect_tx)?)(?:\.release\.cta)?(\.shared.*)",
        r"\1.relaxed.cta\2",
    ),
    (
        "weaken mbarrier.arrive to .relaxed",
        r"(mbarrier\.arrive(?:\.expect_tx)?)\.release(\.cluster.*)",
        r"\1.relaxed\2",
    ),
    ("weaken mbarrier.arrive to .cta", r"(mbarrier\.arrive(?:\.expect_tx)?\.release)\.cluster(.*)", r"\1.cta\2"),
    ("weaken arrive.expect_tx to arrive", r"mbarrier\.arrive\.expect_tx(\S* .*), [^,\]]+", r"mbarrier.arrive\1"),
    ("weaken fence.proxy to fence", r"fence\.proxy\b.*", "fence.acq_rel.cta"),
    ("weaken fence to .cta", r"fence\.(acq_rel|sc)\.(?:cluster|gpu|sys)", r"fence.\1.cta"),
    ("weaken fence to .cta", r"membar\.(?:gl|sys)", "membar.cta"),
    ("weaken access to .relaxed", r"((?:ld|st|atom|red)\S*)\.(?:acquire|release|acq_rel)\b(.*)", r"\1.relaxed\2"),
    ("weaken bulk.wait_group to .read", r"(cp\.async\.bulk\.wait_group)( .*)", r"\1.read\2"),
)
"""Kind, what the whole instruction matches, and what it becomes."""

SHIFTED_NUMBERS = (
    ("wait for one group less", r"((?:cp\.async|cp\.async\.bulk|wgmma)\.wait_group\S* )(\d+)", (1,)),
    ("other barrier", rf"({_BARRIER}\.(?:sync|arrive)\S* )(\d+)(, .*)", (1,)),
    ("other number of threads", rf"({_BARRIER}\.(?:sync|arrive)\S* \S+, )(\d+)", (32, -32)),
)
"""Kind, an instruction whose second group is a number, and what is added to that number."""

SHIFTED_OPERANDS = (
    ("mbarrier.init count + 1", r"(mbarrier\.init.*, )(\S+)", "add.s32", "1"),
    ("mbarrier.init count - 1", r"(mbarrier\.init.*, )(\S+)", "add.s32", "-1"),
    ("expected bytes + 16", r"(mbarrier\.(?:arrive\.)?expect_tx.*, )(\S+)", "add.s32", "16"),
    ("expected bytes - 16", r"(mbarrier\.(?:arrive\.)?expect_tx.*, )(\S+)", "add.s32", "-16"),
    ("expected bytes halved", r"(mbarrier\.(?:arrive\.)?expect_tx.*, )(\S+)", "shr.u32", "1"),
    ("wait for the other parity", rf"({_ANY_WAIT}\.parity.*?\], )([^\s,]+)(.*)", "xor.b32", "1"),
)
"""Kind, an instruction whose second group is a register or a constant, and how that is computed anew."""


def _changed_alone(statement: Statement) -> Iterator[tuple[str, str]]:
    """Kinds and texts of what can be made of an instruction without looking at others."""
    for kind, pattern, becomes in RULES:
        if match := re.fullmatch(pattern, statement.text):
            yield kind, match.expand(becomes)
    for kind, pattern, steps in SHIFTED_NUMBERS:
        if match := re.fullmatch(pattern, statement.text):
            for step in steps:
                rest = "".join(match.groups()[2:])
                yield (
                    f"shift: {kind}{f' ({step:+})' if len(steps) > 1 else ''}",
                    f"{match[1]}{int(match[2]) + step}{rest}",
                )
    for kind, pattern, operation, operand in SHIFTED_OPERANDS:
        if (match := re.fullmatch(pattern, statement.text)) and not statement.guard:
            rest = "".join(match.groups()[2:])
            yield (
                f"shift: {kind}",
                f"{{ .reg .b32 mutated; {operation} mutated, {match[2]}, {operand}; {match[1]}mutated{rest}; }}",
            )


# ---------------------------------------------------------------- rings of stages


def _polled_once(statements: list[Statement]) -> Iterator[tuple[Statement, str, str]]:
    """Loops around a wait that may give up: `try_wait complete, ...; @!complete bra again`."""
    for wait, branch in pairwise(statements):
        if re.match(_ANY_WAIT, wait.text) and branch.opcode == "bra" and branch.guard == f"@!{wait.operands[0]}":
            yield branch, "weaken mbarrier wait to one attempt", ""


def _shifted_rings(statements: list[Statement]) -> Iterator[tuple[Statement, str, str]]:
    """Where a position goes back to slot 0: `next = slot + 1; next == stages ? 0 : next`, however it is compared."""
    defined = {statement.operands[0]: statement for statement in statements}
    for select in statements:
        if select.opcode != "selp" or "0" not in select.operands[1:3]:
            continue
        _, *choices, predicate = select.operands
        position = defined.get(choices[choices[0] == "0"])
        compare = defined.get(predicate)
        if position is None or compare is None or compare.opcode != "setp":
            continue
        counts_up = position.opcode == "add" and position.operands[2] == "1"
        if counts_up and compare.operands[1] in position.operands[:2] and compare.operands[2].isdigit():
            head, _, stages = compare.text.rpartition(" ")
            for what, step in (("one stage more", 1), ("one stage less", -1)):
                yield compare, f"shift: ring of {what}", f"{head} {int(stages) + step}"


def _merged_buffers(statements: list[Statement]) -> Iterator[tuple[Statement, str, str]]:
    """Rings of two: `here = counter & bit; there = here ^ bit`, where bit is a power of two."""
    defined = {statement.operands[0]: statement for statement in statements}
    for other in statements:
        if other.opcode == "xor" and other.operands[2].isdigit():
            here = defined.get(other.operands[1])
            bit = int(other.operands[2])
            if here and here.opcode == "and" and here.operands[2] == other.operands[2] and bit & (bit - 1) == 0:
                yield other, "shift: ring of one stage less", f"mov.b32 {other.operands[0]}, {other.operands[1]}"
                yield here, "shift: ring never advances", f"mov.u32 {here.operands[0]}, 0"


def _shifted_parities(statements: list[Statement]) -> Iterator[tuple[Statement, str, str]]:
    """The registers that tell waits their parity: where they start, and where they flip (`parity ^= wraps`)."""
    parities = {match[1] for s in statements if (match := re.match(rf"{_ANY_WAIT}\.parity.*?\], (%[^\s,]+)", s.text))}
    assigned = [statement for statement in statements if statement.opcode in ("mov", "xor")]
    while new := {s.operands[1] for s in assigned if s.operands[0] in parities} - parities:
        parities |= new
    flips = [s for s in assigned if s.opcode == "xor" and s.operands[0] in parities & {s.operands[1]}]
    flipped = {flip.operands[0] for flip in flips}
    for flip in flips:
        yield flip, "shift: parity never flips", ""
    for start in assigned:
        if start.opcode == "mov" and start.operands[0] in flipped:
            yield start, "shift: parity starts flipped", "xor.b32 {}, {}, 1".format(*start.operands)


# ---------------------------------------------------------------- a module


def generate(ptx: str, sources: Mapping[str, str] | None = None) -> list[Mutant]:
    """The mutants of a module, in the order of its instructions.

    sources: the text of each source file, by the name that PTX gives it; files in a folder `ptx` hold wrappers of one
    instruction each, which say nothing about where a mutant is.
    """
    sources = sources or {}
    statements = list(read_statements(ptx))
    changes = [(statement, *change) for statement in statements for change in _changed_alone(statement)]
    for find in (_polled_once, _shifted_rings, _merged_buffers, _shifted_parities):
        changes += find(statements)
    by_line: dict[tuple[str, tuple[Frame, ...]], list[tuple[Statement, str]]] = {}
    for statement, kind, text in dict.fromkeys(changes):
        by_line.setdefault((kind, statement.frames), []).append((statement, text))
    made = []
    for (kind, frames), copies in by_line.items():
        source = _texts(frames, sources)
        for statement, text in _first_middle_last(copies):
            guard = f"{statement.guard} " if statement.guard and text else ""
            where = " < ".join(source[:2]) or " ".join(statement.text.split()[:1])
            replacement = guard + text + ";" * (text != "" and not text.endswith("}"))
            label = f"{kind}: {where}"
            made.append(Mutant(kind, label, 1, statement.text, replacement, statement.span, frames, source))
    seen: Counter[str] = Counter()
    for index, mutant in enumerate(sorted(made, key=lambda mutant: (mutant.span, mutant.kind))):
        seen[mutant.label] += 1
        made[index] = replace(mutant, copy=seen[mutant.label])
    return made


_TOKEN = re.compile(
    r"//[^\n]*|/\*[\s\S]*?\*/|\.section\s+[^{]*\{[^}]*\}"
    r'|\.file\s+(?P<number>\d+)\s+"(?P<file>[^"\n]*)"[^\n]*'
    r"|\.loc\s+(?P<line>\d+ \d+ \d+)(?:[^\n]*?\binlined_at (?P<caller>\d+ \d+ \d+))?[^\n]*"
    r"|\.[^;{}\n]*[;\n]"
    r"|[\w$]+:(?!:)"
    r"|(?:(?P<guard>@!?[%\w$]+)\s+)?(?P<text>\b[a-z]\w*(?:[^;{}]|\{[^{}]*\})*);"
)


def read_statements(ptx: str) -> Iterator[Statement]:
    """The instructions of a module, with white space as it matters."""
    files = {int(match["number"]): match["file"] for match in _TOKEN.finditer(ptx) if match["number"]}
    callers: dict[str, str] = {}
    frames: tuple[Frame, ...] = ()
    for match in _TOKEN.finditer(ptx):
        if match["line"]:
            if match["caller"]:
                callers[match["line"]] = match["caller"]
            frames = tuple(_frames(match["line"], callers, files))
        elif match["text"]:
            yield Statement(" ".join(match["text"].split()), match["guard"] or "", match.span(), frames)


def _frames(line: str, callers: Mapping[str, str], files: Mapping[int, str]) -> Iterator[Frame]:
    seen = set()
    where: str | None = line
    while where is not None and where not in seen:
        seen.add(where)
        file, number, _ = map(int, where.split())
        yield files.get(file, "?"), number
        where = callers.get(where)


def _texts(frames: tuple[Frame, ...], sources: Mapping[str, str]) -> tuple[str, ...]:
    known = [(sources[file].splitlines(), line) for file, line in frames if file in sources and "/ptx/" not in file]
    return tuple(lines[line - 1].partition("//")[0].strip() for lines, line in known)


def _first_middle_last(copies: list[tuple[Statement, str]]) -> list[tuple[Statement, str]]:
    if len(copies) <= MOST_COPIES:
        return copies
    return [copies[0], copies[len(copies) // 2], copies[-1]]
