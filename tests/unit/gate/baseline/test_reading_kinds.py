"""Values of a kind that perfcli does not write, and what is written for every kind it does."""

from __future__ import annotations

import re
import tomllib

import pytest
from handmade import candidate, kernel, origins, run

from perfcli.errors import PerfcliError
from perfcli.gate.baseline import facts, file, reading
from perfcli.gate.baseline import file as toml
from perfcli.gate.baseline.reading import Made
from perfcli.model import ExternCall, Finding


def text() -> str:
    spilling = kernel(
        "a_1", stack=8, origins=origins("mul"), candidates=(candidate(stack_bytes=8),)
    )
    head = run(
        [spilling],
        peak=10**9,
        externs=(ExternCall("aten.mm", "forward 0", 4),),
        graph_breaks={"reason": 2},
        params={"rows": 32, "dtype": "bfloat16", "learned": True, "eps": 1e-5},
    )
    found = Finding("PC101", "warning", "…", (0,), metric="spilled_words", amount=2)
    made = Made("2026-11-22", "first", "abc")
    return file._text({"norm@h100": file.BaselineCheck(made, facts._plain(head, (found,)))})


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ('torch = "2.13.0"', "torch = 3", "torch is 3, not text"),
        ('reason = "first"', "reason = 3", "reason is 3, not text"),
        (r"params = \{.*\}", "params = 3", "params is 3, not a table"),
        ("rows = 32", "rows = [1]", r"params.rows is [1], not true or false or a whole number or"),
        ("eps = 1e-05", "eps = nan", "params.eps is nan, not a finite number"),
        ("dynamic = false", "dynamic = 0", "dynamic is 0, not true or false"),
        ("stack = 8", 'stack = "a"', "kernels[1].configurations[1].stack is 'a', not a whole"),
        ("warps = 4", "warps = 4.5", "warps is 4.5, not a whole number"),
        ("occupancy = [0-9.]+", "occupancy = inf", "occupancy is inf, not a finite number"),
        ("launches = 1", "launches = true", "launches is True, not a number"),
        ("bytes_read = 1000", "bytes_read = nan", "bytes_read is nan, not a finite number"),
        ('severity = "warning"', 'severity = "grave"', "'grave', not one of error"),
        ("amount = 2", 'amount = "2"', "findings[1].amount is '2', not a number"),
        ('"aten.mm" = 4', '"aten.mm" = "4"', "externs.forward 0.aten.mm is '4', not a whole"),
        ("reason = 2", "reason = nan", "graph_breaks.reason is nan, not a whole number"),
    ],
)
def test_a_value_of_another_kind_names_the_check(was: str, now: str, says: str) -> None:
    broken, number = re.subn(was, now, text())
    assert number
    with pytest.raises(PerfcliError) as caught:
        file._read(broken, "file")
    assert str(caught.value).startswith("file: check norm@h100 is broken (")
    assert says in str(caught.value)


def test_a_format_is_a_number() -> None:
    with pytest.raises(PerfcliError, match="no baseline of perfcli"):
        file._read("format = true\n", "file")


def test_every_key_that_is_written_has_a_kind() -> None:
    (table,) = tomllib.loads(text())["checks"].values()
    assert set(table) - {"created"} <= set(reading._CHECK)
    assert set(table["kernels"][0]) <= set(reading._KERNEL)
    assert set(table["findings"][0]) <= set(reading._FINDING)
    assert set(table["kernels"][0]["configurations"][0]) <= set(reading._CONFIGURATION)
    assert "\n".join(toml._pairs({"params": table["params"]})) in text()
