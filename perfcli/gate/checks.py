"""Reads the checks of the configuration, for one target or device each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.gate.limits import SIGNS, SPILLS, STEP_TIME, TIME, USUAL, _read_limits
from perfcli.gate.tables import SettingsTable, _shown
from perfcli.machine.targets import THIS_GPU, get
from perfcli.model import Limit, OptionValue, Scalar

TARGET = "h100"


@dataclass(frozen=True, slots=True)
class Check:
    """Holds one scenario with its parameters, on one target or device."""

    name: str
    """``norm@h100``."""
    scenario: str
    """As it is written: a shipped name, or a file beside the configuration."""
    params: Mapping[str, Scalar]
    preset: str | None
    target: str | None
    device: str | None
    dynamic: bool
    options: Mapping[str, OptionValue] | str
    """Or a file of options, by its path from the configuration."""
    limits: tuple[Limit, ...]
    signs: frozenset[Limit] = frozenset()
    """Of these, the usual ones that say something only where nothing got better."""
    usual_spills: bool = False
    """Whether the limit on all spilled words is the usual one."""
    usual: frozenset[Limit] = frozenset()
    """Of the limits, those that nobody wrote."""
    inputs: tuple[str, ...] = ()
    """What a class, an object or a function is called with: ``x=8x128:bf16``."""


Limits = Mapping[tuple[str, str], Limit]


def _merged(limits: Limits, table: SettingsTable) -> Limits:
    """Return the limits of a table over those that hold anyway."""
    own = _read_limits(table.table("limits"))
    kernels = table.table("kernels")
    for pattern in kernels.values:
        own |= _read_limits(kernels.table(pattern), pattern)
    step = own.get(("", STEP_TIME))
    if step is not None and ("", TIME) not in own:  # a step is one, measured or estimated
        own["", TIME] = replace(step, metric=TIME)
    merged: dict[tuple[str, str], Limit | None] = {**limits, **own}
    return {place: limit for place, limit in merged.items() if limit is not None}


def _device_of(table: SettingsTable) -> str | None:
    found = table.take("device", str, "")
    if found not in ("", "cuda", "cpu"):
        raise PerfcliError(f"{table.at('device')} is cuda or cpu, not {found!r}")
    return found or None


def _compiled_for(table: SettingsTable) -> tuple[tuple[str, ...], str | None]:
    """Return the targets of a table, or its device. Raises PerfcliError where both are given: one
    of them would be dropped."""
    both = [name for name in ("target", "targets") if name in table.values]
    found = [table.texts(name) for name in ("target", "targets")]
    if len(both) > 1:
        raise PerfcliError(f"{table.where} has target and targets, which mean the same: keep one")
    targets, device = found[0] or found[1], _device_of(table)
    for target in targets:
        _check_target(target, table.at(both[0]))
    if targets and device == "cpu":
        raise PerfcliError(f"{table.where}: a target is a GPU: leave out {both[0]}, or device")
    if targets and device:
        raise PerfcliError(
            f"{table.where}: for a target code is generated without a GPU, with a device it is "
            f"measured on this machine's: leave out {both[0]}, or device"
        )
    return targets, device


def _check_target(name: str, where: str) -> None:
    """Raise PerfcliError, with the nearest, for a target that does not exist.

    Whether this machine has a GPU is asked where one is compiled for.
    """
    if name == THIS_GPU:
        return
    try:
        get(name)
    except PerfcliError as error:
        raise PerfcliError(f"{where}: {error}") from None


def _read_checks(
    table: SettingsTable, general: Limits, targets: tuple[str, ...], device: str | None
) -> Iterator[Check]:
    """Yield one for each target of a check."""
    scenario = table.need("scenario", str, "the name of a scenario, or path/to/model.py:build")
    name = table.take("name", str, "") or _name(scenario)
    if not name.isprintable():
        raise PerfcliError(f"{table.at('name')} is {name!r}: a name is one line, as it is shown")
    own_targets, own_device = _compiled_for(table)
    if own_device or own_targets:
        targets, device = own_targets, own_device
    limits = _merged(general, table).values()
    shared: dict[str, Any] = {
        "scenario": scenario,
        "params": _scalars(table, "params"),
        "preset": table.take("preset", str, "") or None,
        "inputs": table.texts("inputs"),
        "dynamic": table.take("dynamic", bool, False),
        "options": _options(table),
        "limits": tuple(limits),
        "signs": frozenset(each for each in limits if any(each is sign for sign in SIGNS)),
    }
    shared["usual"] = frozenset(each for each in limits if any(each is one for one in USUAL))
    shared["usual_spills"] = any(each is SPILLS for each in limits)
    table.done()
    if device:
        yield Check(name=f"{name}@{device}", target=None, device=device, **shared)
        return
    for target in targets or (TARGET,):
        yield Check(name=f"{name}@{target}", target=target, device=None, **shared)


def _options(table: SettingsTable) -> Mapping[str, OptionValue] | str:
    if isinstance(table.values.get("options"), str):
        return table.need("options", str)
    return table.take("options", dict, {})


def _name(scenario: str) -> str:
    """Return ``block`` of ``path/to/model.py:block``, ``model`` of ``path/to/model.py``."""
    path, _, name = scenario.partition(".py")
    return name.lstrip(":") or path.rpartition("/")[2]


def _scalars(table: SettingsTable, name: str) -> dict[str, Scalar]:
    values = table.take(name, dict, {})
    for key, value in values.items():
        if not isinstance(value, bool | int | float | str):
            raise PerfcliError(
                f"{table.at(name)}.{key} needs a number, text, true or false, not {_shown(value)}"
            )
    return values


def _check_different(names: list[str], where: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise PerfcliError(f"{where} has two checks {twice}: give each a name of its own")
