"""The only code that measures time. It knows nothing of kernels and times whatever a callable launches."""
