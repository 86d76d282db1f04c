"""Reads profilers' traces: torch.profiler's JSON and Nsight Systems' SQLite.

Takes a file; gives a ``Recording``, columns of everything that the device ran, and of that an
``Observed``: what each step launched and how long it took. A file is streamed, never held as a
whole.
"""
