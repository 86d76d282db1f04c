"""One diagnosis per file, found by the registry. Pure: a run or a comparison in, findings out."""
