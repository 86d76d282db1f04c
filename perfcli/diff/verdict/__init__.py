"""Says what a comparison comes to: better, worse, the same or unknown, and why.

Takes a comparison with all its evidence; gives the same comparison with its verdict. Only
``conclude.py`` sets one, from wrong results, measured times, estimated times, counts and
findings, in this order.
"""
