"""The head against another revision or another interpreter, both compiled here and, on a device
that is there, measured in turns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli import registry, userfile
from perfcli.commands import _gate_checks, _measuring, _obtain
from perfcli.commands._gate_order import Against, Compared, NoBase, Order
from perfcli.commands._gate_revision import Revision
from perfcli.commands._measuring_options import Asked, Setting, settle
from perfcli.commands._obtain import Obtained
from perfcli.commands._request import Job, Question, Side
from perfcli.diagnosis import diagnose
from perfcli.diff.compare import ASPECTS, compare
from perfcli.errors import Interrupted, PerfcliError
from perfcli.gate.checks import Check
from perfcli.model import Comparison, Provenance, Run


@dataclass(frozen=True, slots=True)
class Base:
    """Where the base comes from: a revision, an interpreter, or both."""

    revision: Revision | None
    python: str | None

    @property
    def provenance(self) -> Provenance:
        if self.revision is not None:
            commit = self.revision.commit
            return Provenance("revision", self.revision.name, revision=commit)
        return Provenance("interpreter", self.python or "")


def with_base(base: Base) -> Compared:
    """Compares heads with what the base makes of the same check."""

    def compared(check: Check, order: Order) -> Against:
        return _against(base, check, order)

    return compared


def _against(base: Base, check: Check, order: Order) -> Against:
    question, side = _gate_checks.asked(order.config, check, order.jobs)
    before = _before(base, check, order, question)
    setting = _setting(question, order)
    ours, jobs_base = _made(before, replace(side, python=base.python), order)
    _check_own(base, ours.run)
    theirs, jobs_head = _made(question, side, order)
    _gate_checks.check_kernels(theirs.run, check)
    jobs = [*jobs_base, *jobs_head]
    comparison = compare(ours.run, theirs.run, [a for a in order.allow if a in ASPECTS])

    def measured() -> Comparison:
        assert setting is not None
        found = _measuring.measured(comparison, setting, jobs, order.how, order.notes)
        if _measuring.broken_off(found.timing):
            raise Interrupted(f"interrupted while {check.name} was measured")
        return _measuring.weighed(diagnose(found))  # what was measured has findings of its own

    environment = ours.run.environment
    provenance = replace(base.provenance, torch=environment.torch, triton=environment.triton or "")
    if setting is None:
        return Against(diagnose(comparison), theirs, provenance, ours)
    return Against(measured(), theirs, provenance, ours, again=measured)


def _setting(question: Question, order: Order) -> Setting | None:
    """How to measure, None where a check is for a target: the budget is the configuration's."""
    if question.target:
        return None
    setting = settle(question, Asked(allow_env=order.allow_env, no_time=order.no_time), order.how)
    budget = order.config.budget
    return setting if setting is None or budget is None else replace(setting, budget=budget)


def _made(question: Question, side: Side, order: Order) -> tuple[Obtained, Sequence[Job]]:
    made = _obtain.ordered(question, [side], order.how, order.notes)
    (found,) = _obtain.obtain(made.jobs, made.executor, order.how.fresh, order.notes)
    return found, made.jobs


def _before(base: Base, check: Check, order: Order, question: Question) -> Question:
    """The same question, of the base's files. Raises NoBase where it has none for it."""
    if base.revision is None or not registry.is_user_file(check.scenario):
        return question
    path, name = userfile.split(check.scenario)
    place = base.revision.place(order.config.folder / path)
    if not place.is_file():
        raise NoBase(f"{check.name} is new: {base.revision.name} has no {path}")
    return replace(question, scenario=str(place) if name is None else f"{place}:{name}")


def _check_own(base: Base, run: Run) -> None:
    """Raises PerfcliError where the base imported files of the user's own checkout: it would be
    the head's code under the base's name."""
    if base.revision is None:
        return
    root = base.revision.root
    foreign = [path for path in run.sources if Path(os.path.realpath(path)).is_relative_to(root)]
    if foreign:
        raise PerfcliError(
            f"the base at {base.revision.name} imports {foreign[0]}, which is the head's: it is "
            "installed from this checkout (pip install -e). Give an interpreter without it "
            "(--base-python), or compare with a baseline"
        )
