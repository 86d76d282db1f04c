"""When a measurement is taken while its runs are still compiled, and what becomes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.errors import Interrupted, WrongResult
from perfcli.model import StepCode
from perfcli.workflow import early
from perfcli.workflow.bench import MeasuredScenario
from perfcli.workflow.early import EarlyRounds

SOFTMAX = StepCode("softmax", {"rows": 8}, "one")
OTHER = StepCode("softmax", {"rows": 8}, "two")


def make(prepared: Any, scenario: str = "softmax") -> EarlyRounds:
    def list_prepared() -> Any:
        if isinstance(prepared, Exception):
            raise prepared
        return prepared and [SimpleNamespace(code=code) for code in prepared]

    place: Any = SimpleNamespace(list_prepared=list_prepared, generates=lambda: True)
    jobs: Any = [
        SimpleNamespace(fingerprint=each, request=SimpleNamespace(scenario=scenario))
        for each in "ab"
    ]
    unused: Any = None
    return EarlyRounds(place, unused, jobs, unused, {"a": "id-a", "b": "id-b"})


@pytest.mark.parametrize(
    ("prepared", "due"),
    [
        (None, False),
        ([SOFTMAX, SOFTMAX], False),
        ([SOFTMAX, OTHER], True),
        ([SOFTMAX, None], False),
        ([SOFTMAX, StepCode("softmax", {}, "")], False),
        (WrongResult("the head's outputs are wrong"), False),
    ],
)
def test_it_is_due_where_both_are_ready_and_differ(prepared: Any, due: bool) -> None:
    made = make(prepared)
    assert made.is_due() is due
    assert not made.is_due() or prepared is None
    assert made.result() is None


@pytest.mark.parametrize(("prepared", "first"), [(None, True), ([SOFTMAX, SOFTMAX], False)])
def test_it_comes_first_until_it_is_decided(prepared: Any, first: bool) -> None:
    made = make(prepared)
    assert made.comes_first()
    made.is_due()
    assert made.comes_first() is first


@pytest.mark.parametrize(
    ("typed", "named"), [("softmax", "softmax"), ("a.py:f@main", "a.py:f@main")]
)
def test_the_runs_are_named_as_they_will_be(
    typed: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early, "measure", lambda subject, *_: subject)
    made = make([SOFTMAX, OTHER], typed)
    assert made.is_due()
    made.run()
    found: Any = made.result()
    assert found == MeasuredScenario(named, {"rows": 8}, "id-a", "id-b")


@pytest.mark.parametrize("error", [WrongResult("off"), Interrupted("interrupted")])
def test_what_went_wrong_is_raised_once_the_runs_are_there(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at once."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(early, "measure", fail)
    made = make([SOFTMAX, OTHER])
    assert made.is_due()
    if isinstance(error, Interrupted):
        with pytest.raises(Interrupted):
            made.run()
        return
    made.run()
    with pytest.raises(WrongResult, match="off"):
        made.result()
