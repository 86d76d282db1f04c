"""``perfcli gate``: checks held against a base, within limits.

Takes a configuration and a base (a baseline, a revision or an interpreter); gives a ``Judgement``.
It never changes the baseline: only ``baseline update`` does.
"""
