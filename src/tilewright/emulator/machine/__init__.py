"""Runs programs, and tells observers what happens; it knows no check and no counter."""
