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
_MODULES = {"dynamo.": "torch._dynamo.config.", "functorch.": "torch._functorch.config."}


def _cure_lines(
    finding: Finding, indent: int, said: Collection[Hashable] = ()
) -> Iterator[RenderableType]:
    """Yield each cure in a line, or what came of trying it with what it costs and how to apply it
    below; those that help first. How to apply them, and what they do, is left out where it is
    ``said`` already."""
    for trial in in_order(finding.trials):
        yield Hanging(_tried(trial, finding.metric), indent)
        if trial.outcome == "helps at a cost":
            yield Hanging(Text(f"costs {costs(trial)}", style="yellow"), indent + HANGING)
        if _helps(trial) and applied(trial) not in said:
            yield _to_apply(trial, indent + HANGING)
    if not finding.trials:
        for cure in finding.cures:
            proposal = f"cure {assignments(cure.options)}"
            why = f": {cure.why}" if cure.why and proposal not in said else ""
            yield Hanging(Text.assemble((proposal, "green"), why), indent)


def _to_apply(trial: Trial, indent: int) -> Text:
    """Return a line that is never wrapped: it is to be pasted."""
    text = units.printable(f"{' ' * indent}to apply: {applied(trial)}")
    return Text(text, style="dim", no_wrap=True, overflow="ignore")


def own_cures(finding: Finding, cause: Finding) -> str:
    """Return what a consequence's cures come to, where its cause does not say the same: ``; tried
    triton.persistent_reductions=false: does not help``."""
    known = {(assignments(t.cure.options), t.outcome) for t in cause.trials}
    tried = [t for t in finding.trials if (assignments(t.cure.options), t.outcome) not in known]
    if tried:
        return "".join(f"; {_tried(t, finding.metric).plain}" for t in in_order(tried))
    offered = {
        assignments(cure.options) for cure in (*cause.cures, *(t.cure for t in cause.trials))
    }
    own = (assignments(cure.options) for cure in finding.cures if not finding.trials)
    return "".join(f"; cure {each}" for each in own if each not in offered)


def in_order(trials: Iterable[Trial]) -> list[Trial]:
    """Return those that help first."""
    return sorted(trials, key=lambda trial: list(_STYLES).index(trial.outcome))


def _said_by(finding: Finding) -> list[str]:
    """Return what need not be said twice: how to apply what helps, and what a cure does."""
    helping = [applied(trial) for trial in finding.trials if _helps(trial)]
    return [*helping, *(f"cure {assignments(cure.options)}" for cure in finding.cures)]


def _helps(trial: Trial) -> bool:
    return trial.outcome.startswith("helps")


def tried(trial: Trial, metric: str) -> str:
    """Return ``tried triton.persistent_reductions=false: helps: spilled words 92 → 0, time not
    measured``."""
    return _tried(trial, metric).plain


def _tried(trial: Trial, metric: str) -> Text:
    word = "helps" if _helps(trial) else trial.outcome
    return Text.assemble(
        (f"tried {assignments(trial.cure.options)}: ", ""),
        (word, _STYLES[trial.outcome]),
        _result(trial, metric),
        # Numbers of the compiled code: nobody is to take "helps" for "is faster".
        (", time not measured" if _helps(trial) else ""),
    )


def _result(trial: Trial, metric: str) -> str:
    """Return what became of the finding's own number, and why it failed where it did."""
    text = ""
    if trial.before is not None and trial.after is not None:
        write = units.writer(metric)
        text = f": {units.title(metric)} {write(trial.before)} → {write(trial.after)}"
    elif _helps(trial):
        text = ": the finding is gone"
    return f"{text}{', ' if text else ': '}{trial.reason}" if trial.reason else text


def costs(trial: Trial) -> str:
    """Return what got worse: ``+1.62 GB bytes moved (+6.8 %)``."""
    worse = [change for change in trial.changes if change.outcome == "worse"]
    if any(change.metric == "bytes_moved" for change in worse):
        worse = [change for change in worse if change.metric not in _SAID_BY_BYTES]
    return ", ".join(map(_cost, worse))


def _cost(change: Change) -> str:
    text = f"{units.signed(units.writer(change.metric), change.delta)} {units.title(change.metric)}"
    share = units.relative(change.base, change.head)
    return f"{text} ({share})" if share else text


def assignments(options: Mapping[str, OptionValue]) -> str:
    """Return the options as they are given to ``-o``."""
    return " ".join(f"{name}={units.setting(value)}" for name, value in options.items())


def applied(trial: Trial) -> str:
    """Return how to apply the options in the user's program; for perfcli's command line they stand
    above."""
    given = trial.cure.options
    elsewhere = (*_MODULES, *trial.brought)
    inductor = {n: v for n, v in given.items() if not n.startswith(elsewhere)}
    python = [f"torch.compile(model, options={_literal(inductor)})"] if inductor else []
    for name, value in given.items():
        python += [
            f"{module}{name.removeprefix(prefix)} = {value!r}"
            for prefix, module in _MODULES.items()
            if name.startswith(prefix)
        ]
        if name in trial.brought:
            python.append(f"from perfcli.compile import backport; backport.install({value!r})")
    return "; ".join(python)


def _literal(options: Mapping[str, OptionValue]) -> str:
    return "{" + ", ".join(f'"{name}": {value!r}' for name, value in options.items()) + "}"
