"""torch.compile to kernels: the only place that touches private corners of torch."""
