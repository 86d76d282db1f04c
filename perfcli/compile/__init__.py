"""Compiles a model with torch.compile into kernels.

Takes a ``CompileRequest`` in a worker process; gives a ``Run`` and its texts. No other room touches
private corners of torch. Without a device it never asks a driver: ``stand_in/`` answers instead.
"""
