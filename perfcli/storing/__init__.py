"""Stores runs and measurements on disk: the file of one, and the folder of all.

Takes a run with its texts; gives a file that stands alone, and reads it back: it is written whole
or not at all. A measurement's file grows round by round, and is found by the ids of its two runs.
"""
