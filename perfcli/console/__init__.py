"""What commands print and write: notes and progress on stderr, reports on stdout, files.

Takes comparisons, judgements and texts; gives lines on a stream or files. It never decides what a
report says: that is up to ``reports/``.
"""
