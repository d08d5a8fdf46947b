"""Observers that report violations of the rules of the PTX manual."""
