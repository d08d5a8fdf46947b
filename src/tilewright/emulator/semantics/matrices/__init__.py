"""Matrix instructions: fragments in registers, products, and how tensor cores add."""
