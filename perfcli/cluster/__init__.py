"""Compiles on a Ray cluster: an existing one by its address, or a local one.

Takes requests as ``worker/`` does and gives back the same; Ray decides where each is compiled, and
repeats what a lost machine was at. Requests and results travel as JSON, the user's files as an
archive by content: never a pickled object. Ray (the extra ``ray``) is imported inside functions
only. What it measures is a pair of variants on the GPU that a task is lent.
"""
