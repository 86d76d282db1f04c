"""From a kernel's source to machine code for the target, in parallel processes, kept by content."""
