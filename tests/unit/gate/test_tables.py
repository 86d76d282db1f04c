"""Values of a table, of their kinds, and what is said of others."""

from __future__ import annotations

import math

import pytest

from perfcli.errors import PerfcliError
from perfcli.gate.tables import SettingsTable, _amount, _shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (1, "1"),
        ("a" * 58, f"'{'a' * 58}'"),
        ("a" * 59, f"'{'a' * 56}…"),
    ],
)
def test_values_are_shown_in_sixty_characters(value: object, text: str) -> None:
    assert _shown(value) == text


def test_where_a_key_stands() -> None:
    assert SettingsTable({}, "perfcli.toml").at("limits") == "perfcli.toml: limits"
    assert SettingsTable({}, "pyproject.toml: tool").at("limits") == "pyproject.toml: tool.limits"
    with pytest.raises(PerfcliError, match="x has to be a table, not 3"):
        SettingsTable(3, "x")


def test_kinds() -> None:
    table = SettingsTable({"i": 3, "f": 1.5, "b": True, "s": "x", "big": 10**400}, "t")
    assert table.take("i", float, 0.0) == 3.0
    assert type(table.take("i", float, 0.0)) is float
    assert table.take("big", float, 0.0) == math.inf
    assert table.take("b", bool, False) is True
    assert table.take("none", bool, False) is False
    for name, kind in (("b", int), ("b", float), ("f", int), ("s", bool), ("i", str)):
        with pytest.raises(PerfcliError, match=f"t: {name} needs "):
            table.take(name, kind, kind())
    with pytest.raises(PerfcliError, match="t has no x: it is needed"):
        table.need("x", str, "it is needed")
    with pytest.raises(PerfcliError, match=r"t has no x$"):
        table.need("x", str)


def test_amounts() -> None:
    table = SettingsTable({"zero": 0, "less": -1}, "t")
    assert table.amount("zero") == 0.0
    assert table.amount("none") is None
    assert table.amount("none", 3.0) == 3.0
    with pytest.raises(PerfcliError, match="t: less needs a number from 0 on that is finite"):
        table.amount("less")
    assert _amount(0.5, "x") == 0.5


def test_texts_and_tables() -> None:
    table = SettingsTable(
        {"one": "a", "more": ["a", "b"], "bad": ["a", 3], "each": [{"x": 1}, 5]}, "t"
    )
    assert (table.texts("one"), table.texts("more"), table.texts("none")) == (
        ("a",),
        ("a", "b"),
        (),
    )
    with pytest.raises(PerfcliError, match="t: bad needs text in quotes or a list of it"):
        table.texts("bad")
    with pytest.raises(PerfcliError, match=r"t: each\[2\] has to be a table, not 5"):
        table.tables("each")
    assert table.tables("none") == []
    SettingsTable({}, "t").done()
    with pytest.raises(PerfcliError, match="t has an unknown key 'y': known: yes"):
        unknown = SettingsTable({"y": 1}, "t")
        unknown.take("yes", str, "")
        unknown.done()
