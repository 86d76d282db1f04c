"""Finds scenarios, kernels and reports by name, and users' own by path."""
