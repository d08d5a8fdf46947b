"""Kernel `wgmma`: its Config and Constants, what it takes, the space that it chooses from, and its rules."""
