"""Turns raw times into ratios, intervals and verdicts. Pure; SciPy is imported when needed.

Takes a ``Measurement``; gives a ``Timing``. Pure: no clock and no file; numpy and SciPy are
imported when they are needed.
"""
