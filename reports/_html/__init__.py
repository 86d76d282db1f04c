"""The HTML page, part by part: frame, tables, drawings, sources.

Takes a ``Judgement``; gives what the templates fill in. The page asks for nothing from outside.
"""
