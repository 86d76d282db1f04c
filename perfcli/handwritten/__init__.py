"""The worker's side of hand-written kernels: compiled without a device, checked, timed."""
