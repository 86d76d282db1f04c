"""A user's bare function as a scenario: its arguments are the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from perfcli.model import Parameter, Scalar, Scenario

MODE = Parameter("forward", "what is compiled", ("forward", "training"))
"""The mode of a function that does not ask for it."""
FORWARD_ONLY = (
    "require gradients, compiled forward only: give -p mode=training, or return "
    "(module, inputs, 'training')"
)
EXAMPLES: Mapping[str, Scalar] = {"bool": False, "int": 0, "float": 0.0, "str": ""}
"""A value of each type that an annotation may name."""


def from_function(function: FunctionType, name: str) -> Scenario:
    """A scenario whose parameters are the function's keyword parameters with plain defaults or
    none, and ``mode``, which the function only gets if it asks for it."""
    found = (
        (key, _parameter(each)) for key, each in inspect.signature(function).parameters.items()
    )
    parameters = {key: parameter for key, parameter in found if parameter}
    wanted = set(parameters)
    parameters["mode"] = _mode(parameters["mode"]) if "mode" in wanted else MODE

    def build(params: Mapping[str, Scalar]) -> Any:
        return function(**{key: value for key, value in params.items() if key in wanted})

    return Scenario(
        name=name,
        question=(inspect.getdoc(function) or "").partition("\n")[0],
        parameters=parameters,
        presets={},
        build=build,
    )


def _parameter(parameter: inspect.Parameter) -> Parameter | None:
    """None for what a user cannot type: a default that is an object, ``*args``."""
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return None
    if is_required(parameter):
        return Parameter(EXAMPLES.get(_written(parameter.annotation)), required=True)
    scalar = isinstance(parameter.default, bool | int | float | str | None)
    return Parameter(parameter.default) if scalar else None


def _written(annotation: Any) -> str:
    """``int``, whether the file evaluates its annotations or not."""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _mode(own: Parameter) -> Parameter:
    default = own.default if own.default in MODE.choices else MODE.default
    return Parameter(default, MODE.help, MODE.choices, own.required)


def is_required(parameter: inspect.Parameter) -> bool:
    """Whether a function cannot be called without it."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variadic
