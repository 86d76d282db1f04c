"""Reads what a kernel's source says of it: loads, stores, sweeps, arithmetic.

Takes the text of a Triton or C++ kernel; gives ``SourceFacts``. The text is parsed and never run.
"""
