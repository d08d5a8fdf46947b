"""The kernel families, in the order in which the planner prefers them. Adding one is a line here."""

from tilewright.kernels.family import Kernel
from tilewright.kernels.mma import MmaKernel
from tilewright.kernels.simt import SimtKernel
from tilewright.kernels.wgmma import WgmmaKernel

KERNELS: dict[str, Kernel] = {kernel.name: kernel for kernel in (WgmmaKernel(), MmaKernel(), SimtKernel())}
