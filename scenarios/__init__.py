"""Holds the shipped scenarios, one per file; perfcli.loading.registry finds them.

A scenario takes parameters and gives a ``Workload``: what to call, inputs, and mode. It imports
torch in ``build`` only. A file that starts with ``_`` is no scenario.
"""
