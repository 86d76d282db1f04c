"""Values of parameters: defaults, presets, overrides as text and as values."""

from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading.parameters import resolve_params
from perfcli.model import Parameter, Scalar, Scenario, Workload

SCENARIO = Scenario(
    name="example",
    question="",
    parameters={
        "layers": Parameter(11),
        "kv_heads": Parameter(4),
        "epsilon": Parameter(1e-6),
        "learned": Parameter(False),
        "dtype": Parameter("bfloat16", choices=("bfloat16", "float32")),
        "mix": Parameter("auto", choices=("auto", "true", "false")),
        "seed": Parameter(None),
    },
    presets={"smoke": {"layers": 2}},
    build=lambda params: Workload(abs, ()),
)


def value(name: str, given: Any) -> Scalar:
    return resolve_params(SCENARIO, None, {name: given})[name]


def test_defaults_are_the_full_preset() -> None:
    defaults = {name: p.default for name, p in SCENARIO.parameters.items()}
    assert resolve_params(SCENARIO, None, {}) == defaults
    assert resolve_params(SCENARIO, "full", {}) == defaults


def test_an_override_beats_the_preset() -> None:
    assert resolve_params(SCENARIO, "smoke", {})["layers"] == 2
    assert resolve_params(SCENARIO, "smoke", {"layers": "3"})["layers"] == 3


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("layers", "1_000", 1000),
        ("layers", " 3 ", 3),
        ("layers", 3, 3),
        ("epsilon", "1e-5", 1e-5),
        ("epsilon", 1, 1.0),
        ("learned", "Yes", True),
        ("learned", "on", True),
        ("learned", "0", False),
        ("learned", True, True),
        ("dtype", "float32", "float32"),
        ("mix", True, "true"),
        ("mix", "false", "false"),
        ("seed", "7", 7),
        ("seed", "0.5", 0.5),
        ("seed", "none", None),
        ("seed", "true", True),
        ("seed", "abc", "abc"),
    ],
)
def test_a_value_takes_the_type_of_the_default(name: str, given: Any, expected: Any) -> None:
    result = value(name, given)
    assert result == expected
    assert type(result) is type(expected)


def test_dashes_and_underscores_are_equal() -> None:
    assert resolve_params(SCENARIO, None, {"kv-heads": "2"})["kv_heads"] == 2
    assert resolve_params(SCENARIO, None, {"kv_heads": "2"})["kv_heads"] == 2


@pytest.mark.parametrize(
    ("name", "given", "needs"),
    [
        ("layers", "3.5", "a whole number (int), not '3.5'"),
        ("layers", 3.5, "a whole number (int), not 3.5"),
        ("layers", True, "a whole number (int), not True"),
        ("learned", "maybe", "true or false (bool), not 'maybe'"),
        ("epsilon", "small", "a number (float), not 'small'"),
    ],
)
def test_a_wrong_value_is_told_the_type_it_needs(name: str, given: Any, needs: str) -> None:
    with pytest.raises(PerfcliError) as raised:
        value(name, given)
    assert str(raised.value) == f"parameter {name} needs {needs}"


def test_a_value_that_is_no_choice_is_told_the_choices() -> None:
    with pytest.raises(PerfcliError, match="dtype must be one of bfloat16, float32, not 'int8'"):
        value("dtype", "int8")


def test_an_unknown_parameter_gets_the_nearest() -> None:
    with pytest.raises(PerfcliError, match=r"no parameter 'kv-head': did you mean kv-heads\?"):
        resolve_params(SCENARIO, None, {"kv-head": "4"})


def test_an_unknown_preset_gets_the_list() -> None:
    with pytest.raises(PerfcliError, match="no preset 'tiny': known: full, smoke"):
        resolve_params(SCENARIO, "tiny", {})
