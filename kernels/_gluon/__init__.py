"""Holds what kernels that are written in Gluon share: rows as words, rings of rows in shared
memory, and what blocks tell each other."""
