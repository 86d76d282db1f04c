"""Cures on the screen: what to compile with, whether it helped, and how to apply it."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterator, Mapping

from rich.text import Text

from perfcli import units
from perfcli.model import Finding, OptionValue, Trial, TrialOutcome

_STYLES: dict[TrialOutcome, str] = {
    "helps": "bold green",
    "helps at a cost": "bold yellow",
    "does not help": "bold",
    "failed": "bold red",
}
# Each of these says what bytes moved say already, where these are known.
_SAID_BY_BYTES = ("bytes_swept", "lower_bound_seconds")
_MODULES = {"dynamo.": "torch._dynamo.config.", "functorch.": "torch._functorch.config."}


def cure_lines(finding: Finding, said: Collection[Hashable] = ()) -> Iterator[Text]:
    """Each cure in a line, or what came of trying it; those that help first. How to
    apply them, and what they do, is left out where it is ``said`` already."""
    tried = sorted(finding.trials, key=lambda trial: list(_STYLES).index(trial.outcome))
    for trial in tried:
        yield _tried(trial, finding.metric)
        if _helps(trial) and applied(trial) not in said:
            yield Text(f"to apply: {applied(trial)}", style="dim")
    if not tried:
        for cure in finding.cures:
            proposal = f"cure {_assignments(cure.options)}"
            why = f": {cure.why}" if cure.why and proposal not in said else ""
            yield Text.assemble((proposal, "green"), why)


def said_by(finding: Finding) -> list[str]:
    """What need not be said twice: how to apply what helps, and what a cure does."""
    helping = [applied(trial) for trial in finding.trials if _helps(trial)]
    return [*helping, *(f"cure {_assignments(cure.options)}" for cure in finding.cures)]


def _helps(trial: Trial) -> bool:
    return trial.outcome.startswith("helps")


def _tried(trial: Trial, metric: str) -> Text:
    word = "helps" if _helps(trial) else trial.outcome
    return Text.assemble(
        (f"tried {_assignments(trial.cure.options)}: ", ""),
        (word, _STYLES[trial.outcome]),
        _result(trial, metric),
        (f" (costs {_costs(trial)})" if trial.outcome == "helps at a cost" else "", "yellow"),
    )


def _result(trial: Trial, metric: str) -> str:
    """What became of the finding's own number, and why it failed where it did."""
    text = ""
    if trial.before is not None and trial.after is not None:
        write = units.writer(metric)
        text = f": {units.title(metric)} {write(trial.before)} → {write(trial.after)}"
    elif _helps(trial):
        text = ": the finding is gone"
    return f"{text}{', ' if text else ': '}{trial.reason}" if trial.reason else text


def _costs(trial: Trial) -> str:
    """``+1.62 GB bytes moved, +6.8 %``."""
    worse = [change for change in trial.changes if change.outcome == "worse"]
    if any(change.metric == "bytes_moved" for change in worse):
        worse = [change for change in worse if change.metric not in _SAID_BY_BYTES]
    return "; ".join(
        ", ".join(
            filter(
                None,
                (
                    f"{units.signed(units.writer(c.metric), c.delta)} {units.title(c.metric)}",
                    units.relative(c.base, c.head),
                ),
            )
        )
        for c in worse
    )


def _assignments(options: Mapping[str, OptionValue]) -> str:
    return " ".join(f"{name}={_written(value)}" for name, value in options.items())


def _written(value: OptionValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def applied(trial: Trial) -> str:
    """On perfcli's command line, and in the user's program."""
    given = trial.cure.options
    typed = " ".join(f"-o {name}={_written(value)}" for name, value in given.items())
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
    return f"{typed}, or {'; '.join(python)}"


def _literal(options: Mapping[str, OptionValue]) -> str:
    return "{" + ", ".join(f'"{name}": {value!r}' for name, value in options.items()) + "}"
