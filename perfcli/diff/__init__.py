"""Turns two runs into a comparison: matches kernels, counts, and concludes.

Takes two ``Run``s; gives a ``Comparison`` with groups of kernels, changes and a verdict. Pure: it
reads no file, asks no clock, and never imports torch.
"""
