"""The comparison of the runs behind two points, as the page that ``compare --html`` writes."""

from __future__ import annotations

from perfcli.diagnosis import judge
from perfcli.diff.compare import ASPECTS, gather_evidence
from perfcli.errors import PerfcliError
from perfcli.history.entry import Stored
from perfcli.history.history import History
from perfcli.loading import registry
from perfcli.model import Document
from perfcli.workflow.obtain import Obtained
from perfcli.workflow.pair import Pair, summarize


def render_comparison(history: History, before: Stored, after: Stored, most: int) -> str:
    """Return a page about the runs of two entries, of at most so many bytes, without their sources;
    empty where the history does not have them, or the page is larger."""
    try:
        base, head = (history.read_run(each.entry.run) for each in (before, after))
        if base is None or head is None:
            return ""
        comparison, broken = judge(gather_evidence(base, head, ASPECTS))
    except PerfcliError:
        return ""
    sides = Obtained(base, None), Obtained(head, None)
    judgement = summarize([Pair(*sides, comparison, fault=str(broken or ""))])
    text = registry.load_declared("reports", "html", Document).render(judgement)
    return text if len(text.encode()) <= most else ""
