"""One subcommand per file."""
