"""What the terminal shows, part by part."""
