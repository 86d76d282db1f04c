"""Shipped scenarios, one per file; found by perfcli.loading.registry."""
