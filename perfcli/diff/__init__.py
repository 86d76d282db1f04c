"""Two runs to a comparison: matched, counted and concluded.

Takes two ``Run``s; gives a ``Comparison`` with groups of kernels, changes and a verdict. Pure: it
reads no file, asks no clock, and never imports torch.
"""
