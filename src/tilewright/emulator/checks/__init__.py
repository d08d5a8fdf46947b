"""Observers that report what breaks a rule of the PTX manual."""
