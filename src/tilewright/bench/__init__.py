"""Everything that runs plans to time them."""

import sys
from typing import Any


def torch_on_gpu() -> Any:
    """torch, which owns what benchmarks multiply; without it or without a GPU the program ends and says so."""
    try:
        import torch
    except ImportError:
        sys.exit(f"this benchmark needs torch and a GPU, and {sys.executable} has no torch: pip install torch")
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs torch and a GPU, and torch sees no GPU: see `tilewright doctor`")
    return torch
