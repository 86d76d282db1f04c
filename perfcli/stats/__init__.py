"""From raw times to ratios, intervals and verdicts. Pure; SciPy is imported when needed."""
