"""Builds, checks, runs and times a step: the worker's side of a measurement.

Takes a ``MeasureRequest`` and then ``Ask``s; gives ``Prepared`` and ``Turn``s of raw seconds. It
knows nothing of the other side, and judges no time.
"""
