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
        (2.5e18, "2.5 EB"),
        (2.5e21, "2,500 EB"),
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


@pytest.mark.parametrize(
    ("base", "head", "text"),
    [
        (12.31e-3, 12.7e-3, "12.31 → 12.70 ms"),
        (999.96e-6, 1.2e-3, "1.000 → 1.200 ms"),
        (999.96e-6, 2e-9, "1.000 → 0.000 ms"),
        (361e-6, 512e-6, "361.0 → 512.0 µs"),
        (9.99996e-3, 1e-3, "10.00 → 1.00 ms"),
        (999.94e-6, 1e-6, "999.9 → 1.0 µs"),
        (2.5, 130.0, "2.5 → 130.0 s"),
        (None, 3.1e-6, "– → 3.100 µs"),
        (3.1e-6, None, "3.100 µs → –"),
        (None, None, "– → –"),
        (0.0, 0.0, "0 → 0 s"),
        (61.23e-9, 61.0e-9, "61.23 → 61.00 ns"),
    ],
)
def test_two_times_have_one_unit(base: float | None, head: float | None, text: str) -> None:
    assert units.from_to(base, head) == text


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        (1.0317, 1.0262, 1.0372, "+3.2 % [+2.6, +3.7]"),
        (0.9, 0.88, 0.92, "−10.0 % [−12.0, −8.0]"),
        (1.0004, 0.9999, 1.0009, "+0.04 % [−0.01, +0.09]"),
        (1.0, 0.9996, 1.00003, "0.00 % [−0.04, 0.00]"),
        (1.4, 1.2, 1.6, "+40 % [+20, +60]"),
        (5.0, 4.98, 5.02, "+400 % [+398, +402]"),
        (21.0, 20.0, 22.0, "+2,000 % [+1,900, +2,100]"),
        (1.031, None, None, "+3.1 %"),
        (None, None, None, "–"),
    ],
)
def test_a_ratio_with_its_interval(
    ratio: float | None, low: float | None, high: float | None, text: str
) -> None:
    assert units.interval(ratio, low, high) == text


def test_an_interval_with_more_decimals_than_it_deserves() -> None:
    assert units.interval(1.0153, 1.008, 1.026, least=2) == "+1.53 % [+0.80, +2.60]"
    assert units.interval(1.0004, 0.9999, 1.0009, least=1) == "+0.04 % [−0.01, +0.09]"


def test_rate() -> None:
    assert units.rate(2.41e12) == "2.41 TB/s"
    assert units.rate(None) == "–"


def test_plural() -> None:
    assert units.plural(1, "kernel") == "1 kernel"
    assert units.plural(0, "kernel") == "0 kernels"
    assert units.plural(2000, "launch", "launches") == "2,000 launches"


def test_a_metric_without_an_entry_is_still_shown() -> None:
    assert units.title("warp_stalls") == "warp stalls"
    assert units.writer("warp_stalls")(1234) == "1,234"


def test_printable() -> None:
    assert units.printable("a\x1b[31m\x00\r\u202e\x7f\x9bb\n\tc é λ") == "a�[31m�����b\n\tc é λ"


@pytest.mark.parametrize(
    ("whole", "least", "most", "text"),
    [
        (True, 1, None, "a whole number of 1 or more"),
        (False, 0.01, 1000, "a number from 0.01 to 1000"),
        (False, None, 5, "a number of 5 or less"),
        (False, None, None, "a number"),
    ],
)
def test_what_a_number_may_be(
    whole: bool, least: float | None, most: float | None, text: str
) -> None:
    assert units.number_range(whole, least, most) == text
