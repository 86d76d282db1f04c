"""Estimates how long a step takes, without the GPU: seconds from counted work and a calibration.

Everything here is pure: ``facts/`` has counted what a launch asks for, a calibration file has the
constants of a GPU, and an estimate is what follows, with an interval.
"""
