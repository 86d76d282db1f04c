"""Patches that are set like options (``options.patches``): one file each.

Takes a patch's name and value; replaces pieces of the torch in this process, counts how often what
it put there acted, and puts everything back when told to. It never changes a file of torch.
"""
