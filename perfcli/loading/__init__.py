"""Finds scenarios, kernels, rules and reports by name, and a user's own by path.

Takes what was typed; gives what the file declares, or an error in the user's words. Nothing else
imports these files by name.
"""
