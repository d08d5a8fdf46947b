"""Benchmarks: contenders, their inputs, and the record of a comparison.

    from tilewright.bench import Inputs, Shape, Tilewright, Cublas, compare

    record = compare([Tilewright(), Cublas()], Inputs(Shape(4096, 4096, 4096)), baseline="cublas")
    record.as_dict()

Needs torch and a GPU.
"""

from tilewright.bench.comparison import Comparison, Entry, compare
from tilewright.bench.contender import Absent, Contender, Prepared
from tilewright.bench.contenders import Tilewright, TilewrightTuned
from tilewright.bench.inputs import Inputs, Shape, torch_on_gpu
from tilewright.bench.peers import Cublas, CublasLt, Quack, Triton
from tilewright.measure.protocol import Burst, Settled

__all__ = [
    "Absent",
    "Burst",
    "Comparison",
    "Contender",
    "Cublas",
    "CublasLt",
    "Entry",
    "Inputs",
    "Prepared",
    "Quack",
    "Settled",
    "Shape",
    "Tilewright",
    "TilewrightTuned",
    "Triton",
    "compare",
    "torch_on_gpu",
]
