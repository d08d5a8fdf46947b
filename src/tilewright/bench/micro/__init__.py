"""Microbenchmarks: one instruction at a time, its result checked and its clocks counted."""
