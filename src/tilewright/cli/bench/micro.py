"""`tilewright bench micro`: microbenchmarks, the measured side of what `tilewright model` computes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import WithNegativeNumbers, command
from tilewright.cli.options import BackendName, BackendOption, Json, parse_shape, require_writable, wants_gpu
from tilewright.cli.output import columns, print_json, progress
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tilewright.bench.micro.runners import Runner
    from tilewright.bench.micro.wgmma import Kind

Output = Annotated[Path | None, typer.Option("--output", help="Write the record into this file.", show_default=False)]

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def micro() -> None:
    """Measure one instruction at a time on a GPU, and compare with the model.

    \b
    Examples:
      tilewright bench micro wgmma --output wgmma_h200.json
      tilewright bench micro fma --help
      tilewright bench micro loads
      tilewright bench micro power --output power_h200.json
      tilewright bench micro strides --help
    """


@app.command(cls=WithNegativeNumbers)
@command
def wgmma(
    n: Annotated[
        str | None, typer.Option("--n", help="Columns of B, such as 8,64,256; by default all 32.", show_default=False)
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

    Needs an H100, H200, H800 or H20. In the emulator, the kernels are checked and their sums compared; it has no clock.

    \b
    Examples:
      tilewright bench micro wgmma --output wgmma_h200.json
      tilewright bench micro wgmma --n 8,64,256 --kind bf16:K:K --warpgroups 2
      tilewright bench micro wgmma --n 8 --kind e4m3:registers:K --backend emulator --json
    """
    from tilewright.bench.micro.runners import EmulatedRunner, GpuRunner
    from tilewright.bench.micro.wgmma import KINDS, cases, measure
    from tilewright.hardware import WGMMA_N

    ns = list(WGMMA_N) if n is None else _numbers(n, "--n")
    chosen = [_kind(name, KINDS) for name in kinds] if kinds else list(KINDS)
    wanted = cases(chosen, ns, _numbers(warpgroups, "--warpgroups"))
    require_writable("--output", output)
    on_gpu = wants_gpu(backend)
    runner = GpuRunner() if on_gpu else EmulatedRunner()
    labels = ("kind", "n", "warpgroups")
    _measure("wgmma", measure(wanted, runner, **_rounds(on_gpu)), len(wanted), runner, labels, output, as_json=as_json)


@app.command(cls=WithNegativeNumbers)
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

    wanted = [Case(each, count) for each in _numbers(chains, "--chains") for count in _numbers(warps, "--warps")]
    require_writable("--output", output)
    on_gpu = wants_gpu(backend)
    runner = GpuRunner() if on_gpu else EmulatedRunner()
    labels = ("chains", "warps")
    _measure("fma", measure(wanted, runner, **_rounds(on_gpu)), len(wanted), runner, labels, output, as_json=as_json)


@app.command(cls=WithNegativeNumbers)
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


