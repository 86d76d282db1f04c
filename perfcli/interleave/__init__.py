"""The parent's side of a measurement: two workers, asked in turns.

Takes a ``Plan`` and workers; gives a raw ``Measurement``, each round written down at once. It
judges nothing, and derives nothing from the times.
"""
