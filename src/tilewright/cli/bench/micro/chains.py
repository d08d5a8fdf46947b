"""`bench micro wgmma`, `fma`, `loads` and `banks`: clocks of single instructions, very many of them in a row."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.bench.micro.record import Output, begun, numbers, show, write
from tilewright.cli.command import command
from tilewright.cli.options import BackendName, BackendOption, Json, require_writable, wants_gpu
from tilewright.cli.output import progress
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.bench.micro.runners import Runner
    from tilewright.bench.micro.wgmma import Kind


EMULATED_N = "8,64"
"""The columns that the emulator takes if none are asked for: all of them take minutes."""


@command
def wgmma(
    n: Annotated[
        str | None,
        typer.Option(
            "--n", help="Columns of B, such as 8,64,256, or all.", show_default="all, and 8,64 in the emulator"
        ),
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="Type, A and B: bf16:K:MN has A stored along k and B along n, e4m3:registers:K has A in registers; "
            "may be repeated, all by default.",
            show_default=False,
        ),
    ] = None,
    warpgroups: Annotated[str, typer.Option("--warpgroups", help="Warpgroups that issue it, 1 or 2 or both.")] = "1,2",
    backend: BackendOption = BackendName.auto,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Count the clocks from one wgmma to the next in a long chain on each SM, beside those of the model.

    Needs an H100, H200, H800 or H20. In the emulator, which takes minutes for all of them, the kernels are checked and
    their sums compared; it has no clock.

    \b
    Examples:
      tilewright bench micro wgmma --output wgmma_h200.json
      tilewright bench micro wgmma --n 8,64,256 --kind bf16:K:K --warpgroups 2
      tilewright bench micro wgmma --n 8 --kind e4m3:registers:K --backend emulator --json
      tilewright bench micro wgmma --n all --backend emulator
    """
    from tilewright.bench.micro.runners import EmulatedRunner, GpuRunner
    from tilewright.bench.micro.wgmma import KINDS, cases, measure
    from tilewright.hardware import WGMMA_N

    on_gpu = wants_gpu(backend)
    every, some = n == "all" or (n is None and on_gpu), EMULATED_N if n is None else n
    ns = list(WGMMA_N) if every else numbers(some, "--n")
    chosen = [_kind(name, KINDS) for name in kinds] if kinds else list(KINDS)
    wanted = cases(chosen, ns, numbers(warpgroups, "--warpgroups"))
    require_writable("--output", output)
    runner = GpuRunner() if on_gpu else EmulatedRunner()
    labels = ("kind", "n", "warpgroups")
    _measure("wgmma", measure(wanted, runner, **_rounds(on_gpu)), len(wanted), runner, labels, output, as_json=as_json)
    if n is None and not on_gpu:
        typer.echo(f"tilewright: they are those of n={EMULATED_N}: --n all takes all, and some minutes", err=True)


