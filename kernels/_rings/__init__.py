"""Cuts long rows among programs that stay on the device and stream them through shared memory, and
lets these tell each other what they find of a row. Families of kernels say what that is."""
