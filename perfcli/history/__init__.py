"""What runs and comparisons said, kept over months and machines: ``perfcli history``.

Takes stored runs, and the JSON of compare and gate; gives series, the changes in them with what
lies behind each, and pages about all of it. Never compiles, never measures, and never changes what
was written.
"""