@command
def fma(
    chains: Annotated[str, typer.Option("--chains", help="Independent chains of a thread.")] = "1,2,3,4,6,8",
    warps: Annotated[str, typer.Option("--warps", help="Warps of an SM, which has four schedulers.")] = "1,4,8,16",
    backend: BackendOption = BackendName.auto,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Count the clocks of a multiply-add in chains of dependent ones, beside those of the model.

    \b
    Examples:
      tilewright bench micro fma --output fma.json
      tilewright bench micro fma --chains 1,4 --warps 4
      tilewright bench micro fma --chains 2 --warps 1 --backend emulator --json
    """
    from tilewright.bench.micro.fma import Case, measure
    from tilewright.bench.micro.runners import EmulatedRunner, GpuRunner

    wanted = [Case(each, count) for each in numbers(chains, "--chains") for count in numbers(warps, "--warps")]
    require_writable("--output", output)
    on_gpu = wants_gpu(backend)
    runner = GpuRunner() if on_gpu else EmulatedRunner()
    labels = ("chains", "warps")
    _measure("fma", measure(wanted, runner, **_rounds(on_gpu)), len(wanted), runner, labels, output, as_json=as_json)


@command
def loads(
    places: Annotated[
        list[str] | None,
        typer.Option("--place", help="SMEM, DSMEM, L1 or L2; may be repeated, all by default.", show_default=False),
    ] = None,
    backend: BackendOption = BackendName.auto,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Count the clocks of loads and atomics in chains, each at the address that the one before has brought.

    DSMEM is the shared memory of the other CTA of a cluster of two, which Hopper has. SMEM is also read by index, which
    takes the computation of an address in each step. The last column is what `tilewright model dsmem` says.

    \b
    Examples:
      tilewright bench micro loads --output loads_h200.json
      tilewright bench micro loads --place SMEM --place DSMEM
      tilewright bench micro loads --place DSMEM --backend emulator --json
    """
    from tilewright.bench.micro.loads import CASES, PLACES, measure
    from tilewright.bench.micro.runners import EmulatedRunner, GpuRunner

    for place in places or ():
        if place not in PLACES:
            raise ArgumentValueError(f"--place={place!r} is unknown: use {', '.join(PLACES)}")
    wanted = [case for case in CASES if not places or case.place in places]
    require_writable("--output", output)
    on_gpu = wants_gpu(backend)
    runner = GpuRunner() if on_gpu else EmulatedRunner()
    labels = ("place", "operation")
    _measure("loads", measure(wanted, runner, **_rounds(on_gpu)), len(wanted), runner, labels, output, as_json=as_json)


class AccessName(StrEnum):
    """What a warp reads with."""

    ld = "ld"
    ldmatrix = "ldmatrix"


@command
def banks(
    addresses: Annotated[
        list[str] | None,
        typer.Option(
            "--addresses",
            help="The address of each lane, as an expression of `lane`; may be repeated.",
            show_default="14 usual ones",
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option("--width", help="Bytes that each lane reads: 4, 8 or 16.", show_default="4, or 16 for matrices"),
    ] = None,
    access: Annotated[
        AccessName | None, typer.Option("--access", help="The instruction of these addresses.", show_default="ld")
    ] = None,
    backend: BackendOption = BackendName.auto,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Count the clocks of a warp's read of SMEM by its addresses, with 16 warps on each SM, beside the model's passes.

    SMEM serves one word of each bank in a pass; the last column is what `tilewright model banks` says. Expressions are
    those of that command.

    \b
    Examples:
      tilewright bench micro banks --output banks_h200.json
      tilewright bench micro banks --addresses "lane*128" --addresses "lane*132"
      tilewright bench micro banks --addresses "lane%8*128+lane//8*16" --access ldmatrix
      tilewright bench micro banks --addresses "lane*16" --width 16 --backend emulator --json
    """
    from tilewright.bench.micro.banks import CASES, Case, measure
    from tilewright.bench.micro.runners import EmulatedRunner, GpuRunner

    if not addresses and (width is not None or access is not None):
        raise ArgumentValueError("--width and --access say how --addresses are read, and none are given: give some")
    kind = access or AccessName.ld
    nbytes = (16 if kind == AccessName.ldmatrix else 4) if width is None else width
    wanted = [Case(each, nbytes, kind.value) for each in addresses] if addresses else list(CASES)
    require_writable("--output", output)
    on_gpu = wants_gpu(backend)
    runner = GpuRunner() if on_gpu else EmulatedRunner()
    labels = ("addresses", "width", "access")
    _measure("banks", measure(wanted, runner, **_rounds(on_gpu)), len(wanted), runner, labels, output, as_json=as_json)


def _rounds(on_gpu: bool) -> dict[str, int]:
    """In the emulator, one round shows as much as many."""
    return {} if on_gpu else {"rounds": 1}


def _measure(
    name: str,
    measured: "Iterator[Any]",
    count: int,
    runner: "Runner",
    labels: tuple[str, ...],
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Take the cases as they are measured; write and show the record, without the emulator's clocks.

    labels: the fields that name a case.
    """
    on_gpu = runner.name == "gpu"
    record = begun(name, on_gpu) | {"gpu": runner.hardware.name if on_gpu else None, "cases": []}
    with progress(name, 0.0) as bar:
        for clocks in measured:
            case = clocks.as_dict() | ({} if on_gpu else dict.fromkeys(("median", "least", "most")))
            record["cases"].append(case)
            bar(len(record["cases"]) / count, ", ".join(f"{label} {case[label]}" for label in labels))
    write(record, output)

    def cells(case: dict[str, Any]) -> tuple[str, ...]:
        clocks = (f"{case[part]:.2f}" for part in ("median", "least", "most"))
        return (
            *(str(case[label]) for label in labels),
            *clocks,
            "-" if case["model"] is None else f"{case['model']:g}",
        )

    said = f"{count} kernels break no rule in the emulator, and their results are right; it has no clock"
    show(record, (*labels, "clocks", "least", "most", "model"), cells, said, as_json=as_json)


def _kind(name: str, known: "tuple[Kind, ...]") -> "Kind":
    by_name = {str(kind): kind for kind in known}
    if name not in by_name:
        raise ArgumentValueError(f"--kind={name!r} is unknown: use {', '.join(by_name)}")
    return by_name[name]
