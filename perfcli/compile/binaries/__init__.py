"""Compiles a kernel's source to machine code for the target.

Takes a kernel's text as Inductor wrote it; gives one ``Candidate`` per launch configuration,
compiled in parallel processes and kept on disk by content. Nothing is ever launched.
"""
