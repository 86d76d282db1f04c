"""Holds the hand-written Triton kernels, one family per folder; ``perfcli.loading.registry`` finds
them.

A family's ``__init__.py`` takes a problem and a target and gives a plan of launches, without torch;
its ``code.py`` runs the plan. A file that starts with ``_`` is no family.
"""
