"""The committed baseline: what a run's facts look like in a file that people review; pure."""
