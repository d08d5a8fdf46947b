"""The distributions of the numbers that tilewright multiplies when it measures or checks."""

from typing import Literal, TypeAlias

Data: TypeAlias = Literal["randn", "uniform", "2:4"]
"""Normal; uniform from -1 to 1; or normal with an A for sparse tensor cores, in which the smaller two of four
neighbors along k are zero. All zeros is not a choice: power depends on the bits.
"""
