"""Stands in for the device that is not there: answers torch's questions about it."""
