"""Texts kept beside a run: named by content, packed once where they are made."""

from __future__ import annotations

import base64
import hashlib
import zlib


def blob_id(text: str) -> str:
    """SHA-256 (hex) of the text."""
    return hashlib.sha256(text.encode()).hexdigest()


def pack(text: str) -> str:
    """The text compressed (zlib) and in base64: what goes through pipes and into files."""
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def unpack(packed: str) -> str:
    """The text again. Raises ``ValueError`` for what ``pack`` did not make."""
    try:
        return zlib.decompress(base64.b64decode(packed, validate=True)).decode()
    except (ValueError, zlib.error) as error:
        raise ValueError(f"not a packed text: {error}") from error
