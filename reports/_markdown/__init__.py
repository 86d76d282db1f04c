"""Markdown documents, section by section.

Takes a ``Judgement``; gives sections with ranks, of which as many are kept as fit. No foreign text
becomes markup.
"""
