"""Worker processes: the parent's side, the child's side, and the protocol between them."""
