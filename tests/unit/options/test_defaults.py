from __future__ import annotations

from typing import Any

import pytest

from perfcli.options.catalogue import UNKNOWN, InductorOption, _read_config
from perfcli.options.listing import accepts, differences, is_default


def options(source: str) -> dict[str, InductorOption]:
    return {entry.name: entry for entry in _read_config(source)}


@pytest.mark.parametrize(
    ("kind", "value", "allowed"),
    [
        ("bool", True, True),
        ("bool", 1, False),
        ("int", 1, True),
        ("int", True, False),
        ("int", 1.0, False),
        ("int", None, False),
        ("int | None", None, True),
        ("float", 0.5, True),
        ("float | None", 1, False),
        ("Literal['none', 'all']", "all", True),
        ("Literal['none', 'all']", "some", False),
        ("Literal[0, 1]", 1, True),
        ("str", "fast", True),
        ("list[str]", ["a"], True),
        ("list[str]", [1], False),
        ("Callable[[int], int]", 1, False),
    ],
)
def test_a_type_allows_a_value_just_as_it_is(kind: str, value: Any, allowed: bool) -> None:
    assert accepts(InductorOption("x", kind, ""), value) is allowed


def test_one_is_not_true() -> None:
    assert is_default(InductorOption("x", "bool", "True", True), True)
    assert not is_default(InductorOption("x", "bool", "True", True), 1)
    assert not is_default(InductorOption("x", "int", "1", 1), True)
    assert not is_default(InductorOption("x", "int", "?", UNKNOWN), 1)


def test_differences_of_two_installations() -> None:
    before = options(
        "import os\n"
        "same = 3\n"
        "split = True\n"
        "z_limit: int | None = 8\n"
        "# explained\n"
        "stages = False\n"
        "old = 1\n"
        "threads = count()\n"
        "machine = count()\n"
    )
    after = options(
        "import os\n"
        "same = 3\n"
        'split = os.environ.get("SPLIT", "1") == "1"\n'
        "z_limit: int | None = None\n"
        "stages = True\n"
        "# explained\n"
        "reads = 10\n"
        "new = 1\n"
        "threads = count()\n"
        "machine = 2 * count()\n"
    )
    found = differences(before, after)
    assert [(c.name, c.before.value, c.after.value) for c in found.changed] == [
        ("stages", False, True),
        ("z_limit", 8, None),
    ]
    assert [c.name for c in found.undecided] == ["machine"]
    assert [e.name for e in found.only_before] == ["old"]
    assert [e.name for e in found.only_after] == ["reads", "new"]
    assert all(c.settable_after for c in found.changed)


def test_the_other_way_round_is_the_mirror() -> None:
    before, after = options("a = 1\nb = 1\n"), options("b = 2\nc = 3\n")
    there, back = differences(before, after), differences(after, before)
    assert [(c.before, c.after) for c in there.changed] == [
        (c.after, c.before) for c in back.changed
    ]
    assert (there.only_before, there.only_after) == (back.only_after, back.only_before)
    assert differences(before, before) == differences({}, {})


def test_a_default_that_the_other_torch_cannot_take() -> None:
    (change,) = differences(options("x: int = 10"), options("x: bool | None = None")).changed
    assert not change.settable_after
    (change,) = differences(options("x: int | None = None"), options("x: int = 10")).changed
    assert not change.settable_after
    (change,) = differences(options("x = 1"), options("x = f()")).undecided
    assert change.settable_after
