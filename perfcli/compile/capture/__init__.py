"""Takes kernels, launches and graphs out of Inductor while it generates code."""