@app.command(cls=WithNegativeNumbers)
@command
def power(
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            help="zeros, constant, randn, or bits:P: normal numbers whose mantissas keep P percent of their bits, the "
            "others being zero; may be repeated.",
            show_default="all, with bits:0, bits:25, bits:50 and bits:75",
        ),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option("--shape", help="M,N,K of the product.", show_default="8192, and 256 in the emulator"),
    ] = None,
    backend: BackendOption = BackendName.auto,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Measure what the bits of A and B cost: watts, MHz and TFLOP/s of a product in bf16 at the power limit.

    Products take turns of 2.4 seconds, of which the second half counts: 70 seconds for all. The board reports watts and
    MHz through NVML. In the emulator, the results are checked; it has no power.

    \b
    Examples:
      tilewright bench micro power --output power_h200.json
      tilewright bench micro power --data zeros --data bits:10 --data randn
      tilewright bench micro power --data bits:50 --backend emulator --json
    """
    from tilewright.bench.inputs import Shape
    from tilewright.bench.micro.power import DATA, PROTOCOL, check, gpu_stand, measure, numbers
    from tilewright.cli.products import problem_of

    require_writable("--output", output)
    on_gpu, wanted = wants_gpu(backend), list(dict.fromkeys(data or DATA))
    for each in wanted:
        numbers(each, 1)  # which refuses what it does not know, before the first is measured
    product = Shape(*parse_shape(shape or ("8192" if on_gpu else "256"), "--shape"))
    product.require("randn")
    problem = problem_of(product, bias=False, activation=None)
    record = _begun("power", on_gpu)
    record |= {"m": product.m, "n": product.n, "k": product.k, "dtype": product.dtype, "layout": product.layout}
    with progress("power", 0.0) as bar:
        if on_gpu:
            from tilewright.backends.gpu import backend as gpu

            record |= {"gpu": gpu(0).hardware.name, "slice_seconds": PROTOCOL.slice_seconds}
            record["cases"] = [each.as_dict() for each in measure(problem, wanted, gpu_stand(problem), PROTOCOL, bar)]
        else:
            check(problem, wanted, bar)
            unknown = dict.fromkeys(("watts", "mhz", "tflops"))
            record |= {"gpu": None, "cases": [{"data": each, **unknown} for each in wanted]}
    _write(record, output)

    def cells(case: dict[str, Any]) -> tuple[str, ...]:
        read = ("-" if case[part] is None else f"{case[part]:.0f}" for part in ("watts", "mhz"))
        return case["data"], *read, f"{case['tflops']:.1f}"

    said = f"the products of {', '.join(wanted)} are right in the emulator; it has no power"
    _show(record, ("data", "watts", "MHz", "TFLOP/s"), cells, said, as_json=as_json)


@app.command(cls=WithNegativeNumbers)
@command
def strides(
    stride: Annotated[
        str | None,
        typer.Option("--stride", help="Bytes from one sector to the next.", show_default="32 to 4096"),
    ] = None,
    fetch: Annotated[str, typer.Option("--fetch", help="Bytes that L2 may fetch for a sector.")] = "32,64,128",
    backend: BackendOption = BackendName.auto,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Measure how fast GMEM gives one sector in so many bytes, beside what the model allows.

    Reads 32 GiB of a GPU with HBM, in some 10 seconds. L2 may fetch more than the sector that it lacks; --fetch is
    CUDA's hint for how much. In the emulator, the kernel is checked; it has no clock.

    \b
    Examples:
      tilewright bench micro strides --output strides_h200.json
      tilewright bench micro strides --stride 32,1024 --fetch 32
      tilewright bench micro strides --stride 64 --backend emulator --json
    """
    from tilewright.bench.micro.runners import EmulatedRunner, GpuRunner
    from tilewright.bench.micro.strides import BYTES, STRIDES, Case, measure

    chosen = STRIDES if stride is None else _numbers(stride, "--stride")
    wanted = [Case(each, most) for most in _numbers(fetch, "--fetch") for each in chosen]
    require_writable("--output", output)
    on_gpu = wants_gpu(backend)
    runner = GpuRunner() if on_gpu else EmulatedRunner()
    record = _begun("strides", on_gpu) | {"gpu": runner.hardware.name if on_gpu else None, "cases": []}
    with progress("strides", 0.0) as bar:
        for number, found in enumerate(measure(wanted, runner, BYTES if on_gpu else 1 << 18), 1):
            record["cases"].append(found.as_dict())
            bar(number / len(wanted), f"stride {found.stride}")
    _write(record, output)

    def cells(case: dict[str, Any]) -> tuple[str, ...]:
        rates = (f"{case[part] / 1e12:.2f}" for part in ("measured", "model"))
        return f"{case['stride']:,}", str(case["fetch"]), *rates

    said = f"{len(wanted)} reads break no rule in the emulator, and their sums are right; it has no clock"
    _show(record, ("stride", "fetch", "TB/s of sectors", "at most"), cells, said, as_json=as_json)


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
    record = _begun(name, on_gpu) | {"gpu": runner.hardware.name if on_gpu else None, "cases": []}
    with progress(name, 0.0) as bar:
        for clocks in measured:
            case = clocks.as_dict() | ({} if on_gpu else dict.fromkeys(("median", "least", "most")))
            record["cases"].append(case)
            bar(len(record["cases"]) / count, ", ".join(f"{label} {case[label]}" for label in labels))
    _write(record, output)

    def cells(case: dict[str, Any]) -> tuple[str, ...]:
        clocks = (f"{case[part]:.2f}" for part in ("median", "least", "most"))
        return (
            *(str(case[label]) for label in labels),
            *clocks,
            "-" if case["model"] is None else f"{case['model']:g}",
        )

    said = f"{count} kernels break no rule in the emulator, and their results are right; it has no clock"
    _show(record, (*labels, "clocks", "least", "most", "model"), cells, said, as_json=as_json)


def _begun(name: str, on_gpu: bool) -> dict[str, Any]:
    """A record's head: the command, versions, the date, and what the board is."""
    from datetime import UTC, datetime

    from tilewright import __version__
    from tilewright.jit.compile import nvrtc_version
    from tilewright.measure.sensors import board_facts

    now = datetime.now(UTC).isoformat(timespec="seconds")
    versions = {"tilewright": __version__, "nvrtc": nvrtc_version(), "date": now}
    return {"command": f"tilewright bench micro {name}", **versions, **(board_facts() if on_gpu else {})}


def _write(record: dict[str, Any], output: Path | None) -> None:
    if output is not None:
        output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _show(
    record: dict[str, Any],
    headings: tuple[str, ...],
    cells: "Callable[[dict[str, Any]], tuple[str, ...]]",
    said: str,
    *,
    as_json: bool,
) -> None:
    """Print a record: as JSON; as a table of its cases, made by `cells`; or, of the emulator, what is `said`."""
    if as_json:
        print_json(record)
    elif record["gpu"] is None:
        typer.echo(said)
    else:
        columns([headings, *map(cells, record["cases"])], gap=3, headings=1)


def _numbers(text: str, option: str) -> list[int]:
    """The numbers of "8,64,256"."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise ArgumentValueError(f"{option}={text!r} is no list of natural numbers: write them as 8,64,256")
    return list(dict.fromkeys(map(int, parts)))


def _kind(name: str, known: "tuple[Kind, ...]") -> "Kind":
    by_name = {str(kind): kind for kind in known}
    if name not in by_name:
        raise ArgumentValueError(f"--kind={name!r} is unknown: use {', '.join(by_name)}")
    return by_name[name]
