"""Asks two workers in turns: the parent's side of a measurement.

Takes a ``Plan`` and workers; gives a raw ``Measurement``, each round written down at once. It
judges nothing, and derives nothing from the times.
"""
