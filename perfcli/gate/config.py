"""``[tool.perfcli]`` of pyproject.toml, or perfcli.toml: what is checked, and what has to hold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from perfcli.errors import PerfcliError
from perfcli.gate.allowances import _check_limits, _read_allowance
from perfcli.gate.checks import Check, _check_different, _compiled_for, _merged, _read_checks
from perfcli.gate.limits import USUAL
from perfcli.gate.tables import SettingsTable, _amount
from perfcli.model import Allowance, Clocks, Severity
from perfcli.options.files import read_toml

FILES = ("perfcli.toml", "pyproject.toml")
BASELINE = "perfcli-baseline.toml"
MAX_AGE_DAYS = 90
OnUnsure = Literal["pass", "warn", "fail"]
FailOn = Literal["error", "warning", "info", "never"]

_EXAMPLE = 'name = "norm", scenario = "path/to/model.py:build"'


@dataclass(frozen=True, slots=True)
class Config:
    path: Path
    baseline: Path
    checks: tuple[Check, ...]
    allowances: tuple[Allowance, ...] = ()
    on_unsure: OnUnsure = "warn"
    fail_on: Severity | None = "warning"
    """Findings that are as grave or graver and came with the head fail; None: none do."""
    usual_fail_on: bool = False
    """Whether nobody wrote ``fail_on``."""
    max_age_days: int = MAX_AGE_DAYS
    budget: float | None = None
    """Seconds to measure a check for, at most."""
    clocks: Clocks = "both"
    """Whose time decides, on a GPU."""
    typed: tuple[str, ...] = ()
    """Options of the command line that mean these files, for commands that are suggested."""

    @property
    def folder(self) -> Path:
        return self.path.parent


def _find(folder: Path) -> Path:
    """Return the configuration of a folder: of the nearest above it that has one. Raises
    PerfcliError, with what to write, where there is none."""
    for each in (folder, *folder.parents):
        own, project = (each / name for name in FILES)
        if own.is_file():
            return own
        if project.is_file() and "perfcli" in _tool(read_toml(project), project):
            return project
    raise PerfcliError(
        "nothing to check: there is no [tool.perfcli] in a pyproject.toml and no perfcli.toml, "
        f"here or above. Write [[tool.perfcli.checks]] with {_EXAMPLE}, or let perfcli init-ci "
        "write it"
    )


def _read(path: Path, codes: Collection[str] = ()) -> Config:
    """Return the configuration in a file. ``codes``: of the rules, which exceptions may name.
    Raises PerfcliError for a file that can't be read, unknown keys and metrics, wrong types."""
    document = read_toml(path)
    where = path.name
    if path.name == "pyproject.toml":
        document = _tool(document, path)
        where += ": tool"
        if "perfcli" not in document:
            raise PerfcliError(
                f"{path} has no [tool.perfcli]: write [[tool.perfcli.checks]] with {_EXAMPLE}, or "
                "let perfcli init-ci write it"
            )
        return _config(path, SettingsTable(document["perfcli"], f"{where}.perfcli"), codes)
    # perfcli.toml may be written like pyproject.toml, or without the prefix.
    inside = _tool(document, path).get("perfcli")
    if inside is not None:
        document, where = inside, f"{where}: tool.perfcli"
    return _config(path, SettingsTable(document, where), codes)


def _days(table: SettingsTable) -> int:
    found = table.take("baseline-max-age-days", int, MAX_AGE_DAYS)
    _amount(min(found, 1), table.at("baseline-max-age-days"))
    return found


def _tool(document: dict[str, Any], path: Path) -> dict[str, Any]:
    return SettingsTable(document.get("tool", {}), f"{path.name}: tool").values


def _config(path: Path, table: SettingsTable, codes: Collection[str]) -> Config:
    folder = path.parent
    limits = _merged({(each.kernel, each.metric): each for each in USUAL}, table)
    targets, device = _compiled_for(table)
    every = table.tables("checks")
    if not every:
        inside = table.where.partition(": ")[2]
        name = f"{inside}.checks" if inside else "checks"
        raise PerfcliError(f"{table.where} has no checks: write [[{name}]] with {_EXAMPLE}")
    checks = tuple(c for each in every for c in _read_checks(each, limits, targets, device))
    _check_different([check.name for check in checks], table.where)
    allowances = tuple(map(_read_allowance, table.tables("allow")))
    if codes:
        _check_limits(allowances, codes, table.at("allow"))
    fail_on = table.choice("fail-on", get_args(FailOn), "warning")
    found = Config(
        path=path,
        baseline=folder / table.take("baseline", str, BASELINE),
        checks=checks,
        allowances=allowances,
        on_unsure=table.choice("on-unsure", get_args(OnUnsure), "warn"),  # type: ignore[arg-type]
        fail_on=None if fail_on == "never" else fail_on,  # type: ignore[arg-type]
        usual_fail_on="fail-on" not in table.values,
        max_age_days=_days(table),
        budget=table.amount("budget") or None,
        clocks=table.choice("clock", get_args(Clocks), "both"),  # type: ignore[arg-type]
    )
    table.done()
    return found
