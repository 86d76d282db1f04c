"""Runs on disk: the file of one, and the folder of all."""
