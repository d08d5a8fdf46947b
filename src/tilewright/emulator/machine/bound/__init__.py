"""What the host binds for kernels: images by handles, and several places of memory by one address."""
