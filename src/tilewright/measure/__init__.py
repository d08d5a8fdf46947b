"""The only code that measures time. Knows no kernel: it times whatever a callable launches."""
