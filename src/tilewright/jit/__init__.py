"""From a kernel's Config to a compiled kernel: source, NVRTC, cache, listings."""
