"""``perfcli kernels bench``: which contenders, problem after problem, and what is kept of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfcli import units
from perfcli.console import documents, output
from perfcli.console.notes import Notes, Reporter
from perfcli.errors import Interrupted, PerfcliError
from perfcli.handwritten import peers
from perfcli.handwritten.contenders import COPY, MODES
from perfcli.handwritten.peers import NAMES as PEERS
from perfcli.model import KernelFamily, LaunchPlan, Problem, Target
from perfcli.model.kernel_work import BenchAsk, Benched, BenchRequest, Contender
from perfcli.names import public, suggestion
from perfcli.workbench import bench_view, tables
from perfcli.workbench.problems import _find_variant, _list_problems, write_problem
from perfcli.workbench.request import KernelsOptions
from perfcli.workbench.scores import Score, _score
from perfcli.worker.roles import KernelWorker, Progress

ROUNDS, BUDGET_SECONDS = 40, 10.0
OTHERS = ("eager", *MODES, *PEERS)
OURS = "ours"


def _run(
    families: Mapping[str, KernelFamily],
    target: Target,
    asked: KernelsOptions,
    seed: int,
    worker: KernelWorker,
) -> int:
    """Time every problem, show each when it is done, and write what was asked for.

    A problem that fails is told and left out; 2 where ours was timed nowhere, 1 where ours is
    wrong.
    """
    notes, scores, failures = Notes(asked.quiet), [], []
    interrupted = False
    asks = {ref: _list_asks(family, target, asked) for ref, family in families.items()}
    try:
        for reference, family in families.items():
            for ask in asks[reference]:
                request = BenchRequest(reference, seed)
                try:
                    benched = time_problem(request, ask, worker, notes)
                except PerfcliError as error:
                    failures.append(f"{write_problem(ask.problem)}: {error}")
                    notes.warn(failures[-1])
                    continue
                scores.append(_score(public(family.name), benched, ask.contenders))
                if not asked.quiet:
                    output.show(bench_view._draw_problem(scores[-1]), asked.taken)
    except KeyboardInterrupt:
        interrupted = True
    _finish(scores, failures, asked, seed)
    if interrupted:
        raise Interrupted(f"interrupted after {units.plural(len(scores), 'problem')}")
    if failures and not scores:
        raise PerfcliError(f"nothing was timed: {failures[0]}")
    ours = [score.ours for score in scores]
    if any(each is not None and each.timed.wrong for each in ours):
        return 1
    return 0 if all(each is not None and each.median for each in ours) and not failures else 2


def _finish(
    scores: Sequence[Score], failures: Sequence[str], asked: KernelsOptions, seed: int
) -> None:
    if scores:
        output.show(bench_view._sum_up_scores(scores), asked.taken)
        if asked.svg is not None:
            output.write_text(bench_view._draw_chart(scores), asked.svg)
    fields: dict[str, Any] = {
        "seed": seed,
        "machine": scores[0].benched.machine if scores else None,
        "problems": [bench_view._describe_scores(score) for score in scores],
        "failures": failures,
    }
    output.write_document("kernels-bench", fields, asked.json)
    documents.write_table(tables.SCORES, tables.list_scores(scores), asked.written)


def time_problem(
    request: BenchRequest, ask: BenchAsk, worker: KernelWorker, notes: Notes
) -> Benched:
    """Return one problem, timed, and show meanwhile how far it is. Raises as
    ``KernelWorker.benched``."""
    with Reporter([write_problem(ask.problem)], notes) as progress:
        done = 0

        def preparing(name: str) -> None:
            nonlocal done
            text = f"getting {name} ready" if name else "timing"
            progress(Progress(0, "warm" if name else "done", done, len(ask.contenders), text))
            done += 1

        return worker.benched(request, ask, preparing)


def _list_asks(family: KernelFamily, target: Target, asked: KernelsOptions) -> list[BenchAsk]:
    """Raise PerfcliError where a problem that was asked for cannot be planned."""
    others = _list_others(asked.against)
    rounds, budget = asked.rounds or ROUNDS, asked.budget or BUDGET_SECONDS
    asks = []
    for problem in _list_problems(family, asked.params):
        contenders = _list_contenders(
            family, problem, target, asked, others
        )  # may refuse the problem
        asks.append(BenchAsk(problem, family.moved_bytes(problem), contenders, rounds, budget))
    return asks


def _list_others(against: Sequence[str]) -> tuple[str, ...]:
    if not against:
        return OTHERS
    if "none" in against:
        if len(against) > 1:
            raise PerfcliError("--against none goes with no other --against")
        return ()
    for name in against:
        if name not in OTHERS:
            raise PerfcliError(f"there is no contender {name!r}: {suggestion(name, OTHERS)}")
    return tuple(name for name in OTHERS if name in against)


def _list_contenders(
    family: KernelFamily,
    problem: Problem,
    target: Target,
    asked: KernelsOptions,
    others: Sequence[str],
) -> tuple[Contender, ...]:
    chosen = family.plan(problem, target, _find_variant(family, asked.variant))
    plans: dict[str, LaunchPlan] = {OURS: chosen}
    if asked.all_variants:
        for variant in family.variants:
            plan = _plan_other(family, problem, target, variant.name)
            if plan is not None and plan.variant not in {p.variant for p in plans.values()}:
                plans[plan.variant] = plan
    ours = [Contender(name, plan) for name, plan in plans.items()]
    able = [o for o in others if o not in PEERS or peers.has_operation(o, problem.operation)]
    return (Contender(COPY), *ours, *map(Contender, able))


def _plan_other(
    family: KernelFamily, problem: Problem, target: Target, variant: str
) -> LaunchPlan | None:
    """Return the variant's own plan, or None where it cannot do the problem."""
    try:
        return family.plan(problem, target, variant)
    except PerfcliError:
        return None
