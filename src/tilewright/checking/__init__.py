"""Checks in the emulator: kernels run under every order of asynchronous completion, and what is found about them.

`call` is `tilewright.check`, for PTX of any compiler; `kernels` checks tilewright's own.
"""
