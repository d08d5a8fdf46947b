"""Arithmetic about memory: how a warp's addresses meet banks, sectors, lines and rows, and where tiles are put."""
