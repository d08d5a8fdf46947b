"""A kernel of one's own before a product of tilewright's: RMSNorm whose result is fp8, fused with its quantization.

`tilewright.quantize` after a norm reads what the norm has written. The kernel of rms_norm_quantize.cu reads x once and
writes codes and scales, 3 bytes an element in place of 7; `tilewright.matmul` multiplies these with a weight in fp8.
Without a GPU, `tilewright.check` runs the kernel in the emulator and reports broken rules.

examples:
  python examples/rms_norm_quantize.py                                 a few rows, on a GPU or in the emulator
  python examples/rms_norm_quantize.py --rows 4096 --columns 8192      on a GPU
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tilewright as tw

SOURCE = Path(__file__).with_suffix(".cu")
THREADS = 128
EPSILON = 1e-6


def emulated(x: Any, weight: Any) -> tuple[Any, Any]:
    """Codes and scales of NumPy arrays, by the emulator; a RuntimeError if the kernel breaks a rule."""
    rows, columns = x.shape
    codes, scale = np.empty(x.shape, ml_dtypes.float8_e4m3fn), np.empty((rows, 1), np.float32)
    result = tw.check(
        SOURCE, x, weight, codes, scale, EPSILON, grid=rows, block=THREADS, define={"COLUMNS": columns}, schedules=0
    )
    if not result.verified:
        raise RuntimeError(str(result))
    return codes, scale


def on_gpu(x: Any, weight: Any) -> tuple[Any, Any]:
    """The same of torch tensors on a GPU, on torch's stream, compiled and launched by cuda-core."""
    import torch
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream, launch

    device = Device(x.device.index)
    device.set_current()
    rows, columns = x.shape
    codes = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty((rows, 1), dtype=torch.float32, device=x.device)
    options = ProgramOptions(arch=f"sm_{device.arch}", define_macro=("COLUMNS", str(columns)))
    kernel = Program(SOURCE.read_text(), "c++", options).compile("cubin").get_kernel("rms_norm_quantize")
    stream = Stream.from_handle(torch.cuda.current_stream(x.device).cuda_stream)
    pointers = [tensor.data_ptr() for tensor in (x, weight, codes, scale)]
    launch(stream, LaunchConfig(grid=rows, block=THREADS), kernel, *pointers, np.float32(EPSILON))
    return codes, scale


def has_gpu() -> bool:
    """Whether torch finds a GPU with conversions to fp8."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9))


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; an error ends the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=24, help="tokens (default: 24)")
    parser.add_argument("--columns", type=int, default=512, help="their width, a multiple of 16 (default: 512)")
    parser.add_argument("--outputs", type=int, default=48, help="of the product, a multiple of 16 (default: 48)")
    options = parser.parse_args(arguments)
    if options.rows < 1:
        parser.error(f"--rows {options.rows}: give 1 or more")
    for name in ("columns", "outputs"):
        if getattr(options, name) < 16 or getattr(options, name) % 16:
            parser.error(f"--{name} {getattr(options, name)}: give a multiple of 16")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Normalize, quantize, multiply, and compare with NumPy; 0 if the results are within the precision of fp8."""
    options = options_of(sys.argv[1:] if arguments is None else arguments)
    rng = np.random.default_rng(0)
    shapes = ((options.rows, options.columns), (options.columns,), (options.outputs, options.columns))
    x, weight, projection = (rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for shape in shapes)
    if has_gpu():
        import torch

        place = "GPU"
        bits = [torch.from_numpy(each.view(np.int16)).cuda() for each in (x, weight, projection)]
        codes, scale = on_gpu(bits[0].view(torch.bfloat16), bits[1].view(torch.bfloat16))
        out = product(codes, scale, bits[2].view(torch.bfloat16)).float().cpu().numpy()
        codes, scale = codes.float().cpu().numpy(), scale.cpu().numpy()
    else:
        place = "emulator"
        codes, scale = emulated(x, weight)
        out = product(codes, scale, projection).astype(np.float32)
    x, weight, projection = (each.astype(np.float64) for each in (x, weight, projection))
    y = x / np.sqrt(np.mean(x**2, axis=1, keepdims=True) + EPSILON) * weight
    # A code is within half a unit: 2^-4 of what is at least 2^-6, and 2^-10 below.
    off = np.abs(codes.astype(np.float64) - y / scale) / np.maximum(np.abs(y / scale), 2.0**-6) * 2**4
    error = np.linalg.norm(out - y @ projection.T) / np.linalg.norm(y @ projection.T)
    print(f"{place}: codes are within {off.max():.3f} half units, the product within {error:.3%} of float64's")
    return int(off.max() > 1.001 or error > 0.05)


def product(codes: Any, scale: Any, projection: Any) -> Any:
    """The product of what is quantized with a projection (outputs, columns), which is quantized by rows."""
    codes_p, scale_p = tw.quantize(projection, "fp8_e4m3", block="row")
    return tw.matmul(codes, codes_p.T, recipe="row", scale_a=scale, scale_b=scale_p.T)


if __name__ == "__main__":
    sys.exit(main())
