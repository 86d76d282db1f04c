"""What is said after each test of a search, in a log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from perfcli.bisect.metrics import METRICS
from perfcli.commands._bisect_forge import Forge
from perfcli.commands._bisect_progress import Watcher
from perfcli.commands._progress import Notes
from perfcli.search.answer import Answer
from perfcli.search.options import OptionChange
from perfcli.search.question import Question

ONLINE = OptionChange("online_softmax", True, False)
READS = OptionChange("triton.mix_order_reduction_max_reads", 10, None)


def said(capsys: Any, question: Question[Any], answer: Answer) -> str:
    space = SimpleNamespace(changes=(ONLINE, READS))
    forge = cast("Forge", SimpleNamespace(space=space, compiled=1, classes=1))
    Watcher(forge, METRICS["loads"], Notes(quiet=False))(question, answer)
    return str(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ((ONLINE,), "narrowing, online_softmax=false: 12 · 1 compiled, 1 class, "),
        ((READS,), "narrowing, triton.mix_order_reduction_max_reads=null: 12 · "),
        ((ONLINE, READS), "narrowing, 2 changes: 12 · "),
    ],
)
def test_a_change_is_written_as_it_is_typed(
    capsys: Any, changes: tuple[OptionChange, ...], written: str
) -> None:
    wanted = frozenset(change.key for change in changes)
    question = Question(wanted, step="narrowing", suspects=2)
    assert said(capsys, question, Answer("good", 12.0)).startswith(written)
