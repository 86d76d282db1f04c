"""Output formats, one per file; found by ``perfcli.loading.registry``.

Takes a ``Comparison`` or a ``Judgement``; gives a text or something to print. Pure: a report reads
no file and no clock, decides nothing, and imports only the model.
"""
