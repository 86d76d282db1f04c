"""From a question to a verdict: request, run, measurement, pair, fixes.

Takes what was typed (a scenario, options, interpreters); gives stored runs and concluded
comparisons. Commands, the library, the gate and searches call this room. It never prints anything
but notes.
"""
