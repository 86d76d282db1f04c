"""The configuration: what is read, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.gate import config
from perfcli.gate.checks import Check
from perfcli.gate.config import Config
from perfcli.gate.limits import SIGNS, USUAL
from perfcli.model import Allowance, Limit

CHECK = '[[checks]]\nname = "norm"\nscenario = "rmsnorm"\n'


def read(text: str, tmp_path: Path, name: str = "perfcli.toml") -> Config:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return config._read(path, ("PC101", "PC205"))


def limits(text: str, tmp_path: Path) -> dict[tuple[str, str], Limit]:
    (check,) = read(text, tmp_path).checks
    return {(limit.kernel, limit.metric): limit for limit in check.limits}


def test_a_check_alone_has_the_usual_limits(tmp_path: Path) -> None:
    found = read(CHECK, tmp_path)
    (check,) = found.checks
    assert check.limits == USUAL
    assert check.signs == frozenset(SIGNS)
    assert (check.name, check.target, check.device) == ("norm@h100", "h100", None)
    assert (found.on_unsure, found.fail_on, found.max_age_days) == ("warn", "warning", 90)
    assert found.baseline == tmp_path / "perfcli-baseline.toml"


@pytest.mark.parametrize("text", ['"3 %"', '"+3 %"', "{ growth-share = 0.03 }"])
def test_the_step_time_is_limited_as_growth_measured_or_estimated(
    text: str, tmp_path: Path
) -> None:
    found = limits(f"[limits]\nstep_time = {text}\n{CHECK}", tmp_path)
    assert found["", "step_time"] == Limit("step_time", growth_share=0.03)
    assert found["", "time"] == Limit("time", growth_share=0.03)


def test_a_limit_on_measured_time_stays_beside_one_on_the_step(tmp_path: Path) -> None:
    text = f'[limits]\nstep_time = "5 %"\ntime = "+1 %"\n{CHECK}'
    found = limits(text, tmp_path)
    assert found["", "step_time"].growth_share == 0.05
    assert found["", "time"].growth_share == 0.01


@pytest.mark.parametrize(
    ("metric", "text", "most"),
    [
        ("bytes_moved", "7 B", 7),
        ("bytes_moved", "7 kB", 7_000),
        ("bytes_moved", "7 MB", 7_000_000),
        ("bytes_moved", "7 GB", 7_000_000_000),
        ("bytes_moved", "7 TB", 7_000_000_000_000),
        ("bytes_moved", "7 KiB", 7_168),
        ("bytes_moved", "7 MiB", 7_340_032),
        ("bytes_moved", "7 GiB", 7_516_192_768),
        ("bytes_moved", "7 TiB", 7_696_581_394_432),
        ("bytes_moved", "7_000.5", 7000.5),
        ("lower_bound_seconds", "7 ns", 7e-9),
        ("lower_bound_seconds", "7 us", 7e-6),
        ("lower_bound_seconds", "7 µs", 7e-6),
        ("lower_bound_seconds", "7 ms", 7e-3),
        ("lower_bound_seconds", "7 s", 7.0),
        ("loads", "1,234", 1234),
    ],
)
def test_amounts_have_units(metric: str, text: str, most: float, tmp_path: Path) -> None:
    found = limits(f'[limits]\n{metric} = "{text}"\n{CHECK}', tmp_path)
    assert found["", metric].most == pytest.approx(most, rel=1e-12)


def test_what_nobody_wrote_is_known(tmp_path: Path) -> None:
    """Also where somebody writes the same: then it holds beside an estimate."""
    (check,) = read(f'[limits]\nspilled_words = "+0"\n{CHECK}', tmp_path).checks
    written = Limit("spilled_words", growth=0)
    assert written in check.limits
    assert check.usual == frozenset(USUAL) - {written}
    assert read(CHECK, tmp_path).usual_fail_on
    assert not read(f'fail-on = "warning"\n{CHECK}', tmp_path).usual_fail_on


def test_all_of_it(tmp_path: Path) -> None:
    text = """
    baseline = "base.toml"
    target = ["h100", "a100"]
    on-unsure = "fail"
    fail-on = "never"
    baseline-max-age-days = 7
    budget = 5
    [limits]
    spilled_words = "+0"
    loads = "any"
    [[checks]]
    scenario = "models/norm.py:block"
    params = { batch = 48, causal = true, dtype = "bfloat16" }
    preset = "smoke"
    dynamic = true
    options = { "triton.mix_order_reduction" = true }
    [[checks]]
    name = "other"
    scenario = "softmax"
    device = "cpu"
    [[allow]]
    kernel = "triton_red_*"
    limit = "spilled_words"
    most = 8
    reason = "known"
    owner = "me"
    expires = 2026-12-31
    """
    found = read(text, tmp_path)
    assert [c.name for c in found.checks] == ["block@h100", "block@a100", "other@cpu"]
    first: Check = found.checks[0]
    assert first.params == {"batch": 48, "causal": True, "dtype": "bfloat16"}
    assert (first.preset, first.dynamic) == ("smoke", True)
    assert first.options == {"triton.mix_order_reduction": True}
    assert (found.on_unsure, found.fail_on, found.max_age_days, found.budget) == (
        *("fail", None, 7, 5.0),
    )
    assert found.baseline == tmp_path / "base.toml"
    assert found.allowances == (
        Allowance("triton_red_*", "spilled_words", "known", "me", "2026-12-31", 8.0),
    )
    assert all(limit.metric != "loads" for limit in first.limits)
    assert {limit.metric for limit in first.signs} == {sign.metric for sign in SIGNS} - {"loads"}


def test_a_limit_of_ones_own_is_no_sign_even_where_it_says_the_same(tmp_path: Path) -> None:
    (check,) = read(f'limits.kernels = "+0"\n{CHECK}', tmp_path).checks
    assert Limit("kernels", growth=0) in check.limits
    assert all(limit.metric != "kernels" for limit in check.signs)


@pytest.mark.parametrize(
    ("text", "metric", "expected"),
    [
        ('"+0"', "spilled_words", Limit("spilled_words", growth=0)),
        ('"+1%"', "bytes_moved", Limit("bytes_moved", growth_share=0.01)),
        ('"+0.5 %"', "bytes_moved", Limit("bytes_moved", growth_share=0.005)),
        ("40", "kernels", Limit("kernels", most=40)),
        ('"8 GB"', "peak_memory_bytes", Limit("peak_memory_bytes", most=8e9)),
        ('"8 GiB"', "peak_memory_bytes", Limit("peak_memory_bytes", most=8 * 2**30)),
        ('"+200 MB"', "bytes_moved", Limit("bytes_moved", growth=2e8)),
        ('"3.5 ms"', "lower_bound_seconds", Limit("lower_bound_seconds", most=0.0035)),
        ('"1,000"', "loads", Limit("loads", most=1000)),
        ('"-5%"', "vector_loads", Limit("vector_loads", growth_share=0.05)),
        ('"+3%"', "time", Limit("time", growth_share=0.03)),
        (
            '{ growth-share = 0.02, most = "8 GB" }',
            "peak_memory_bytes",
            Limit("peak_memory_bytes", growth_share=0.02, most=8e9),
        ),
        ("{ growth = 3 }", "kernels", Limit("kernels", growth=3)),
        ('{ growth-share = "2 %" }', "kernels", Limit("kernels", growth_share=0.02)),
    ],
)
def test_ways_to_write_a_limit(text: str, metric: str, expected: Limit, tmp_path: Path) -> None:
    found = limits(f"limits.{metric} = {text}\n{CHECK}", tmp_path)["", metric]
    assert found.most == pytest.approx(expected.most)
    assert (found.growth, found.growth_share) == (expected.growth, expected.growth_share)


def test_limits_of_a_check_come_over_the_general_ones(tmp_path: Path) -> None:
    text = f"""
    limits = {{ kernels = 40, loads = 100 }}
    [kernels."triton_red_*"]
    registers = 128
    occupancy = "50%"
    {CHECK}
    limits = {{ kernels = 50 }}
    [checks.kernels."triton_red_*"]
    registers = "any"
    """
    found = limits(text, tmp_path)
    assert found["", "kernels"].most == 50
    assert found["", "loads"].most == 100
    assert ("triton_red_*", "registers") not in found
    assert found["triton_red_*", "occupancy"].most == 0.5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("baselin = 1", "unknown key 'baselin': did you mean baseline?"),
        ("limits.spiled_words = 1", "no metric 'spiled_words': did you mean spilled_words?"),
        ("limits.occupancy = 1", 'occupancy is one kernel\'s: put it under kernels."PATTERN"'),
        ('kernels."*".graph_breaks = 1', "graph_breaks is the whole run's: put it under limits"),
        ('limits.kernels = "lots"', "no limit: 'lots'; expected 40"),
        ('limits.kernels = "8 GB"', "'GB' is no unit of kernels: it has no unit"),
        ('limits.bytes_moved = "8 ms"', "'ms' is no unit of bytes_moved: expected B, kB"),
        ('limits.kernels = "-3"', "of kernels more is worse, a limit on its change begins with +"),
        ('limits.vector_loads = "+3"', "of vector_loads less is worse"),
        ("limits.kernels = true", "is no limit: true"),
        ("limits.kernels = -1", "needs a number from 0 on that is finite, not -1"),
        ("limits.kernels = {}", "limits nothing"),
        ("limits.kernels = { mots = 1 }", "unknown key 'mots': did you mean most?"),
        ("limits.time = 3", 'time is limited as a part of the base\'s, for example "+3 %"'),
        ("limits = 3", "limits needs a table, not 3"),
        ('on-unsure = "wran"', "on-unsure is 'wran': did you mean warn?"),
        ("fail-on = 3", "fail-on needs text in quotes, not 3"),
        ('device = "gpu"', "device is cuda or cpu, not 'gpu'"),
        ("target = 3", "target needs text in quotes or a list of it, not 3"),
        ("baseline-max-age-days = true", "needs a whole number, not true"),
        ("checks = 3", "checks needs a list, not 3"),
        ('[[allow]]\nlimit = "loads"', "allow[1] has no reason: an exception says why"),
        ('[[allow]]\nlimit = "loads"\nreason = "x"', "has no owner"),
        ('[[allow]]\nlimit = "loads"\nreason = "x"\nowner = "y"', "has no expires: an exception"),
        (
            '[[allow]]\nlimit = "loads"\nreason = "x"\nowner = "y"\nexpires = "soon"',
            "expires is 'soon': a day is expected, for example 2026-12-31",
        ),
        (
            '[[allow]]\nlimit = "PC999"\nreason = "x"\nowner = "y"\nexpires = 2026-12-31',
            "allow allows 'PC999', which is no metric and no rule",
        ),
    ],
)
def test_mistakes_are_named(text: str, says: str, tmp_path: Path) -> None:
    top, allow = ("", text) if text.startswith("[[") else (text, "")
    with pytest.raises(PerfcliError) as caught:
        read(f"{top}\n{'' if 'checks =' in text else CHECK}{allow}\n", tmp_path)
    assert says in str(caught.value)
    assert str(caught.value).startswith("perfcli.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = 'x'", "has no scenario"),
        ("scenario = 'a'\nparms = {}", "unknown key 'parms': did you mean params?"),
        ("scenario = 'a'\nparams = { a = [1] }", "params.a needs a number, text, true or false"),
        ("scenario = 'a'\ntargets = ['h100']\ndevice = 'cpu'", "a target is a GPU"),
        ("scenario = 'a'\n[[checks]]\nscenario = 'a'", "two checks a@h100"),
    ],
)
def test_mistakes_in_checks(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(PerfcliError) as caught:
        read(f"[[checks]]\n{text}", tmp_path)
    assert says in str(caught.value)


def test_no_checks_at_all(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match=r"perfcli.toml has no checks: write \[\[checks\]\]"):
        read("on-unsure = 'warn'", tmp_path)
    with pytest.raises(PerfcliError, match=r"write \[\[tool.perfcli.checks\]\]"):
        read("[tool.perfcli]", tmp_path, "pyproject.toml")


def test_pyproject_without_and_with_the_table(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match=r"has no \[tool.perfcli\]: write"):
        read("[project]\nname = 'x'", tmp_path, "pyproject.toml")
    text = "[[tool.perfcli.checks]]\nscenario = 'rmsnorm'\n"
    assert [c.name for c in read(text, tmp_path, "pyproject.toml").checks] == ["rmsnorm@h100"]
    broken = "[tool.perfcli]\nx = 1\n[[tool.perfcli.checks]]\nscenario = 'a'"
    with pytest.raises(PerfcliError, match=r"pyproject.toml: tool.perfcli has an unknown key 'x'"):
        read(broken, tmp_path, "pyproject.toml")


def test_the_nearest_configuration_above(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    with pytest.raises(PerfcliError, match=r"no \[tool.perfcli\].*perfcli init-ci"):
        config._find(below)
    (tmp_path / "pyproject.toml").write_text("[tool.perfcli]\n")
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\n")
    assert config._find(below) == tmp_path / "pyproject.toml"
    (tmp_path / "perfcli.toml").write_text("")
    assert config._find(below) == tmp_path / "perfcli.toml"


def test_what_is_no_toml(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match="is not TOML"):
        read("[[", tmp_path)
    with pytest.raises(PerfcliError, match="can't read"):
        config._read(tmp_path / "nowhere.toml")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "perfcli.toml"
    with pytest.raises(PerfcliError) as caught:
        config._read(path)
    assert str(caught.value) == f"can't read {path}: No such file or directory"


def test_what_is_not_said_is_as_usual(tmp_path: Path) -> None:
    found = read(CHECK, tmp_path)
    assert (found.budget, found.typed, found.folder) == (None, (), tmp_path)
    (check,) = found.checks
    assert (check.params, check.options, check.preset, check.dynamic) == ({}, {}, None, False)
    assert check.usual_spills
    own = read(f'limits.spilled_words = "+0"\n{CHECK}', tmp_path).checks[0]
    assert not own.usual_spills
    assert not Config(tmp_path, tmp_path, ()).allowances


@pytest.mark.parametrize(("days", "found"), [("0", 0), ("1", 1), ("2", 2)])
def test_days_from_none_on(days: str, found: int, tmp_path: Path) -> None:
    assert read(f"baseline-max-age-days = {days}\n{CHECK}", tmp_path).max_age_days == found
    assert read(f"budget = {days}\n{CHECK}", tmp_path).budget == (found or None)


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        ("models/norm.py:block", "block"),
        ("models/norm.py", "norm"),
        ("norm.py", "norm"),
        ("rmsnorm", "rmsnorm"),
    ],
)
def test_a_check_is_called_as_its_function_or_file(
    scenario: str, name: str, tmp_path: Path
) -> None:
    (check,) = read(f"[[checks]]\nscenario = '{scenario}'\n", tmp_path).checks
    assert check.name == f"{name}@h100"
