"""Takes two revisions of the user's repository, or a list of interpreters in order; gives the
first one that is worse, by the metrics and the clock of bisect-config.

Never changes the user's checkout: commits are compiled and measured in worktrees that vanish.
"""
