"""Worker processes: the parent's side, the child's side, and the protocol between them.

Takes requests; gives replies as they come, or one error that says how the process ended. Whatever a
model prints, allocates or crashes stays in the child.
"""
