"""Compiles a kernel's source to machine code for the target, in parallel processes, and keeps the
result by content."""
