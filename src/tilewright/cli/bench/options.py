"""The options of `tilewright bench`: products, contenders, duration, and the place of the record."""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.command import Gives
from tilewright.cli.options import (
    ElementOptions,
    FactorName,
    GateName,
    Json,
    Layout,
    OperandOption,
    forms_of,
    outputs_of,
    parse_shape,
    require_plot,
    require_writable,
)
from tilewright.errors import ArgumentValueError
from tilewright.measure.data import Data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.bench.contender import Contender
    from tilewright.bench.inputs import Shape
    from tilewright.measure.protocol import Protocol

SELF_CHECK_SHAPE = "4096,4096,4096"
DEFAULT_BASELINES = ("cublas", "torch")
"""The contenders that ratios are to, the preferred one first; the other way around where elements are of 8 bits."""

SuiteArgument = Annotated[
    str | None, typer.Argument(help="A suite of `tilewright bench`, or a TOML file of your own.", show_default=False)
]
DataOption = Annotated[
    Data, typer.Option("--data", help="Normal, uniform from -1 to 1, or normal with an A that is 2:4 sparse.")
]


class AgainstName(StrEnum):
    """Whom ours is measured with."""

    all = "all"
    best = "best"


class ProtocolName(StrEnum):
    """The protocols to run."""

    both = "both"
    burst = "burst"
    settled = "settled"


