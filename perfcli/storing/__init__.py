"""Stores runs on disk: the file of one, and the folder of all.

Takes a run with its texts; gives a file that stands alone, and reads it back. A file is written
whole or not at all.
"""
