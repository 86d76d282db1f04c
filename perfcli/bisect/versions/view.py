"""Shows what bisect-commits found, and writes it as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from perfcli import units
from perfcli.bisect.answer import Ends, _stopped
from perfcli.bisect.document import describe_answer
from perfcli.bisect.versions.answer import Proof, VersionBlame, list_versions
from perfcli.bisect.versions.plan import Version, VersionPlan
from perfcli.console import output
from perfcli.predict.step import LEAST_CHANGE

MOST_LISTED = 8
"""Suspects, or versions without an answer, that are listed."""


def write_verdict(found: VersionBlame) -> str:
    """Return one line."""
    ends = found.ends
    match found.status:
        case "same code":
            return "good and bad generate the same code: nothing in it made anything slower"
        case "not worse":
            return f"bad is not worse than good: {_write_ends(found, ends)}"
        case "ends unsure":
            return f"can't tell whether bad is worse: {_write_ends(found, ends)}"
        case "found":
            assert found.culprit is not None
            return f"first bad: {name_version(found.culprit)}"
    several = f"one of these {units.plural(len(found.suspects), _kind(found.plan))}"
    if found.stopped:
        return f"not found yet, {_stopped(found.stopped)}: {several}"
    if found.status == "one of several":
        return f"{several}: what lies between them has no answer"
    return f"{several}: measurements do not tell them apart"


def _name_suspects(found: VersionBlame) -> str:
    """Return what ends a verdict that stands alone: ``: a1b2c3d4e5f6, b2c3d4e5f6a1``."""
    names = [version.name for version in found.suspects]
    if found.culprit is not None or not names:
        return ""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f": {', '.join(names[:MOST_LISTED])}{more}"


def name_version(version: Version) -> str:
    """Return ``a1b2c3d4e5f6 Fuse the norms``, or an interpreter with its torch."""
    return f"{version.name} {version.commit.subject}" if version.commit else version.name


def _kind(plan: VersionPlan) -> str:
    return "commit" if plan.of_commits else "interpreter"


def _write_ends(found: VersionBlame, ends: Ends | None) -> str:
    assert ends is not None
    writer = units.writer(found.metric.of_runs) if not found.metric.is_timed else units.seconds
    interval = f", {units.interval(ends.ratio, ends.low, ends.high)}" if ends.ratio else ""
    how = " by estimate" if ends.estimated else ""
    return f"{writer(ends.good)} → {writer(ends.bad)}{how}{interval}"


def _lines(found: VersionBlame, proof: Proof | None) -> Iterator[str]:
    plan = found.plan
    yield f"{found.title} · {units.title(found.metric.of_runs)}"
    if found.ends is not None and found.status not in ("not worse", "ends unsure"):
        ends = _write_ends(found, found.ends)
        yield f"good {plan.good.name} → bad {plan.bad.name}: {ends}"
    merges = sum(bool(v.commit and v.commit.is_merge) for v in plan.versions)
    between = units.plural(len(plan.versions), _kind(plan))
    yield f"{between} after good" + (
        f", {units.plural(merges, 'merge')} among them" if merges else ""
    )
    yield from found.besides
    yield ""
    yield write_verdict(found)
    yield from _about(found)
    yield from _without_answer(found)
    yield ""
    yield _write_cost(found)
    if found.stopped:
        yield f"{_stopped(found.stopped)}: --resume {found.id} goes on"
    if proof is not None:
        yield from ("", f"{proof.culprit.name} and what was before it, {proof.parent.name}:")


def _about(found: VersionBlame) -> Iterator[str]:
    culprit = found.culprit
    if culprit is not None:
        assert found.first is not None
        sure = found.first.suspects[0].probability
        if culprit.commit is not None:
            merge = ", a merge" if culprit.commit.is_merge else ""
            yield f"   {culprit.commit.author}, {culprit.commit.date}{merge}"
        if found.metric.is_timed and sure < 1:
            yield f"   with a probability of {units.percent(sure)}"
        if found.disputed:
            yield f"   but {found.disputed}: try a longer --measure-budget with --resume {found.id}"
        return
    if found.status == "ends unsure" and found.ends is not None and found.ends.estimated:
        least = units.percent(LEAST_CHANGE)
        yield f"   an estimate is worse if its interval is above {least}; --metric bytes is exact"
    suspects = found.first.suspects if found.first else ()
    for suspect in sorted(suspects, key=lambda s: -s.probability)[:MOST_LISTED]:
        named = name_version(found.plan.find(suspect.name))
        yield f"   {units.percent(suspect.probability)}  {named}"
    if len(suspects) > MOST_LISTED:
        yield f"   and {len(suspects) - MOST_LISTED} more (--json and --csv have all)"


def _without_answer(found: VersionBlame) -> Iterator[str]:
    if not found.failures:
        return
    yield ""
    yield f"{units.plural(len(found.failures), _kind(found.plan))} without an answer, passed over:"
    for name, why in list(found.failures.items())[:MOST_LISTED]:
        yield f"   {name}: {why[:160]}"
    if len(found.failures) > MOST_LISTED:
        yield f"   and {len(found.failures) - MOST_LISTED} more (--json has all)"


def _without(failed: int) -> str:
    return f", {failed} without an answer" if failed else ""


def _write_cost(found: VersionBlame) -> str:
    cost = found.cost
    parts = [
        f"{cost.compiled} compiled" + _without(cost.failed),
        units.plural(cost.classes, "class", "classes") + " of identical code",
        units.plural(cost.measured, "measurement") if found.metric.is_timed else "",
        units.seconds(cost.seconds),
    ]
    return " · ".join(filter(None, parts))


def show_blame(found: VersionBlame, proof: Proof | None, taken: Path | None, quiet: bool) -> None:
    """Print the report; ``taken`` is stdout where a document has it."""
    from rich.console import Group
    from rich.text import Text

    alone = write_verdict(found) + _name_suspects(found)
    lines = [alone] if quiet else list(_lines(found, proof))
    # A line that stands alone may be read by a program.
    overflow: Literal["ignore"] | None = "ignore" if quiet else None
    texts = (Text(units.printable(line), no_wrap=quiet, overflow=overflow) for line in lines)
    output.show(Group(*texts), taken)
    if proof is None or quiet:
        return
    output.show(output.screen().comparison(proof.comparison, proof.places, False, False), taken)


# --- JSON --------------------------------------------------------------------------------------


def describe_blame(found: VersionBlame, proof: Proof | None) -> dict[str, Any]:
    """Return the document's fields (docs/bisect-commits.md)."""
    first = found.first
    return {
        "id": found.id,
        "title": found.title,
        "metric": found.metric.of_runs,
        "exact": not found.metric.is_timed,
        "exit_code": found.exit_code,
        "status": found.status,
        "stopped": found.stopped,
        "good": _describe_version(found.plan.good),
        "bad": _describe_version(found.plan.bad),
        "ends": found.ends,
        "first_bad": _describe_version(found.culprit) if found.culprit else None,
        "suspects": [
            {**_describe_version(found.plan.find(s.name)), "probability": s.probability}
            for s in (first.suspects if first else ())
        ],
        "versions": len(found.plan.versions),
        "tested": [
            {"version": row.version.name, **describe_answer(row.answer)}
            for row in list_versions(found)
            if row.answer is not None
        ],
        "failures": found.failures,
        "disputed": found.disputed,
        "besides": found.besides,
        "cost": found.cost,
        "comparison": _describe_proof(proof) if proof else None,
    }


def _describe_version(version: Version) -> dict[str, Any]:
    commit = version.commit
    if commit is None:
        return {"version": version.name, "python": version.python, "torch": version.torch}
    return {
        "version": version.name,
        "hash": commit.hash,
        "parents": commit.parents,
        "subject": commit.subject,
        "author": commit.author,
        "date": commit.date,
    }


def _describe_proof(proof: Proof) -> dict[str, Any]:
    comparison = proof.comparison
    return {
        "parent": proof.parent.name,
        "outcome": comparison.outcome,
        "reason": comparison.reason,
        "findings": output.plain_findings(comparison.findings),
        "runs": [reference for reference, _ in proof.places],
    }
