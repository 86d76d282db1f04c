"""Rows, cells and lines as text, which every format shows.

Takes comparisons, findings and judgements; gives words and numbers as text. It knows nothing of
colours, columns or markup.
"""
