"""Cures on the screen: what to compile with, whether it helped, and how to apply it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from perfcli import units
from perfcli.model import Change, Finding, OptionValue, Trial, TrialOutcome

from .tables import HANGING, Hanging

_STYLES: dict[TrialOutcome, str] = {
    "helps": "bold green",
    "helps at a cost": "bold yellow",
    "does not help": "bold",
    "failed": "bold red",
}
# Each of these says what bytes moved say already, where these are known.
_SAID_BY_BYTES = ("bytes_swept", "lower_bound_seconds")
# Findings count only the bytes that need not move, not all of the metric of that name.
_AVOIDABLE = {"bytes_moved": "bytes read twice", "bytes_swept": "bytes swept again"}


def _list_cures(
    finding: Finding, indent: int, said: Collection[Hashable] = ()
) -> Iterator[RenderableType]:
    """Yield each cure in a line, or what came of trying it with what it costs and how to apply it
    below; those that help first. How to apply them, and what they do, is left out where it is
    ``said`` already."""
    for trial in order_trials(finding.trials):
        yield Hanging(_draw_trial(trial, finding.metric), indent)
        if trial.outcome == "helps at a cost":
            yield Hanging(Text(f"costs {write_costs(trial)}", style="yellow"), indent + HANGING)
        if _has_helped(trial) and write_application(trial) not in said:
            yield _draw_application(trial, indent + HANGING)
    if not finding.trials:
        for cure in finding.cures:
            proposal = f"cure {write_assignments(cure.options)}"
            why = f": {cure.why}" if cure.why and proposal not in said else ""
            yield Hanging(Text.assemble((proposal, "green"), why), indent)


def _draw_application(trial: Trial, indent: int) -> Text:
    """Return a line that is never wrapped: it is to be pasted."""
    text = units.printable(f"{' ' * indent}to apply: {write_application(trial)}")
    return Text(text, style="dim", no_wrap=True, overflow="ignore")


def write_own_cures(finding: Finding, cause: Finding) -> str:
    """Return what a consequence's cures come to, where its cause does not say the same: ``; tried
    triton.persistent_reductions=false: does not help``."""
    known = {(write_assignments(t.cure.options), t.outcome) for t in cause.trials}
    tried = [
        t for t in finding.trials if (write_assignments(t.cure.options), t.outcome) not in known
    ]
    if tried:
        return "".join(f"; {_draw_trial(t, finding.metric).plain}" for t in order_trials(tried))
    offered = {
        write_assignments(cure.options) for cure in (*cause.cures, *(t.cure for t in cause.trials))
    }
    own = (write_assignments(cure.options) for cure in finding.cures if not finding.trials)
    return "".join(f"; cure {each}" for each in own if each not in offered)


def order_trials(trials: Iterable[Trial]) -> list[Trial]:
    """Return those that help first."""
    return sorted(trials, key=lambda trial: list(_STYLES).index(trial.outcome))


def _list_said(finding: Finding) -> list[str]:
    """Return what need not be said twice: how to apply what helps, and what a cure does."""
    helping = [write_application(trial) for trial in finding.trials if _has_helped(trial)]
    return [*helping, *(f"cure {write_assignments(cure.options)}" for cure in finding.cures)]


def _has_helped(trial: Trial) -> bool:
    return trial.outcome.startswith("helps")


def write_trial(trial: Trial, metric: str) -> str:
    """Return ``tried triton.persistent_reductions=false: helps: spilled words 92 → 0, time not
    measured``."""
    return _draw_trial(trial, metric).plain


def _draw_trial(trial: Trial, metric: str) -> Text:
    word = "helps" if _has_helped(trial) else trial.outcome
    return Text.assemble(
        (f"tried {write_assignments(trial.cure.options)}: ", ""),
        (word, _STYLES[trial.outcome]),
        _write_result(trial, metric),
        (_write_time(trial) if _has_helped(trial) else ""),
    )


def _write_time(trial: Trial) -> str:
    """Return what the estimate says of the step. Else there are numbers of the compiled code alone:
    nobody is to take "helps" for "is faster"."""
    time = next((change for change in trial.changes if change.metric == "step_time"), None)
    if time is None:
        return ", time not measured"
    sure = " (unsure)" if time.outcome == "unknown" else ""
    share = units.relative(time.base, time.head)
    return f", {units.from_to(time.base, time.head)} ({share or '0 %'}) by estimate{sure}"


def _write_result(trial: Trial, metric: str) -> str:
    """Return what became of the finding's own number, and why it failed where it did."""
    text = ""
    if trial.before is not None and trial.after is not None:
        write = units.writer(metric)
        counted = _AVOIDABLE.get(metric) or units.title(metric)
        text = f": {counted} {write(trial.before)} → {write(trial.after)}"
    elif _has_helped(trial):
        text = ": the finding is gone"
    return f"{text}{', ' if text else ': '}{trial.reason}" if trial.reason else text


def write_costs(trial: Trial) -> str:
    """Return what got worse: ``+1.62 GB bytes moved (+6.8 %)``."""
    worse = [change for change in trial.changes if change.outcome == "worse"]
    if any(change.metric == "bytes_moved" for change in worse):
        worse = [change for change in worse if change.metric not in _SAID_BY_BYTES]
    return ", ".join(map(_write_cost, worse))


def _write_cost(change: Change) -> str:
    text = f"{units.signed(units.writer(change.metric), change.delta)} {units.title(change.metric)}"
    share = units.relative(change.base, change.head)
    return f"{text} ({share})" if share else text


def write_assignments(options: Mapping[str, OptionValue]) -> str:
    """Return the options as they are given to ``-o``."""
    return " ".join(units.settings(options))


def write_application(trial: Trial) -> str:
    """Return how to apply the options in the user's program; for perfcli's command line they stand
    above."""
    return "; ".join(units.write_python(trial.cure.options, trial.brought))
