"""Hand-written Triton kernels, one family per file; found by perfcli.loading.registry."""
