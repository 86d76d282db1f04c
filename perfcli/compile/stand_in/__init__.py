"""Stands in for the device that is not there: answers torch's questions about it.

Takes a ``Target``; gives torch, Inductor and Triton the answers that the real device would give.
It never measures: a choice that needs a measurement becomes an assumption, and a note in the run.
"""
