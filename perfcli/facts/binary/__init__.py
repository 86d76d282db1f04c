"""Reads what machine code says of a kernel: registers, spills, memory instructions.

Takes a cubin or an AMD code object and its listing; gives numbers per kernel and per source line.
The code is read, and never run.
"""
