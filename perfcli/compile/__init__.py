"""Compiles a model with torch.compile into kernels; the only room that touches private corners of
torch."""
