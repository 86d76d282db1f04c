"""Decode JSON into our types. All decoding into a type goes through here: msgspec (seen with 0.22)
describes a class when its first decoder is made, and another thread that meets the unfinished
description crashes the process, so one decoder is made at a time."""

from __future__ import annotations

import os
import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_made: dict[Any, msgspec.json.Decoder[Any]] = {}
_making = threading.RLock()
os.register_at_fork(
    before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release
)


def decode(text: bytes | str | msgspec.Raw, kind: type[T]) -> T:
    """Return a value of a type from its JSON. Raises msgspec.DecodeError where it is none."""
    return decoder(kind).decode(text)


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return what decodes JSON into a type, made once."""
    with _making:
        if kind not in _made:
            _made[kind] = msgspec.json.Decoder(kind)
        return _made[kind]


def convert(plain: Any, kind: type[T]) -> T:
    """Return a value of a type from dicts, lists and numbers. Raises msgspec.ValidationError where
    they are none."""
    with _making:
        return msgspec.convert(plain, kind)
