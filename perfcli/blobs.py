"""Packs texts that are kept beside a run: each is named by its content and packed once, where it is
made."""

from __future__ import annotations

import base64
import hashlib
import zlib

MOST_BYTES = 32 << 20
"""The largest text that is unpacked, in bytes."""


def blob_id(text: str) -> str:
    """Return SHA-256 (hex) of the text."""
    return hashlib.sha256(text.encode()).hexdigest()


def pack(text: str) -> str:
    """Return the text compressed (zlib) and in base64: what goes through pipes and into files."""
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def unpack(packed: str) -> str:
    """Return the text again. Raises ``ValueError`` for what ``pack`` did not make, and for a text
    of more than ``MOST_BYTES``: a file of a few megabytes can hold one of gigabytes."""
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(base64.b64decode(packed, validate=True), MOST_BYTES)
        if unpacker.unconsumed_tail:
            raise ValueError(f"larger than {MOST_BYTES >> 20} MiB")
        if not unpacker.eof:
            raise ValueError("truncated")
        return text.decode()
    except (ValueError, zlib.error) as error:
        raise ValueError(f"not a packed text: {error}") from error
