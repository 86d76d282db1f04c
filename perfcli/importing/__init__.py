"""Makes runs of what other programs wrote: profilers' traces and memory snapshots, and the folders
in which torch.compile leaves its code.

Takes paths; gives a run as compiling gives one, with the times that were recorded
(``Run.observed``). It never runs what it reads: no pickle is loaded, no code is imported.
"""
