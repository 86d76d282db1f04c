"""Inductor's options: those of an installed torch, as users write them, over releases."""
