"""Two runs to a comparison. Pure."""
