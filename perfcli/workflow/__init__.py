"""From a question to a verdict: request, run, measurement, pair, fixes.

Commands, the library, the gate and searches call this room; it prints nothing but notes.
"""
