"""Collects what several rules look at: names, launches, splits, sweeps.

Takes runs and kernels; gives numbers and texts for findings. It raises no finding itself.
"""
