"""Shows what tune found: on the screen, as JSON, as a file of options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

from perfcli import units
from perfcli.bisect.answer import _stopped
from perfcli.bisect.exact import SKIMMED
from perfcli.frames.table import Column, Table
from perfcli.model import Conclusion
from perfcli.options import files
from perfcli.tune.answer import Ratio, Share, Source, Tried, Tuned
from perfcli.tune.judging import LAUNCH_SEARCHES
from perfcli.tune.smallest import KEPT

_SOURCE = {"estimated": "by estimate", "measured": "measured"}
_LEFT_OUT = {
    "numerics": "change results beyond the order of sums",
    "assumptions": "take for granted what torch checks or leaves open",
}
_MOST_TRIED = 4
_MOST_FAILURES = 3


def verdict_line(found: Tuned) -> str:
    """Return the result in one line."""
    if found.verdict == "faster":
        return f"FASTER {_describe_gain(found)}"
    if found.stopped and found.verdict == "unsure":
        return "UNSURE: nothing that is surely faster was found before it stopped"
    if found.verdict == "unsure":
        return "UNSURE: something may be faster, and nothing surely is; keep the default"
    return f"SAME: nothing is faster than the default{_count_skimmed(found)}"


def _count_skimmed(found: Tuned) -> str:
    """Return what the verdict leaves open: how many variants have no estimate."""
    skimmed = sum(tried.failure.startswith(SKIMMED) for tried in found.alone)
    if not skimmed:
        return ""
    of = f"{skimmed} of {units.plural(len(found.alone), 'single change')}"
    return f"; {of} not estimated, as the code does no less"


def _describe_gain(found: Tuned) -> str:
    change = write_ratio(found.against_default)
    return f"{_SOURCE[found.source]}, {change}: {' '.join(units.settings(found.options))}"


def conclude(found: Tuned) -> Conclusion:
    """Return what a page with the comparison of what was chosen begins with."""
    note = _explain_comparison(found)
    if found.source == "measured":
        note = "tune measured this; what follows compares the code of both, by estimate"
    return Conclusion("FASTER", _describe_gain(found), note)


def _explain_comparison(found: Tuned) -> str:
    """Return why ``compare`` shows a wider interval; empty where it shows none."""
    compared, ours = found.compared, found.against_default
    if found.source == "measured" or compared is None:
        return ""
    if compared.low is None or compared.high is None:
        return ""
    if compared.high / compared.low <= ours.high / ours.low:
        return ""
    change = units.interval(compared.ratio, compared.low, compared.high)
    says = " (UNSURE)" if compared.verdict == "unsure" else ""
    return (
        f"compare shows a wider interval, {change}{says}: it has to fit any two runs, tune's only "
        "options of one model (docs/tune.md, How sure an estimate is)"
    )


def report_lines(found: Tuned, output: str = "") -> list[str]:
    """Return the whole report. ``output``: the file of options that was written."""
    body = [
        f"{found.title} · torch {found.torch}",
        _describe_search(found),
        "",
        verdict_line(found),
        *_describe_shares(found),
        *_describe_costs(found),
        *_describe_near(found),
        *_describe_left_out(found),
        *_describe_application(found, output),
        *_describe_failures(found),
        *_describe_stop(found),
    ]
    return [units.printable(line) for line in body]


def write_ratio(ratio: Ratio | None) -> str:
    """Return ``−24 % [−33, −14]``."""
    if ratio is None:
        return units.NOT_KNOWN
    return units.interval(ratio.ratio, ratio.low, ratio.high)


def _describe_search(found: Tuned) -> str:
    options, values = found.searched
    default = "" if found.seconds is None else f"default {units.seconds(found.seconds)} · "
    cost = found.cost
    spent = ""
    if cost is not None:
        measured = f", {units.plural(cost.measured, 'measurement')}" if cost.measured else ""
        spent = (
            f" · {cost.compiled} compiled, {units.plural(cost.classes, 'class', 'classes')}"
            f"{measured}, {units.seconds(cost.seconds)}"
        )
    return f"{default}{options} options with {values} values{spent}"


def _describe_shares(found: Tuned) -> Iterator[str]:
    for share in found.shares:
        mark = f" ({share.alters})" if share.alters else ""
        line = f"   {_setting(share)}{mark}: alone {write_ratio(share.alone)}"
        if len(found.shares) > 1:
            line += f", on top of the others {write_ratio(share.on_top)}"
        yield line


def _setting(share: Share) -> str:
    return f"{share.change.name}={units.setting(share.change.bad)}"


def _describe_costs(found: Tuned) -> Iterator[str]:
    for change in found.costs:
        write = units.writer(change.metric)
        share = units.relative(change.base, change.head)
        both = f"{write(change.base)} → {write(change.head)}"
        yield f"   {units.title(change.metric)}: {both}{f' ({share})' if share else ''}"


def _describe_near(found: Tuned) -> Iterator[str]:
    near = [tried for tried in found.tried if dict(tried.options) != dict(found.options)]
    near = near[:_MOST_TRIED]
    chosen = {share.change.key for share in found.shares}
    parts = [tried for tried in near if tried.keys < chosen]
    others = [tried for tried in near if tried not in parts]
    if near:
        yield ""
    title = "not chosen:" if found.verdict == "faster" else "looked at:"
    for head, sets in (("smaller sets of the chosen options:", parts), (title, others)):
        if sets:
            yield head
        for tried in sets:
            yield f"   {' '.join(units.settings(tried.options))}: {_write_tried(tried)}"


def _write_tried(tried: Tried) -> str:
    if tried.failure:
        return tried.failure[:160]
    both = (("measured", tried.measured), ("by estimate", tried.estimated))
    return ", ".join(f"{write_ratio(ratio)} {name}" for name, ratio in both if ratio)


def _describe_left_out(found: Tuned) -> Iterator[str]:
    for kind, names in found.left_out.items():
        if names:
            number = units.plural(len(names), "option")
            yield f"{number} not tried that {_LEFT_OUT[kind]}: --allow {kind} tries them"
    searches = [name for name in LAUNCH_SEARCHES if not found.options.get(name)]
    if searches and found.source == "estimated":
        yield f"not tried, as only a GPU can judge them: {', '.join(searches)}"


def _describe_application(found: Tuned, output: str) -> Iterator[str]:
    if found.verdict != "faster":
        return
    yield ""
    yield "to apply:"
    yield from (f"   {line}" for line in units.write_python(found.options, found.patched))
    if output:
        yield f"   perfcli apply {output} -- python …"
    yield found.command
    if note := _explain_comparison(found):
        yield f"   {note}"


def _describe_failures(found: Tuned) -> Iterator[str]:
    if not found.failures:
        return
    head = f"{units.plural(len(found.failures), 'variant')} without an answer"
    if len(found.failures) > _MOST_FAILURES:
        yield f"{head} (--json has all)"
        return
    yield f"{head}:"
    for name, why in found.failures.items():
        yield f"   {' '.join(units.settings(json.loads(name)))}: {why[:160]}"


def _describe_stop(found: Tuned) -> Iterator[str]:
    if found.stopped:
        yield f"{_stopped(found.stopped)}: the same command goes on from there"


def list_fields(found: Tuned) -> dict[str, Any]:
    """Return the fields of the JSON document (docs/tune.md)."""
    return {
        "id": found.id,
        "scenario": found.scenario,
        "torch": found.torch,
        "target": found.target,
        "verdict": found.verdict,
        "source": found.source,
        "options": dict(found.options),
        "patched": list(found.patched),
        "against_default": found.against_default,
        "default_seconds": found.seconds,
        "kept": KEPT,
        "shares": [
            {
                "option": each.change.name,
                "value": each.change.bad,
                "alone": each.alone,
                "on_top": each.on_top,
                "alters": each.alters,
            }
            for each in found.shares
        ],
        "tried": [_list_tried(each) for each in found.tried],
        "alone": [_list_tried(each) for each in found.alone],
        "left_out": {kind: list(names) for kind, names in found.left_out.items()},
        "searched": {"options": found.searched[0], "values": found.searched[1]},
        "compared": _list_compared(found),
        "costs": found.costs,
        "cost": found.cost,
        "failures": dict(found.failures),
        "stopped": found.stopped,
        "command": found.command,
        "exit_code": found.exit_code,
    }


def _list_compared(found: Tuned) -> dict[str, Any] | None:
    names = ("ratio", "low", "high", "verdict")
    return {name: getattr(found.compared, name) for name in names} if found.compared else None


def _list_tried(tried: Tried) -> dict[str, Any]:
    return {
        "options": dict(tried.options),
        "estimated": tried.estimated,
        "measured": tried.measured,
        "failure": tried.failure,
    }


TriedRow = tuple[Tuned, Tried]


def list_rows(found: Tuned) -> list[TriedRow]:
    """Return the rows of the table: the best few sets, then single changes not among them."""
    near = [tried.keys for tried in found.tried]
    alone = (tried for tried in found.alone if tried.keys not in near)
    return [(found, tried) for tried in (*found.tried, *alone)]


def _part(source: Source, part: str) -> Callable[[TriedRow], object]:
    return lambda row: getattr(getattr(row[1], source), part, None)


TRIED: Table[TriedRow] = Table(
    "tried",
    "a set of options that tune held against the default. Ratios are of the device time of a step",
    "`tune`",
    (
        Column(
            "options", "text", "what it sets", lambda row: " ".join(units.settings(row[1].options))
        ),
        Column(
            "chosen",
            "flag",
            "whether it is recommended",
            lambda row: row[0].verdict == "faster" and row[1].options == row[0].options,
        ),
        Column("count", "count", "options that it changes", lambda row: len(row[1].keys)),
        *(
            Column(f"{source}_{part}", "number", f"{means}, {source}", _part(source, part))
            for source in get_args(Source)
            for part, means in (
                ("ratio", "its time over the default's"),
                ("low", "the lower end of the interval"),
                ("high", "the upper end of the interval"),
            )
        ),
        Column("failure", "text", "why it has no time", lambda row: row[1].failure or None),
    ),
)


def write_file(found: Tuned) -> str:
    """Return the file of options, which sets nothing where nothing is surely faster."""
    ratio = found.against_default
    about: dict[str, Any] = {
        "scenario": found.scenario,
        "torch": found.torch,
        "target": found.target,
        "verdict": found.verdict,
        "source": found.source,
        "time_ratio": [round(each, 4) for each in (ratio.ratio, ratio.low, ratio.high)],
    }
    return files.write_options(found.options, about)
