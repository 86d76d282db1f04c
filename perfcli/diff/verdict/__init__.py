"""What a comparison comes to: better, worse, the same or unknown, and why."""
