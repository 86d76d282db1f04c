"""Holds the traces of several processes of one run together: which rank each is, which are missing,
and the one that stands for all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from perfcli.errors import PerfcliError
from perfcli.importing.traces.steps import sum_communication
from perfcli.model import Observed, ObservedRank

_NAMED = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)
_MOST_NAMED = 8


def choose_rank(traces: Sequence[Observed], wanted: int | None) -> Observed:
    """Return the trace of the rank that is wanted, or of the first, with what the others say.
    Raises PerfcliError where that rank is not there, where two traces are of one rank, and where
    nobody says that traces are of several ranks: neither they, nor their names, nor the user."""
    if len(traces) == 1 and wanted is None:
        return traces[0]
    nameless = [trace.file for trace in traces if _read_rank(trace) is None]
    if nameless and wanted is None:
        raise PerfcliError(
            f"{nameless[0]} names no rank, so these {len(traces)} traces are not taken for one run "
            "of several processes: perfcli compare A B compares two; --rank N says that they are "
            "the ranks, in order"
        )
    numbered = {_tell_rank(trace, place): trace for place, trace in enumerate(traces)}
    if len(numbered) < len(traces):
        counts = Counter(_tell_rank(trace, place) for place, trace in enumerate(traces))
        twice = next(rank for rank, count in counts.items() if count > 1)
        files = [t.file for place, t in enumerate(traces) if _tell_rank(t, place) == twice]
        raise PerfcliError(
            f"{files[0]} and {files[1]} are both of rank {twice}: import one run at a time"
        )
    chosen = min(numbered) if wanted is None else wanted
    if chosen not in numbered:
        known = ", ".join(map(str, sorted(numbered)))
        raise PerfcliError(f"there is no trace of rank {chosen}: {known} are there")
    world = max((trace.world_size or 0 for trace in traces), default=0)
    missing = [rank for rank in range(max(world, max(numbered) + 1)) if rank not in numbered]
    named = ", ".join(map(str, missing[:_MOST_NAMED]))
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    ranks = len(missing) + len(numbered)
    lost = [f"of {ranks} ranks, {named}{more} {'is' if len(missing) == 1 else 'are'} missing"]
    return replace(
        numbered[chosen],
        rank=chosen,
        ranks=tuple(_describe(rank, numbered[rank]) for rank in sorted(numbered)),
        notes=(*(lost if missing else ()), *numbered[chosen].notes),
    )


def _tell_rank(trace: Observed, place: int) -> int:
    """Return the rank that a trace is of: as it or its name says, else its place."""
    rank = _read_rank(trace)
    return place if rank is None else rank


def _read_rank(trace: Observed) -> int | None:
    """Return the rank that a trace says it is of, or its name says."""
    if trace.rank is not None:
        return trace.rank
    named = _NAMED.search(trace.file)
    return int(named[1]) if named else None


def _describe(rank: int, trace: Observed) -> ObservedRank:
    return ObservedRank(
        rank,
        trace.file,
        median(trace.step_seconds) if trace.step_seconds else None,
        median(step.busy for step in trace.steps),
        sum_communication(trace),
    )
