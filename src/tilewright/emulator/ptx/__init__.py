"""PTX text becomes data, or is refused."""
