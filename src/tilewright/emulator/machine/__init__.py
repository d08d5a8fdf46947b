"""Runs programs and tells observers what happens; it knows neither checks nor counters."""
