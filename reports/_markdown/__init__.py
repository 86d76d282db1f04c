"""Markdown documents, section by section."""
