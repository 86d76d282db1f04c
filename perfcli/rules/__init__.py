"""One diagnosis per file, found by the registry.

Takes a ``Run`` or a ``Comparison``; gives ``Finding``s. Pure: a rule reads no file and imports no
torch, and what the run does not know raises nothing.
"""
