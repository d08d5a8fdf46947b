"""Kernel `wgmma`."""
