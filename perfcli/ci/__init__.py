"""What ``init-ci`` writes: the gate's configuration and files for CI services."""
