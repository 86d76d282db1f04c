"""Counts the work of one launch: what a kernel's index arithmetic and machine code ask of a device.

Takes TTGIR and SASS of one launch configuration with the launch's sizes and grid, and gives counts
(``LaunchWork``). It knows no device's speed: an estimate of seconds is made of these counts.
"""

COUNTING = 12
"""The version of counting, a part of the key of everything that keeps counts: raise it when work is
counted differently."""
