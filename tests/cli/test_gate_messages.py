"""What perfcli gate says where something is wrong: what it is, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

CHECK = '[[checks]]\nscenario = "softmax"\n'
BASELINE = Path("perfcli-baseline.toml")


def configure(text: str) -> None:
    Path("perfcli.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('targets = ["h101"]\n' + CHECK, "perfcli.toml: targets: no target 'h101': did you mean h"),
        (CHECK + 'target = "h101"\n', "perfcli.toml: checks[1].target: no target 'h101'"),
        ('device = "cudda"\n' + CHECK, "perfcli.toml: device is cuda or cpu, not 'cudda'"),
        (CHECK + 'name = "a\\nb"\n', "perfcli.toml: checks[1].name is 'a\\nb'"),
        (CHECK + 'name = "a\\u001bb"\n', "a name is one line"),
        ('limits.kernels = "10 %"\n' + CHECK, "perfcli.toml: limits.kernels is '10 %'"),
        ('limits.bytes_moved = "10 %"\n' + CHECK, 'or "+10 %" in a line'),
        ('limits.kernels.most = "10 %"\n' + CHECK, "perfcli.toml: limits.kernels.most is '10 %'"),
        ('limits.kernels.growth = "-5"\n' + CHECK, "needs a plain number, not '-5'"),
        ("limit.kernels = 3\n" + CHECK, "did you mean limits?"),
        ("[tool.perfcli]\nlimit.kernels = 3\n", "perfcli.toml: tool.perfcli has no checks"),
    ],
)
def test_mistakes_are_said_before_anything_is_compiled(perfcli: Any, text: str, said: str) -> None:
    configure(text)
    result = perfcli("gate")
    assert (result.code, said in result.complaint) == (2, True), result.complaint
    assert not Path(".perfcli").exists()


@pytest.mark.parametrize("empty", ["reason", "owner"])
def test_an_exception_with_an_empty_reason_or_owner(perfcli: Any, empty: str) -> None:
    keys = {"reason": "it has to be", "owner": "ada"} | {empty: " "}
    lines = [f'{name} = "{value}"' for name, value in keys.items()]
    allow = '[[allow]]\nlimit = "kernels"\nexpires = 2100-01-01\n'
    configure(CHECK + allow + "\n".join(lines))
    result = perfcli("gate")
    assert (result.code, f"allow[1].{empty} is empty" in result.complaint) == (2, True)


def test_growth_in_a_table_is_written_as_in_a_line(perfcli: Any) -> None:
    configure('limits.bytes_moved = { growth = "+5 MB", growth-share = "+1 %" }\n' + CHECK)
    assert perfcli("baseline", "update", "--reason", "x").code == 0
    assert perfcli("gate").code == 0


def test_a_share_of_a_kernel_may_be_a_percentage(perfcli: Any) -> None:
    configure('kernels."*".occupancy = { most = "1 %" }\n' + CHECK)
    assert perfcli("baseline", "update", "--reason", "x").code == 0
    assert perfcli("gate").code == 0
