"""Output formats, one per file; found by perfcli.loading.registry."""
