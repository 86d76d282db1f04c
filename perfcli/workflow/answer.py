"""Answers a question with its runs: one for each side, stored or compiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.names import public, suggestion
from perfcli.storing import store
from perfcli.workflow.context import Context
from perfcli.workflow.obtain import Obtained, load_stored, obtain, warn_forward_only
from perfcli.workflow.request import Question, Side, order_jobs


def compile_runs(question: Question, sides: Sequence[Side], context: Context) -> list[Obtained]:
    """Return runs of all sides, compiled or found. Raises PerfcliError for what the user got
    wrong, and what compiling raises."""
    return obtain(order_jobs(question, sides, context), context)


def load_or_compile(question: Question, side: Side, context: Context) -> Obtained:
    """Return the stored run that ``question.scenario`` names, or a run of the scenario of that
    name."""
    reference = question.scenario
    known = public(reference) in registry.names("scenarios")
    if not known and not reference.endswith(".py"):
        path = store.locate(reference)
        if path is not None or reference.endswith(".json") or reference[:1].isdigit():
            _check_stored_alone(question, side)
            return load_stored(reference)
        if not registry.is_user_file(reference) and not Path(f"{reference}.py").is_file():
            raise PerfcliError(_describe_unknown(reference))
    (found,) = compile_runs(question, [side], context)
    warn_forward_only(found.run, context.notes)
    return found


def _describe_unknown(reference: str) -> str:
    near = suggestion(reference, registry.names("scenarios"))
    stop = "" if near.endswith("?") else ";"
    return f"no scenario and no stored run {reference!r}: {near}{stop} perfcli runs lists the runs"


def _check_stored_alone(question: Question, side: Side) -> None:
    chosen = (question.params, question.preset, question.target, question.device)
    if any(chosen) or question.dynamic or side != Side():
        raise PerfcliError(
            f"{question.scenario} is a stored run, shown as it is: leave out the options for "
            "compiling"
        )
