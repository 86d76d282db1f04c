"""Runs a user's script as a whole, as Python would run it, and records what it compiles.

Takes a ``ScriptCommand``; gives what ``session`` makes a run of: the captured graphs of one step,
and each use of ``torch.compile``. On a target that is not here, tensors of the device are fake and
the host's own are real.
"""
