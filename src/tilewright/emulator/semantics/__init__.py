"""The meaning of instructions: pure functions of arrays, without a machine."""
