"""Ways to cut a product, and what they cost: bytes by level of memory, orders of loops, and chains of operations."""
