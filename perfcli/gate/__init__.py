"""What a gate is told to hold, and whether a comparison keeps it; pure."""
