"""The parent: two workers, asked in turns, and what they said written down at once."""
