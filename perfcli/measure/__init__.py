"""Builds, checks, runs and times a step; in a worker process, the room that touches torch."""
