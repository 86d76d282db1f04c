"""``perfcli noise``: pairs of identical variants, and what they differ by.

Takes a scenario; gives a noise floor, stored for this kind of machine, and its report. It measures
exactly as ``compare`` does.
"""
