"""The worker's side of hand-written kernels: compiled without a device, checked, timed.

Takes plans of launches, cases and problems; gives candidates, errors against a reference, and
seconds. It never chooses a launch: the family's ``plan`` does.
"""
