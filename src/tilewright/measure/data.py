"""The distributions of the numbers that tilewright multiplies when it measures or checks."""

from typing import Literal, TypeAlias

Data: TypeAlias = Literal["randn", "uniform", "2:4"]
"""The distributions: normal, uniform from -1 to 1, or normal with an A for sparse tensor cores.

In that A, the smaller two of each four neighbors along k are zero. All zeros is not a choice: power depends on the
bits.
"""
