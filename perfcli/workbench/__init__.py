"""``perfcli kernels``: hand-written kernels listed, compiled, checked, timed and probed."""
