"""Compiles hand-written kernels without a device, checks and times them: the worker's side.

Takes plans of launches, cases and problems; gives candidates, errors against a reference, and
seconds. It never chooses a launch: the family's ``plan`` does.
"""
