"""Writes what a step is made of beside its generated kernels: library operators, the host, and how
often it was compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import BreakPlace, CollectiveTime, Comparison, HostEstimate, Run

from .._screen.kernel import shorten_location

_MOST_COLLECTIVES = 6
"""Kinds of them that are listed."""


@dataclass(frozen=True, slots=True)
class _Operators:
    """Holds all calls of library operators in a step."""

    calls: int
    flops: float
    moved: float
    counted: int
    """Calls whose work is known: the sums are of these."""
    seconds: float | None
    """By estimate, where every call has one."""


def _sum_operators(run: Run) -> _Operators:
    calls = run.count_externs().total()
    works = [(call.count, call.work) for extern in run.externs for call in extern.calls]
    known = [(count, work) for count, work in works if work is not None]
    estimates = [extern.estimate for extern in run.externs]
    timed = [extern.count * extern.estimate.seconds for extern in run.externs if extern.estimate]
    return _Operators(
        calls,
        sum(count * work.flops for count, work in known),
        sum(count * (work.read + work.written) for count, work in known),
        sum(count for count, _ in known),
        sum(timed) if timed and None not in estimates else None,
    )


def _write_operators(sides: Sequence[_Operators]) -> str:
    """Return ``2 calls, 137 GFLOP, 52.4 MB, 215 µs by estimate``, or each with an arrow between two
    sides; what is not known is left out, and said."""
    first, last = sides[0], sides[-1]
    texts = [_join_calls(first.calls, last.calls)]
    known = [side for side in sides if side.counted or not side.calls]
    if any(side.counted for side in known):
        flops = tuple(units.flops(side.flops) for side in known)
        texts += [_join(flops)] if any(side.flops for side in known) else []
        texts.append(_join(tuple(units.size(round(side.moved)) for side in known)))
    if all(side.seconds is not None or not side.calls for side in sides):
        texts.append(_join(tuple(units.seconds(side.seconds or 0.0) for side in sides)))
        texts[-1] += " by estimate"
    missing = max(side.calls - side.counted for side in sides)
    if missing and last.calls:
        lacking = [side.calls > side.counted for side in sides]
        whose = "" if len(set(lacking)) == 1 else " of the base" if lacking[0] else " of the head"
        texts.append(f"the work of {missing}{whose} is not known")
    return ", ".join(texts)


def _join_calls(first: int, last: int) -> str:
    """Return ``1 call``, or ``1 → 2 calls`` where two sides differ."""
    calls = units.plural(last, "call")
    return calls if first == last else _join((units.count(first), calls))


def _join(texts: Sequence[str]) -> str:
    return " → ".join(dict.fromkeys(texts))


def list_step_lines(run: Run) -> list[tuple[str, str]]:
    """Return the label and text of each line about a run's step."""
    lines = []
    operators = _sum_operators(run)
    if operators.calls and (operators.counted or operators.seconds is not None):
        lines.append(("operators", _write_operators([operators])))
    timed = [kernel.step_seconds for kernel in run.kernels if kernel.launches]
    kernels = [seconds for seconds in timed if seconds is not None]
    lines += _list_collectives(run)
    if operators.seconds is not None and kernels and len(kernels) == len(timed):
        hidden = run.collectives.hidden if run.collectives else 0.0
        whole = sum(kernels) + operators.seconds
        text = f"{units.seconds(whole - hidden)} by estimate, kernels and operators together"
        text += f"; {units.seconds(whole)} if nothing is hidden" * bool(hidden)
        lines.append(("step", text))
    lines += _list_host(run)
    lines += [*_list_recorded(run), *_list_obstacles(run), *_list_compiling(run)]
    return [(label, units.printable(text)) for label, text in lines]


