"""From raw times to ratios, intervals and verdicts.

Takes a ``Measurement``; gives a ``Timing``. Pure: no clock and no file; numpy and SciPy are
imported when they are needed.
"""
