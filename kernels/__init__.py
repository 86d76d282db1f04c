"""Hand-written Triton kernels, one family per folder; found by ``perfcli.loading.registry``.

A family's ``__init__.py`` takes a problem and a target and gives a plan of launches, without torch;
its ``code.py`` runs the plan. A file that starts with ``_`` is no family.
"""
