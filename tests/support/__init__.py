"""What the tests share: generated cases, their memory, the float64 reference, doubles and the record of GPU runs."""
