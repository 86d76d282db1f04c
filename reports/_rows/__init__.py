"""Rows, cells and lines as text, which every format shows."""
