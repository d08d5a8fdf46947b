"""`bench micro power` and `occupancy`: a product by what its operands hold, and by the CTAs that an SM holds."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.bench.micro.record import Output, begun, show, write
from tilewright.cli.command import command
from tilewright.cli.options import BackendName, BackendOption, Json, parse_shape, require_writable, wants_gpu
from tilewright.cli.output import progress

if TYPE_CHECKING:
    from tilewright.bench.inputs import Shape


@command
def occupancy(
    shape: Annotated[
        str | None,
        typer.Option("--shape", help="M,N,K of the product.", show_default="4096, and 64 in the emulator"),
    ] = None,
    backend: BackendOption = BackendName.auto,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Measure what a second CTA on each SM gains: two rungs of the ladder, compiled for one and for two.

    They are `uncoalesced` and `coalesced`, in fp32, right after idle. In the emulator, the results are compared; it has
    no clock.

    \b
    Examples:
      tilewright bench micro occupancy --output occupancy_h200.json
      tilewright bench micro occupancy --shape 1024
      tilewright bench micro occupancy --backend emulator --json
    """
    from tilewright.bench.inputs import Shape
    from tilewright.bench.micro.occupancy import PROTOCOL, check, measure
    from tilewright.bench.micro.power import gpu_stand
    from tilewright.cli.products import problem_of

    require_writable("--output", output)
    on_gpu = wants_gpu(backend)
    product = Shape(*parse_shape(shape or ("4096" if on_gpu else "64"), "--shape"), dtype="fp32", layout="nn")
    product.require("randn")
    problem = problem_of(product, bias=False, activation=None)
    record = begun("occupancy", on_gpu) | _product(product)
    if on_gpu:
        from tilewright.backends.gpu import backend as gpu

        with progress("occupancy", 0.0) as bar:
            found = measure(problem, gpu_stand(problem), PROTOCOL, bar)
        record["gpu"] = gpu(0).hardware.name
    else:
        found = check(problem)
        record["gpu"] = None
    record["cases"] = [each.as_dict() for each in found]
    write(record, output)

    def cells(case: dict[str, Any]) -> tuple[str, ...]:
        return case["rung"], str(case["registers"]), str(case["ctas"]), f"{case['tflops']:.2f}"

    said = f"{len(found)} kernels agree in the emulator; it has no clock"
    show(record, ("rung", "registers", "CTAs of an SM", "TFLOP/s"), cells, said, as_json=as_json)


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
    record = begun("power", on_gpu) | _product(product)
    with progress("power", 0.0) as bar:
        if on_gpu:
            from tilewright.backends.gpu import backend as gpu

            record |= {"gpu": gpu(0).hardware.name, "slice_seconds": PROTOCOL.slice_seconds}
            record["cases"] = [each.as_dict() for each in measure(problem, wanted, gpu_stand(problem), PROTOCOL, bar)]
        else:
            check(problem, wanted, bar)
            unknown = dict.fromkeys(("watts", "mhz", "tflops"))
            record |= {"gpu": None, "cases": [{"data": each, **unknown} for each in wanted]}
    write(record, output)

    def cells(case: dict[str, Any]) -> tuple[str, ...]:
        read = ("-" if case[part] is None else f"{case[part]:.0f}" for part in ("watts", "mhz"))
        return case["data"], *read, f"{case['tflops']:.1f}"

    said = f"the products of {', '.join(wanted)} are right in the emulator; it has no power"
    show(record, ("data", "watts", "MHz", "TFLOP/s"), cells, said, as_json=as_json)


def _product(shape: "Shape") -> dict[str, Any]:
    """A product in a record."""
    return {"m": shape.m, "n": shape.n, "k": shape.k, "dtype": shape.dtype, "layout": shape.layout}