def _list_collectives(run: Run) -> Iterator[tuple[str, str]]:
    """Yield what the collectives send and how long they take, then each kind of them."""
    found = _sum_collectives(run)
    if not found:
        return
    calls, sent = (sum(each) for each in zip(*found.values(), strict=True))
    text = f"{units.plural(calls, 'call')}, {units.size(round(sent))} sent"
    yield "collectives", text + _write_hidden([run.collectives])
    for (kind, of), (count, size) in list(found.items())[:_MOST_COLLECTIVES]:
        where = f" of {of}" if of else ""
        yield "collectives", f"{count} × {kind}{where}, {units.size(round(size))} sent"
    if len(found) > _MOST_COLLECTIVES:
        yield "collectives", f"… and {len(found) - _MOST_COLLECTIVES} more"


def _sum_collectives(run: Run) -> dict[tuple[str, str], tuple[int, float]]:
    """Return calls and bytes sent by kind and by what they belong to, the most bytes first."""
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for extern in run.externs:
        for call in extern.calls:
            work = call.work
            if work is None or work.family != "collective" or work.variant == "wait":
                continue
            key = (work.variant.replace("_", "-"), str(call.arguments.get("of", "")))
            count, sent = found.get(key, (0, 0.0))
            found[key] = (count + call.count, sent + call.count * work.sizes["sent"])
    return dict(sorted(found.items(), key=lambda each: -each[1][1]))


def _write_hidden(times: Sequence[CollectiveTime | None]) -> str:
    """Return ``, 803 µs by estimate: at best 640 µs beside kernels, 163 µs exposed``, with arrows
    between two sides; empty where that is not known."""
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        return ""
    whole = _join([units.seconds(time.seconds) for time in known])
    hidden = _join([units.seconds(time.hidden) for time in known])
    exposed = _join([units.seconds(time.exposed) for time in known])
    return f", {whole} by estimate: at best {hidden} beside kernels, {exposed} exposed"


def _list_recorded(run: Run) -> Iterator[tuple[str, str]]:
    """Yield what recording graphs as CUDA graphs comes to, where that was asked for."""
    for each in run.recorded_graphs:
        if not each.parts:
            yield "CUDA graph", f"{each.graph} is not recorded: launched kernel by kernel"
            continue
        number = units.plural(each.parts, "CUDA graph")
        texts = [f"{each.graph} is recorded as {number}" + " for each size" * each.each_size]
        if each.copied:
            inputs = units.plural(each.copied, "input")
            texts.append(f"{inputs} copied, {units.size(each.copied_bytes)} per replay")
        if each.static:
            texts.append(f"{each.static} in place, {units.size(each.static_bytes)}")
        if each.kept_bytes is not None:
            texts.append(f"keeps {units.size(each.kept_bytes)} by estimate")
        yield "CUDA graph", "; ".join(texts)
        for changed, count in Counter(each.changed).most_common(MOST_PLACES):
            times = f" (×{count})" if count > 1 else ""
            yield "CUDA graph", f"{each.graph} changes in place: {changed}{times}"


def _list_obstacles(run: Run) -> Iterator[tuple[str, str]]:
    """Yield what keeps graphs from being recorded, where that was asked for."""
    if run.settings.get("triton.cudagraphs") is not True:
        return
    for obstacle in run.graph_obstacles or ():
        place = BreakPlace(obstacle.location, obstacle.code)
        where = write_places([place] if obstacle.location else [])
        yield "CUDA graph", f"{obstacle.graph} is {obstacle.effect}: {obstacle.reason}{where}"


def _list_host(run: Run) -> Iterator[tuple[str, str]]:
    host = run.host
    if host is None:
        return
    between = f"{units.seconds(host.low)} to {units.seconds(host.high)}"
    launches = units.plural(host.launches, "launch", "launches")
    how = _name_way(host)
    yield "host", f"{launches}, about {units.seconds(host.seconds)} ({between}), {how}"


def _name_way(host: HostEstimate) -> str:
    """Return how the host launches what a step needs."""
    if host.replayed:
        return "CUDA graphs replayed"
    if host.replays:
        graphs = units.plural(host.replays, "CUDA graph")
        return f"{units.count(host.alone)} launched one by one and {graphs} replayed"
    return "launched one by one"