@dataclass(frozen=True, slots=True)
class ShapeOptions(ElementOptions):
    """The products to time."""

    dtype: Annotated[
        FactorName | None,
        typer.Option("--dtype", help="Element type of A and B; by default a suite's, or bf16.", show_default=False),
        Gives("a"),
    ] = None
    shape: Annotated[
        list[str] | None, typer.Option("--shape", help="M,N,K instead of a suite; may be repeated.", show_default=False)
    ] = None
    layout: Annotated[
        Layout | None, typer.Option("--layout", help="How A and B are stored; the suite's by default, or nt.")
    ] = None

    def of(self, suite: str | None, self_check: bool, seed: int = 0) -> "list[Shape]":
        """The shapes to be timed, each once, with the given dtype and layout; random ones are drawn by `seed`."""
        from tilewright.bench import suites
        from tilewright.bench.inputs import Shape

        if suite is not None and re.fullmatch(r"[\d,x^]+", suite):
            raise ArgumentValueError(f"SUITE={suite!r} is a shape and no suite: write --shape {suite}")
        texts = self.shape or ([SELF_CHECK_SHAPE] if self_check and suite is None else [])
        if (suite is None) == (not texts):
            both = f"SUITE is {suite} and --shape is given as well"
            given = "neither SUITE nor --shape is given" if suite is None else both
            raise ArgumentValueError(f"{given}: give one of them; suites are {', '.join(suites.names())}")
        typed = [Shape(*parse_shape(text, "--shape")) for text in texts]
        shapes = suites.load(suite, seed).shapes if suite else typed
        layout = None if self.layout is None else self.layout.value
        found = [
            replace(each, dtype=str(self.elements(each.elements)), layout=layout or each.layout) for each in shapes
        ]
        return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class ContenderOptions:
    """The contenders, and the baseline of the comparison."""

    contender: Annotated[
        list[str] | None,
        typer.Option(
            "--contender",
            help="tilewright, tilewright:tuned, tilewright:invariant, tilewright:KERNEL, cublas, cublaslt, torch, "
            "triton, quack, deepgemm, read; may be repeated. With :serial behind tilewright or tilewright:KERNEL, "
            "launches do not overlap. By default those that the suite names, mostly tilewright, cublas, triton, for 8 "
            "bits tilewright, torch, cublaslt; all peers for --shape.",
            show_default=False,
        ),
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            help="The contender that ratios are to; cublas by default, for 8 bits torch, else the first contender.",
            show_default=False,
        ),
    ] = None
    configs: Annotated[
        str | None,
        typer.Option(
            "--configs",
            help="Look at all Configs of the planner's kernel first, or at those with this text, such as tile_n=200; "
            "the best are then measured in place of its choice.",
            metavar="all|TEXT",
            show_default=False,
        ),
    ] = None
    finalists: Annotated[int, typer.Option("--finalists", help="How many of these are measured.", min=1)] = 2
    against: Annotated[
        AgainstName,
        typer.Option(
            "--against",
            help="All contenders; or look at all peers first, then time ours with the baseline and the best peer.",
        ),
    ] = AgainstName.all

    @property
    def text(self) -> str | None:
        """The text that a Config's description must contain; "" matches all, None keeps the planner's choice."""
        return "" if self.configs == "all" else self.configs

    def chosen(
        self,
        suite: str | None,
        self_check: bool,
        epilogues: "Sequence[Contender]" = (),
        *,
        plain: bool = True,
    ) -> "tuple[list[Contender], str]":
        """The contenders of these names, and the baseline of ratios; for the self-check, one contender twice.

        suite: names them, if no contender is given. epilogues: further ones, beside which the plain product is usual.
        plain: whether no product has elements of 8 bits, which other peers multiply.
        """
        from tilewright.bench import suites
        from tilewright.bench.contenders import OURS, PEERS, PEERS_OF_8_BITS, contenders_named, is_ours

        names, baseline, configs = self.contender, self.baseline, self.configs
        if not self_check:
            usual = (OURS, *(PEERS if plain else PEERS_OF_8_BITS))
            if suite is not None:
                usual = suites.load(suite).contenders or (suites.USUAL if plain else suites.USUAL_OF_8_BITS)
            chosen = [*contenders_named(names or ([OURS] if epilogues else usual)), *epilogues]
            known = [each.name for each in chosen]
            ours = [name for name in known if is_ours(name)]
            if configs is not None and len(ours) > 1:
                raise ArgumentValueError(
                    f"--configs={configs} belongs to one kernel, and there are {', '.join(ours)}: name one of them"
                )
            if baseline is not None and baseline not in known:
                raise ArgumentValueError(f"--baseline={baseline} is not a contender: use {', '.join(known)}")
            preferred = DEFAULT_BASELINES if plain else reversed(DEFAULT_BASELINES)
            return chosen, baseline or next((name for name in preferred if name in known), known[0])
        if baseline is not None:
            raise ArgumentValueError(
                f"--self-check is against the contender itself, and --baseline={baseline}: leave one out"
            )
        if configs is not None:
            raise ArgumentValueError(
                f"--self-check times one contender, and --configs={configs} finds several: leave one out"
            )
        if self.against != AgainstName.all:
            raise ArgumentValueError(
                f"--self-check is against the contender itself, and --against={self.against}: leave one out"
            )
        names = names or [OURS]
        if len(names) > 1:
            raise ArgumentValueError(
                f"--self-check times one contender against itself, and {len(names)} are given: name one"
            )
        (first,), (second,) = contenders_named(names), contenders_named(names)
        first.name, second.name = "first", "second"
        return [first, second], second.name


