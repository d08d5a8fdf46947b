"""Pictures: one style for all of them, and what several draw. They need matplotlib, the extra `plot`."""
