"""What bisect-config searches: candidates, metrics, what counts as bad, its file. Pure."""
