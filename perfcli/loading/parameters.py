"""Resolves a scenario's parameters: a preset, then what the user typed, in the type of the
default."""

from __future__ import annotations

from collections.abc import Mapping

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.model import Parameter, Scalar, Scenario
from perfcli.names import internal, public, suggestion

DEFAULT_PRESET = "full"
WORDS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
NEEDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def resolve_params(
    scenario: Scenario, preset: str | None, overrides: Mapping[str, Scalar]
) -> dict[str, Scalar]:
    """Return the value of every parameter: its default, the preset's, then the override's.

    Overrides may be text as typed, or values of the right type; dashes and underscores in names are
    equal. The preset ``full``, and none, are the defaults. Raises PerfcliError for an unknown
    preset or parameter, or a value that does not fit."""
    values = {name: parameter.default for name, parameter in scenario.parameters.items()}
    values.update(_preset(scenario, preset or DEFAULT_PRESET))
    for given, value in overrides.items():
        name = internal(given)
        if name not in scenario.parameters:
            known = [public(known) for known in scenario.parameters]
            raise PerfcliError(
                f"{scenario.name} has no parameter {given!r}: {suggestion(given, known)}"
            )
        values[name] = convert_typed(name, value, scenario.parameters[name])
    _check_given(scenario, set(map(internal, overrides)))
    return values


def _check_given(scenario: Scenario, given: set[str]) -> None:
    required = {name for name, parameter in scenario.parameters.items() if parameter.required}
    if missing := [public(name) for name in scenario.parameters if name in required - given]:
        raise PerfcliError(
            f"{scenario.name} needs a value for {' and '.join(missing)}: give "
            f"{' '.join(f'-p {name}=VALUE' for name in missing)}, or a default in the function"
        )


def _preset(scenario: Scenario, name: str) -> Mapping[str, Scalar]:
    if name in scenario.presets:
        return scenario.presets[name]
    if name == DEFAULT_PRESET:
        return {}
    known = sorted({DEFAULT_PRESET, *scenario.presets})
    raise PerfcliError(f"{scenario.name} has no preset {name!r}: known: {', '.join(known)}")


def convert_typed(name: str, value: Scalar, parameter: Parameter) -> Scalar:
    """Return the value in the type of the parameter's default. Raises PerfcliError where it does
    not fit."""
    kind = type(parameter.default)
    try:
        typed = _convert(value, kind)
    except ValueError:
        raise PerfcliError(
            f"parameter {public(name)} needs {NEEDS[kind]} ({kind.__name__}), not {value!r}"
        ) from None
    if parameter.choices and typed not in parameter.choices:
        known = ", ".join(str(choice) for choice in parameter.choices)
        raise PerfcliError(f"parameter {public(name)} must be one of {known}, not {value!r}")
    return typed


def _convert(value: Scalar, kind: type) -> Scalar:
    """Return ``value`` as a ``kind``, the type of a default; raise ValueError where it does not
    fit."""
    if kind is type(None):
        return _guess(value)
    if kind is str:
        return units.parameter(value)
    if isinstance(value, str):
        return _parse(value.strip(), kind)
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise ValueError(value)


def _parse(text: str, kind: type) -> Scalar:
    if kind is bool:
        if text.lower() not in WORDS:
            raise ValueError(text)
        return WORDS[text.lower()]
    return int(text) if kind is int else float(text)


def _guess(value: Scalar) -> Scalar:
    """Return the value of a parameter whose default, None, says nothing about its type."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return value
