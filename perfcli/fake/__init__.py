"""Executors that make everything up, so that the command line is tested without torch."""
