"""Checks in the emulator: kernels run under several orders of asynchronous completion, and broken rules are reported.

`call` is `tilewright.check`, for PTX of any compiler; `kernels` checks tilewright's own.
"""
