"""Values of a configuration that would hold nothing, or say two things: they are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.gate import config

CHECK = '[[checks]]\nscenario = "rmsnorm"\n'
ALLOW = '[[allow]]\nlimit = "loads"\nreason = "x"\nowner = "me"\nexpires = 2026-12-31\n'
FINITE = "needs a number from 0 on that is finite, not"
HUGE = "9" * 400


def refused(text: str, tmp_path: Path, name: str = "perfcli.toml") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PerfcliError) as caught:
        config._read(path, ("PC101",))
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("limits.loads = nan", f"limits.loads {FINITE} nan"),
        ("limits.loads = inf", f"limits.loads {FINITE} inf"),
        ("limits.loads = -1", f"limits.loads {FINITE} -1"),
        (f"limits.loads = {HUGE}", f"limits.loads.most {FINITE} inf|limits.loads {FINITE} inf"),
        (f'limits.loads = "+{HUGE}"', f"limits.loads {FINITE} inf"),
        ("limits.loads = { growth = nan }", f"limits.loads {FINITE} nan"),
        ("limits.loads = { growth-share = inf }", f"limits.loads {FINITE} inf"),
        ('kernels."*".loads = { most = nan }', rf"kernels\.\*.loads {FINITE} nan"),
        ("limits.time = { growth-share = nan }", f"limits.time {FINITE} nan"),
        ("budget = nan", f"budget {FINITE} nan"),
        ("budget = inf", f"budget {FINITE} inf"),
        ("budget = -1", f"budget {FINITE} -1"),
        ("baseline-max-age-days = -1", f"baseline-max-age-days {FINITE} -1"),
    ],
)
def test_a_limit_is_finite_and_not_negative(line: str, message: str, tmp_path: Path) -> None:
    assert re.search(message, refused(f"{line}\n{CHECK}", tmp_path))


@pytest.mark.parametrize("most", ["nan", "inf", "-1"])
def test_an_exception_ends_at_a_finite_value(most: str, tmp_path: Path) -> None:
    message = refused(f"{CHECK}{ALLOW}most = {most}\n", tmp_path)
    assert f"allow[1].most {FINITE} {most}" in message


@pytest.mark.parametrize(
    "limit",
    ['"3 ms"', "0.003", '"+1 ms"', '{ most = "3 ms", growth-share = 0.1 }',
     '{ growth = "1 ms", growth-share = 0.1 }'],
)  # fmt: skip
def test_time_is_limited_as_a_part_alone(limit: str, tmp_path: Path) -> None:
    message = refused(f"limits.time = {limit}\n{CHECK}", tmp_path)
    assert "time is limited as a part of the base's" in message


@pytest.mark.parametrize("where", ["general", "own"])
@pytest.mark.parametrize("name", ["target", "targets"])
@pytest.mark.parametrize(
    ("device", "message"), [("cpu", "a target is a GPU"), ("cuda", "without a GPU")]
)
def test_a_device_and_targets(
    where: str, name: str, device: str, message: str, tmp_path: Path
) -> None:
    lines = f'device = "{device}"\n{name} = ["h100"]\n'
    said = refused(f"{lines}{CHECK}" if where == "general" else f"{CHECK}{lines}", tmp_path)
    assert message in said
    assert f"leave out {name}, or device" in said


@pytest.mark.parametrize("where", ["general", "own"])
def test_target_and_targets(where: str, tmp_path: Path) -> None:
    lines = 'target = "h100"\ntargets = ["a100"]\n'
    said = refused(f"{lines}{CHECK}" if where == "general" else f"{CHECK}{lines}", tmp_path)
    assert "has target and targets, which mean the same: keep one" in said


def test_a_checks_own_targets_come_over_the_general_device(tmp_path: Path) -> None:
    path = tmp_path / "perfcli.toml"
    path.write_text(f'device = "cuda"\n{CHECK}[[checks]]\nscenario = "softmax"\ntarget = "a100"\n')
    assert [each.name for each in config._read(path).checks] == ["rmsnorm@cuda", "softmax@a100"]


@pytest.mark.parametrize("name", ["perfcli.toml", "pyproject.toml"])
def test_tool_is_a_table(name: str, tmp_path: Path) -> None:
    assert refused("tool = 3\n", tmp_path, name) == f"{name}: tool has to be a table, not 3"
    (tmp_path / "perfcli.toml").unlink(missing_ok=True)
    (tmp_path / "pyproject.toml").write_text("tool = 3\n")
    with pytest.raises(PerfcliError, match="tool has to be a table, not 3"):
        config._find(tmp_path)