@dataclass(frozen=True, slots=True)
class EpilogueOptions:
    """The epilogues to be timed beside the plain product."""

    epilogue: Annotated[
        list[str] | None,
        typer.Option(
            "--epilogue",
            help='Time ours with this expression too, such as "gelu(acc + bias)"; "-> amax,acc" behind it names '
            "further outputs. May be repeated.",
            show_default=False,
        ),
    ] = None
    operand: OperandOption = None
    gate: Annotated[
        list[GateName] | None,
        typer.Option("--gate", help="How expressions over x and y pair columns; may be repeated.", show_default=False),
    ] = None

    def chosen(self, self_check: bool) -> "list[Contender]":
        """A contender for each epilogue, and for each gate of those over x and y. A ValueError for a bad option."""
        from tilewright.bench.epilogues import WithEpilogue
        from tilewright.expression.grammar import parse

        forms, read = forms_of(self.operand), set[str]()
        found: list[Contender] = []
        for text in self.epilogue or ():
            expression, arrow, outputs = text.partition("->")
            names = set(re.findall(r"[A-Za-z_]\w*", expression))
            read |= names
            gates = self.gate if self.gate and "acc" not in names else [None]
            for gate in gates:
                parsed = parse(expression, [name for name in forms if name in names], gate and gate.value)
                parsed = parsed._replace(outputs=outputs_of(outputs, "--epilogue") if arrow else ())
                found.append(WithEpilogue(parsed, [forms[name] for name in parsed.operands]))
        if unread := [name for name in forms if name not in read]:
            raise ArgumentValueError(f"--operand={forms[unread[0]]} is read by no --epilogue: leave it out")
        if self.gate and not any(isinstance(each, WithEpilogue) and each.expression.gate for each in found):
            raise ArgumentValueError("--gate pairs columns for an --epilogue over x and y: give one")
        if found and self_check:
            raise ArgumentValueError("--self-check times one contender, and --epilogue adds others: leave one out")
        return found


@dataclass(frozen=True, slots=True)
class ProtocolOptions:
    """The duration of measurements, and the state of the GPU."""

    protocol: Annotated[
        ProtocolName, typer.Option("--protocol", help="Right after idle, at the power limit, or both.")
    ] = ProtocolName.both
    rounds: Annotated[int, typer.Option("--rounds", help="Cycles of burst.", min=1)] = 5
    cycles: Annotated[int, typer.Option("--cycles", help="Cycles of settled.", min=1)] = 5
    slice_seconds: Annotated[
        float,
        typer.Option("--slice", help="Seconds of a settled turn; a board takes about half of one to settle.", min=0.02),
    ] = 1.2
    idle_seconds: Annotated[float, typer.Option("--idle", help="Seconds of rest before each burst.", min=0.1)] = 1.0

    def wanted(self) -> "tuple[Protocol, ...]":
        """The protocols to run."""
        from tilewright.measure.protocol import Burst, Settled

        burst = Burst(cycles=self.rounds, idle_seconds=self.idle_seconds)
        protocols = (burst, Settled(cycles=self.cycles, slice_seconds=self.slice_seconds))
        return tuple(each for each in protocols if self.protocol in (ProtocolName.both, each.name))


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The place of the record, and the session's part of it."""

    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the ratios to the best peer into this file.")] = None
    output: Annotated[Path | None, typer.Option("--output", help="Write the JSON record to this file.")] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Go on with the record in this file, or begin one: give the same command until nothing is left. What "
            "is measured stays, and so does what peers' tuners chose. Several processes may do so at once, one a GPU.",
            metavar="RECORD",
        ),
    ] = None
    first_look: Annotated[
        Path | None,
        typer.Option(
            "--first-look",
            help="Begin with what another record of this GPU model and the same peers found: the best peer of each "
            "product, for --against best, and what tuners chose. A record that is gone on with has its own.",
            metavar="RECORD",
        ),
    ] = None
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            help="Seconds after which no product is begun; nor is one that would probably end later. One is always "
            "measured.",
            min=0,
        ),
    ] = None
    as_json: Json = False

    def require(self, self_check: bool) -> None:
        """Raise an error, before any measurement, if a file could not be written or has no use."""
        if self_check and self.resume is not None:
            raise ArgumentValueError(
                f"--self-check is one measurement, and --resume={self.resume} goes on with several: use --output"
            )
        if self.output is not None and self.resume is not None:
            raise ArgumentValueError(
                f"--output={self.output} and --resume={self.resume} are both the place of the record: leave one out"
            )
        require_writable("--output", self.output)
        require_writable("--resume", self.resume)
        require_plot(self.plot)
