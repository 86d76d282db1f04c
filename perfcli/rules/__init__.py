"""Holds one diagnosis per file, found by the registry. Pure: a run or a comparison in, findings
out.

Takes a ``Run`` or a ``Comparison``; gives ``Finding``s. Pure: a rule reads no file and imports no
torch, and what the run does not know raises nothing.
"""
