"""Finds out what a compiled kernel is made of: source, machine code, traffic, occupancy.

Takes a kernel's texts and binaries; gives counts. It runs in workers, so it imports the standard
library only; it launches nothing, and what it can't tell is ``None``.
"""
