"""Epilogues of users' own: a text becomes a tree, and the tree CUDA, a float64 value and the error of fp32."""
