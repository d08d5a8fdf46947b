"""Helpers of tools/ladder_pictures.py: requests recorded from the emulator, and panels."""
