"""What the terminal shows, part by part.

Takes runs, comparisons and findings; gives what rich prints, on 60 columns as well as on 200. The
words come from ``_rows/``.
"""
