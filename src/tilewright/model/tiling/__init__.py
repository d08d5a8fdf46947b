"""What a tiling costs: bytes by level of memory, orders of the three loops, and chains of dependent operations."""
