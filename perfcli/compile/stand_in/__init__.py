"""The device that is not there: what answers torch's questions about it."""
