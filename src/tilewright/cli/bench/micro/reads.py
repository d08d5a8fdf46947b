"""`bench micro strides`: how fast memory gives a part of what lies in it."""

from typing import Annotated, Any

import typer

from tilewright.cli.bench.micro.record import Output, begun, numbers, show, write
from tilewright.cli.command import command
from tilewright.cli.options import BackendName, BackendOption, Json, require_writable, wants_gpu
from tilewright.cli.output import progress


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

    chosen = STRIDES if stride is None else numbers(stride, "--stride")
    wanted = [Case(each, most) for most in numbers(fetch, "--fetch") for each in chosen]
    require_writable("--output", output)
    on_gpu = wants_gpu(backend)
    runner = GpuRunner() if on_gpu else EmulatedRunner()
    record = begun("strides", on_gpu) | {"gpu": runner.hardware.name if on_gpu else None, "cases": []}
    with progress("strides", 0.0) as bar:
        for number, found in enumerate(measure(wanted, runner, BYTES if on_gpu else 1 << 18), 1):
            record["cases"].append(found.as_dict())
            bar(number / len(wanted), f"stride {found.stride}")
    write(record, output)

    def cells(case: dict[str, Any]) -> tuple[str, ...]:
        rates = (f"{case[part] / 1e12:.2f}" for part in ("measured", "model"))
        return f"{case['stride']:,}", str(case["fetch"]), *rates

    said = f"{len(wanted)} reads break no rule in the emulator, and their sums are right; it has no clock"
    show(record, ("stride", "fetch", "TB/s of sectors", "at most"), cells, said, as_json=as_json)
