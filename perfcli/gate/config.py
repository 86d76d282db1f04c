"""``[tool.perfcli]`` of pyproject.toml, or perfcli.toml: what is checked, and what has to hold."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from perfcli.errors import PerfcliError
from perfcli.gate.allowances import check_limits, read_allowance
from perfcli.gate.limits import SIGNS, USUAL, read_limits
from perfcli.gate.tables import Table, shown
from perfcli.model import Allowance, Limit, OptionValue, Scalar, Severity

FILES = ("perfcli.toml", "pyproject.toml")
BASELINE = "perfcli-baseline.toml"
TARGET = "h100"
MAX_AGE_DAYS = 90
OnUnsure = Literal["pass", "warn", "fail"]
FailOn = Literal["error", "warning", "info", "never"]

_EXAMPLE = 'name = "norm", scenario = "path/to/model.py:build"'


@dataclass(frozen=True, slots=True)
class Check:
    """One scenario with its parameters, on one target or device."""

    name: str
    """``norm@h100``."""
    scenario: str
    """As it is written: a shipped name, or a file beside the configuration."""
    params: Mapping[str, Scalar]
    preset: str | None
    target: str | None
    device: str | None
    dynamic: bool
    options: Mapping[str, OptionValue]
    limits: tuple[Limit, ...]
    signs: frozenset[Limit] = frozenset()
    """Of these, the usual ones that say something only where nothing got better."""


@dataclass(frozen=True, slots=True)
class Config:
    path: Path
    baseline: Path
    checks: tuple[Check, ...]
    allowances: tuple[Allowance, ...] = ()
    on_unsure: OnUnsure = "warn"
    fail_on: Severity | None = "warning"
    """Findings that are as grave or graver and came with the head fail; None: none do."""
    max_age_days: int = MAX_AGE_DAYS
    budget: float | None = None
    """Seconds to measure a check for, at most."""

    @property
    def folder(self) -> Path:
        return self.path.parent


def find(folder: Path) -> Path:
    """The configuration of a folder: of the nearest above it that has one. Raises PerfcliError,
    with what to write, where there is none."""
    for each in (folder, *folder.parents):
        own, project = (each / name for name in FILES)
        if own.is_file():
            return own
        if project.is_file() and "perfcli" in _parsed(project).get("tool", {}):
            return project
    raise PerfcliError(
        "nothing to check: there is no [tool.perfcli] in a pyproject.toml and no perfcli.toml, "
        f"here or above. Write [[tool.perfcli.checks]] with {_EXAMPLE}, or let perfcli init-ci"
    )


def read(path: Path, codes: Collection[str] = ()) -> Config:
    """The configuration in a file. ``codes``: of the rules, which exceptions may name.

    Raises PerfcliError for a file that can't be read, unknown keys and metrics, wrong types.
    """
    document = _parsed(path)
    where = path.name
    if path.name == "pyproject.toml":
        document = document.get("tool", {})
        where += ": tool"
        if "perfcli" not in document:
            raise PerfcliError(
                f"{path} has no [tool.perfcli]: write [[tool.perfcli.checks]] with {_EXAMPLE}, or "
                "let perfcli init-ci"
            )
        return _config(path, Table(document["perfcli"], f"{where}.perfcli"), codes)
    # perfcli.toml may be written like pyproject.toml, or without the prefix.
    inside = document.get("tool", {}).get("perfcli") if "tool" in document else None
    return _config(path, Table(document if inside is None else inside, where), codes)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PerfcliError(f"{path} is not TOML: {error}") from error


def _config(path: Path, table: Table, codes: Collection[str]) -> Config:
    folder = path.parent
    limits = _merged({(each.kernel, each.metric): each for each in USUAL}, table)
    targets, device = table.texts("target") or table.texts("targets"), _device(table)
    every = table.tables("checks")
    if not every:
        inside = table.where.rpartition(": ")[2] if path.name == "pyproject.toml" else ""
        name = f"{inside}.checks" if inside else "checks"
        raise PerfcliError(f"{table.where} has no checks: write [[{name}]] with {_EXAMPLE}")
    checks = tuple(c for each in every for c in _checks(each, limits, targets, device))
    _different([check.name for check in checks], table.where)
    allowances = tuple(map(read_allowance, table.tables("allow")))
    if codes:
        check_limits(allowances, codes, f"{table.where}.allow")
    fail_on = table.choice("fail-on", get_args(FailOn), "warning")
    found = Config(
        path=path,
        baseline=folder / table.take("baseline", str, BASELINE),
        checks=checks,
        allowances=allowances,
        on_unsure=table.choice("on-unsure", get_args(OnUnsure), "warn"),  # type: ignore[arg-type]
        fail_on=None if fail_on == "never" else fail_on,  # type: ignore[arg-type]
        max_age_days=table.take("baseline-max-age-days", int, MAX_AGE_DAYS),
        budget=table.take("budget", float, 0.0) or None,
    )
    table.done()
    return found


Limits = Mapping[tuple[str, str], Limit]


def _merged(limits: Limits, table: Table) -> Limits:
    """The limits of a table over those that hold anyway."""
    own = read_limits(table.table("limits"))
    kernels = table.table("kernels")
    for pattern in kernels.values:
        own |= read_limits(kernels.table(pattern), pattern)
    merged: dict[tuple[str, str], Limit | None] = {**limits, **own}
    return {place: limit for place, limit in merged.items() if limit is not None}


def _device(table: Table) -> str | None:
    found = table.take("device", str, "")
    if found not in ("", "cuda", "cpu"):
        raise PerfcliError(f"{table.where}.device is cuda or cpu, not {found!r}")
    return found or None


def _checks(
    table: Table, general: Limits, targets: tuple[str, ...], device: str | None
) -> Iterator[Check]:
    """One for each target of a check."""
    scenario = table.need("scenario", str, "the name of a scenario, or path/to/model.py:build")
    name = table.take("name", str, "") or _name(scenario)
    own_targets = table.texts("targets") or table.texts("target")
    own_device = _device(table)
    if own_targets and own_device == "cpu":
        raise PerfcliError(f"{table.where}: a target is a GPU: leave out targets, or device")
    if own_device or own_targets:
        targets, device = own_targets, own_device
    elif targets and device:
        targets = () if device == "cpu" else targets
    limits = _merged(general, table).values()
    shared: dict[str, Any] = {
        "scenario": scenario,
        "params": _scalars(table, "params"),
        "preset": table.take("preset", str, "") or None,
        "dynamic": table.take("dynamic", bool, False),
        "options": table.take("options", dict, {}),
        "limits": tuple(limits),
        "signs": frozenset(each for each in limits if any(each is sign for sign in SIGNS)),
    }
    table.done()
    if device and not targets:
        yield Check(name=f"{name}@{device}", target=None, device=device, **shared)
        return
    for target in targets or (TARGET,):
        yield Check(name=f"{name}@{target}", target=target, device=None, **shared)


def _name(scenario: str) -> str:
    """``block`` of ``path/to/model.py:block``, ``model`` of ``path/to/model.py``."""
    path, _, name = scenario.partition(".py")
    return name.lstrip(":") or path.rpartition("/")[2]


def _scalars(table: Table, name: str) -> dict[str, Scalar]:
    values = table.take(name, dict, {})
    for key, value in values.items():
        if not isinstance(value, bool | int | float | str):
            raise PerfcliError(
                f"{table.where}.{name}.{key} needs a number, text, true or false, not "
                f"{shown(value)}"
            )
    return values


def _different(names: list[str], where: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise PerfcliError(f"{where} has two checks {twice}: give each a name of its own")
