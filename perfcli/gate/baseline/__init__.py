"""The committed baseline: what a run's facts look like in a file that people review.

Takes a run and its findings; gives tables of TOML, and takes them back as a run to compare with.
What is unchanged keeps its bytes.
"""
