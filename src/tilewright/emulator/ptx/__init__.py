"""The front end: PTX text becomes data, or is refused."""
