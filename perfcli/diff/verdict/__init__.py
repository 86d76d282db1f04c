"""Says what a comparison comes to: better, worse, the same or unknown, and why.

Takes a comparison with all its evidence; gives the same comparison with its verdict. ``decide.py``
asks wrong results, measured times, estimated times, counts and findings, in this order;
``words.py`` writes the reason; only ``conclude.py`` sets a verdict.
"""