def _list_compiling(run: Run) -> Iterator[tuple[str, str]]:
    if run.compile_work is not None:
        work = run.compile_work
        nodes = units.plural(work.nodes, "FX node")
        text = f"{units.seconds(work.cpu_seconds)} of processor time for {nodes}"
        if work.choosing_seconds:
            text += f", {units.seconds(work.choosing_seconds)} for implementations to choose from"
        yield "compiling", text
    found = run.recompilations
    if found is not None and found.varied:
        names = ", ".join(found.first_params)
        params = [found.first_params, *(call.params for call in found.varied)]
        values = ", ".join(" ".join(map(str, each.values())) for each in params)
        counts = [units.count(len(found.first))]
        counts += [
            units.count(len(call.compilations)) + " (dynamic)" * call.dynamic
            for call in found.varied
        ]
        yield "vary", f"{names} = {values}: compilations {', '.join(counts)}"


def list_step_changes(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the label and text of each line about the steps of two runs."""
    base, head = comparison.base, comparison.head
    lines = []
    sides = [_sum_operators(run) for run in (base, head)]
    if any(side.counted or side.seconds is not None for side in sides):
        lines.append(("operators", _write_operators(sides)))
    sent = [_sum_collectives(run) for run in (base, head)]
    if any(sent):
        totals = [
            [sum(each) for each in zip(*side.values(), strict=True)] or [0, 0.0] for side in sent
        ]
        first, last = (round(count) for count, _ in totals)
        calls = _join_calls(first, last)
        sizes = _join([units.size(round(size)) for _, size in totals])
        zero = CollectiveTime(0.0, 0.0, 0.0)
        hidden = [
            run.collectives if side else zero for run, side in zip((base, head), sent, strict=True)
        ]
        lines.append(("collectives", f"{calls}, {sizes} sent{_write_hidden(hidden)}"))
    recorded = [_sum_recorded(run) for run in (base, head)]
    if any(recorded):
        lines.append(("CUDA graphs", _join([text or "none" for text in recorded])))
    estimate = comparison.estimate
    if base.host and head.host:
        ways = _join((_name_way(base.host), _name_way(head.host)))
        waits = estimate is not None and estimate.head.waits_for_host
        if waits or " → " in ways:
            launches = _join([units.count(host.launches) for host in (base.host, head.host)])
            times = _join([units.seconds(host.seconds) for host in (base.host, head.host)])
            word = "launch" if head.host.launches == 1 else "launches"
            text = f"{launches} {word}, {times}" + f", {ways}" * (" → " in ways)
            if estimate is not None and waits:
                device = _join([units.seconds(s.seconds) for s in (estimate.base, estimate.head)])
                text += f"; the device needs {device} and waits for the host"
            lines.append(("host", text))
    for side, run in (("base", base), ("head", head)):
        varied = (text for label, text in _list_compiling(run) if label == "vary")
        lines += [(f"{side} vary", text) for text in varied]
    return [(label, units.printable(text)) for label, text in lines]


def _sum_recorded(run: Run) -> str:
    """Return ``2 recorded, 4.19 MB copied per replay, 71.3 MB kept``; empty where recording was
    not asked for."""
    if not run.recorded_graphs:
        return ""
    recorded = [each for each in run.recorded_graphs if each.parts]
    parts = sum(each.parts for each in recorded)
    copied = sum(each.copied_bytes for each in recorded)
    kept = sum(each.kept_bytes or 0 for each in recorded)
    return f"{parts} recorded, {units.size(copied)} copied per replay, {units.size(kept)} kept"


MOST_PLACES = 3


def write_places(places: Sequence[BreakPlace]) -> str:
    """Return `` at …/bs/model.py:21  return torch.unique(x)``, and how many more lines there are;
    empty where none is known."""
    shown = [f"{shorten_location(p.location)}  {p.code}".rstrip() for p in places[:MOST_PLACES]]
    more = [f"{len(places) - MOST_PLACES} more"] if len(places) > MOST_PLACES else []
    return f" at {'; '.join([*shown, *more])}" if shown else ""
