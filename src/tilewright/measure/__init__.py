"""The only code that measures time and power. Knows no kernel."""
