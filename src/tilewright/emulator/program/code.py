"""The statements of a generated function while it is written.

Generated code has short names: m is the machine, g the group; B1, B2, B4 and B8 are the register file, by bytes of a
register; U holds uniform registers; D tells for each suspect whether some lane may lack a value; vN are variables and
kN constants.
"""

from typing import Any

import numpy as np

from tilewright.emulator.semantics import scalars

DTYPES = {
    "pred": "b1", "b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "f16": "u2", "bf16": "u2",
    "b32": "u4", "u32": "u4", "s32": "i4", "f16x2": "u4", "bf16x2": "u4", "f32": "f4",
    "b64": "u8", "u64": "u8", "s64": "i8", "f64": "f8",
}  # fmt: skip
"""PTX type -> the NumPy type in generated code: kind and bytes. 16-bit floats are handled as bits."""


class Code:
    """The statements of one function: its lines so far, its variables and its constants.

    site: the index of the current instruction.
    active: the variable with its guard, None without a guard.
    namespace: the objects that the statements may name; all functions of a program share its constants.
    """

    def __init__(self, name: str, namespace: dict[str, Any]) -> None:
        self.lines = [
            f"def {name}(m, g):",
            " lanes = g.lanes",
            " B1, B2, B4, B8 = m.banks",
            " U = m.uniforms",
            " D = m.poison.doubtful",
        ]
        self.namespace = namespace
        self.active: str | None = None
        self.site = 0
        self._variables = 0

    @property
    def active_group(self) -> str:
        """An expression for the lanes where the current guard holds."""
        return f"g.active({self.active})" if self.active else "g"

    def emit(self, line: str) -> None:
        """Add a statement."""
        self.lines.append(" " + line)

    def variable(self, expression: str) -> str:
        """A fresh variable with the value of an expression."""
        self._variables += 1
        name = f"v{self._variables}"
        self.emit(f"{name} = {expression}")
        return name

    def constant(self, value: Any, dtype: str | None = None) -> str:
        """The name of a constant object; numbers get a dtype and wrap to it."""
        if dtype is not None:
            value = _scalar(value, dtype)
        key = f"{type(value).__name__}:{value!r}"
        names = self.namespace["__constants__"]
        if key not in names:
            names[key] = f"k{len(names)}"
            self.namespace[names[key]] = value
        return str(names[key])


def _scalar(value: Any, dtype: str) -> Any:
    """A NumPy scalar; integers wrap, and give the bits of floating-point types."""
    if dtype == "b1":
        return np.bool_(bool(value))
    width = int(dtype[1:])
    unsigned = np.dtype(f"u{width}").type(int(value) & ((1 << 8 * width) - 1))
    return unsigned.view(getattr(scalars, dtype))
