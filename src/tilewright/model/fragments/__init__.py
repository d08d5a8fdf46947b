"""Fragments: which lane holds which elements of a matrix in which register, for each instruction of tensor cores."""
