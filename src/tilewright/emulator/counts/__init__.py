"""Observers that count."""
