"""Answers which attention backend the target would take."""
