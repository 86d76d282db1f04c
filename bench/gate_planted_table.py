"""What came of each edit, in a line and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gate_planted import Outcome

INTRODUCTION = """\
# Planted regressions and harmless edits

Made by `make gate-planted`: {planted} planted regressions, {caught} caught; {harmless} harmless \
edits, {failed} failed. torch {torch}, target h100, no GPU, with the limits that hold where \
nothing is configured and `fail-on = "warning"`. The edited repository is `tests/fixtures/gate`, \
the edits are in `bench/gate_planted_*.py`; each is one pull request to it. From and to are sums \
over its five checks; `load bits` are one kernel's.
"""


def row(outcome: Outcome) -> str:
    said = outcome.by[0] if outcome.by else ""
    more = f" (+{len(outcome.by) - 1})" if len(outcome.by) > 1 else ""
    kind = outcome.edit.metric or "harmless"
    mark = "ok   " if outcome.right else "WRONG"
    name = f"{outcome.edit.name:24}"
    return f"{mark} {outcome.exit_code} {outcome.seconds:5.1f} s  {name} {kind:18} {said}{more}"


def markdown(outcomes: Sequence[Outcome]) -> str:
    planted = [o for o in outcomes if o.edit.metric]
    harmless = [o for o in outcomes if not o.edit.metric]
    parts = [
        INTRODUCTION.format(
            planted=len(planted),
            caught=sum(o.right for o in planted),
            harmless=len(harmless),
            failed=sum(not o.right for o in harmless),
            torch=version("torch"),
        ),
        "## Planted\n",
        "| the pull request | worsens | from | to | caught by | exit |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_planted(o) for o in planted),
        "\n## Harmless\n",
        "| the pull request | the gate | exit |",
        "| --- | --- | --- |",
        *(_harmless(o) for o in harmless),
    ]
    return "\n".join(parts) + "\n"


def _planted(o: Outcome) -> str:
    by = _cell(_short(o.by[0])) if o.by else "**nothing**"
    more = f" and {len(o.by) - 1} more" if len(o.by) > 1 else ""
    numbers = f"{_number(o.before)} | {_number(o.after)}"
    metric = o.edit.metric.replace("_", " ")
    return f"| {_cell(o.edit.what)} | {metric} | {numbers} | {by}{more} | {o.exit_code} |"


def _harmless(o: Outcome) -> str:
    said = _cell(_short(o.by[0])) if o.by else "passes"
    return f"| {_cell(o.edit.what)} | {said} | {o.exit_code} |"


def _short(text: str) -> str:
    """Without the kernel that it blames, whose name is long."""
    head, _, tail = text.partition(": ")
    return f"{head}: {tail.partition(': triton_')[0]}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
