"""What tools/ladder_pictures.py draws with: requests recorded from the emulator, and panels."""
