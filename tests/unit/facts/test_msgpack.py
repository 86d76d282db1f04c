from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perfcli.facts.binary.msgpack import decode


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        127,
        128,
        255,
        65_535,
        2**31,
        2**40,
        -1,
        -32,
        -33,
        -200,
        -40_000,
        -(2**40),
        "",
        "x" * 31,
        "é" * 40,
        "y" * 300,
        "z" * 70_000,
        [],
        list(range(15)),
        list(range(300)),
        {"a": 1},
        {str(n): [n, {"b": None}] for n in range(40)},
    ],
)
def test_what_another_library_writes_is_read(value: Any) -> None:
    assert decode(msgspec.msgpack.encode(value)) == value


@pytest.mark.parametrize("data", [b"", b"\x92\x01", b"\xd9\x05abc", b"\xcd\x01"])
def test_a_value_that_is_cut_off_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="expected a whole MessagePack value"):
        decode(data)


def test_other_kinds_of_values_are_refused() -> None:
    with pytest.raises(ValueError, match="0xcb"):
        decode(msgspec.msgpack.encode(1.5))
