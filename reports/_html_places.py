"""Addresses within the page: the id of each kernel, and of the page of its group."""

from __future__ import annotations


def check_id(check: int) -> str:
    return f"check-{check}"


def kernel_id(check: int, side: str, number: int) -> str:
    """``kernel-0-head-12``: what links name."""
    return f"kernel-{check}-{side}-{number}"


def page_id(check: int, group: int) -> str:
    return f"group-{check}-{group}"
