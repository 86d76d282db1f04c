from __future__ import annotations

import pytest

from perfcli import units


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (7, "7"), (1234, "1,234"), (1234567.0, "1,234,567"), (2.5, "2.5")],
)
def test_count(value: float | None, text: str) -> None:
    assert units.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_499, "999 kB"),
        (999_501, "1 MB"),
        (1_536_000, "1.54 MB"),
        (3_400_000_000, "3.4 GB"),
        (2.5e15, "2.5 PB"),
        (2.5e18, "2,500 PB"),
        (-1500, "-1.5 kB"),
    ],
)
def test_size_is_decimal(value: float | None, text: str) -> None:
    assert units.size(value) == text


def test_exact_bytes() -> None:
    assert units.exact_bytes(112928) == "112,928 B"
    assert units.exact_bytes(None) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (3.14e-10, "0.314 ns"),
        (61.2e-9, "61.2 ns"),
        (4.21e-6, "4.21 µs"),
        (999.6e-6, "1 ms"),
        (0.25, "250 ms"),
        (1.0, "1 s"),
        (12.54, "12.5 s"),
        (119.0, "119 s"),
        (119.6, "2 min 0 s"),
        (185, "3 min 5 s"),
    ],
)
def test_seconds(value: float | None, text: str) -> None:
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.5, "50 %"), (0.12345, "12.3 %"), (9.99, "999 %"), (109.28, "10,928 %")],
)
def test_percent(value: float | None, text: str) -> None:
    assert units.percent(value) == text


def test_signed() -> None:
    assert units.signed(units.count, 92) == "+92"
    assert units.signed(units.size, -1_500_000) == "−1.5 MB"
    assert units.signed(units.count, 0) == "0"
    assert units.signed(units.count, None) == "–"


@pytest.mark.parametrize(
    ("base", "head", "text"),
    [
        (100, 109.4, "+9.4 %"),
        (10, 5, "−50 %"),
        (0, 5, ""),
        (5, 5, ""),
        (None, 5, ""),
        (5, None, ""),
    ],
)
def test_relative(base: float | None, head: float | None, text: str) -> None:
    assert units.relative(base, head) == text


def test_plural() -> None:
    assert units.plural(1, "kernel") == "1 kernel"
    assert units.plural(0, "kernel") == "0 kernels"
    assert units.plural(2000, "launch", "launches") == "2,000 launches"


def test_a_metric_without_an_entry_is_still_shown() -> None:
    assert units.title("warp_stalls") == "warp stalls"
    assert units.writer("warp_stalls")(1234) == "1,234"


def test_printable() -> None:
    assert units.printable("a\x1b[31m\x00\r\u202e\x7f\x9bb\n\tc é λ") == "a�[31m�����b\n\tc é λ"
