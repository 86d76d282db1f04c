"""What commands say: notes and progress on stderr, reports on stdout, documents in files."""
