"""The model is not one graph: Dynamo gave up in the middle, or on a whole function.

What it sees: the reasons that Dynamo counted while it traced the model, each with how often, with
the lines of the model and Dynamo's sentence about it, which names the operator; and functions that
it left to run eagerly as a whole. A reason is its first line.

Why it costs: nothing is fused across a break, every value that is alive at one is written to
memory, and Python runs between the graphs. What runs eagerly makes no kernels: it is missing from
every number of the report.

What to try: `torch.compile(model, fullgraph=True)` stops at the first break and shows its line;
`TORCH_LOGS=graph_breaks` prints all of them with their stacks. For `.item()` there is
`dynamo.capture_scalar_outputs`, for `nonzero` and its like
`dynamo.capture_dynamic_output_shape_ops`: both keep the value inside of the graph, unknown.
An `if` on such a value breaks the graph all the same, there ("Data-dependent branching"); where the
value is read in the `if` itself, the option is therefore not proposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perfcli import units
from perfcli.model import BreakPlace, Cure, Finding, Origin, Rule, Run

LEFT = re.compile(r"Dynamo left (\d+) of (\d+) functions to run eagerly(?:: (.*))?")
"""The note of ``compile/tracing.py``."""
_CURES = {
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": (
        "dynamo.capture_scalar_outputs"
    ),
    "Dynamic shape operator": "dynamo.capture_dynamic_output_shape_ops",
}
"""Reasons in the words of torch 2.11 to 2.15."""
_BRANCH = re.compile(r"\s*(if|elif|while)\b")
_ADVICE = (
    "fullgraph=True stops at the first break and shows its line; TORCH_LOGS=graph_breaks prints all"
)


def _check(run: Run) -> Iterator[Finding]:
    for index, (reason, number) in enumerate(run.graph_breaks.items()):
        places = run.break_places.get(reason, ())
        compiled = f"{units.plural(len(run.graphs), 'graph')} compiled"
        yield Finding(
            code=RULE.code,
            severity="warning",
            headline=f"{units.plural(number, 'graph break')}: {reason}",
            # A number of the run, not of each reason.
            evidence=(*_said(places), *([] if index else [compiled])),
            advice=_ADVICE,
            cures=_cures(run, reason, places),
            metric="graph_breaks",
            amount=number,
            origin=_origin(places),
            subject=reason,
        )
    for note in run.notes:
        left = LEFT.match(note)
        if left:
            yield _eager(run, int(left[1]), int(left[2]), left[3] or "")


def _origin(places: Sequence[BreakPlace]) -> Origin | None:
    if not places:
        return None
    return Origin("", "", location=places[0].location, code=places[0].code)


def _said(places: Sequence[BreakPlace]) -> list[str]:
    """Return what Dynamo says of them, and the lines after the first one, which is the origin."""
    sentences = dict.fromkeys(place.explanation for place in places if place.explanation)
    also = [f"also {place.location}  {place.code}".rstrip() for place in places[1:]]
    return [*sentences, *also]


def _cures(run: Run, reason: str, places: Sequence[BreakPlace]) -> tuple[Cure, ...]:
    option = _CURES.get(reason, "")
    if run.settings.get(option) is not False:
        return ()
    if places and all(_BRANCH.match(place.code) for place in places):
        return ()  # The break would be at the same line, for another reason.
    return (Cure({option: True}, "keeps the value inside of the graph"),)


def _eager(run: Run, left: int, total: int, why: str) -> Finding:
    places = run.break_places.get(why, ())
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{left} of {units.plural(total, 'function')} run eagerly, without kernels",
        evidence=(*([why] if why else []), *_said(places)),
        advice=_ADVICE,
        cures=() if why in run.graph_breaks else _cures(run, why, places),
        origin=_origin(places),
        subject="functions left to run eagerly",
        amount=left,
    )


RULE = Rule("PC403", "graph breaks", __doc__, of_run=_check)
