"""The parent's side of measuring, with made-up workers and a clock of their own."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import handmade
import pytest

from perfcli.errors import OutOfMemory, PerfcliError, WorkerFailed, WrongResult
from perfcli.fake.measuring import FakePlan, FakeStarter, parse
from perfcli.interleave import alternating
from perfcli.interleave.alternating import METHOD, TURNS, measure
from perfcli.interleave.pair import (
    LEAST_STEPS,
    MOST_STEPS,
    PROFILED_BESIDE,
    PROFILED_SHARE,
    PROFILED_STEPS,
    RELAYOUT_SECONDS,
    SECOND_SHARE,
    MeasuredPair,
    PairPlan,
    Race,
    ask_for,
)
from perfcli.model import (
    Ask,
    Clocks,
    CompileRequest,
    Device,
    MeasureRequest,
    Prepared,
    Round,
    RoundKind,
    Turn,
    Variant,
)
from perfcli.stats import paired, series, stopping
from perfcli.stats.timing import judge_clocks

Failed = list[str]


def plan(budget: float = 2.0, seed: int = 1, device: Any = "cpu", **more: Any) -> PairPlan:
    target = handmade.H100 if device == "cuda" else None
    request = CompileRequest("rmsnorm", {}, None, Variant("v"), device, target)
    sides = [MeasureRequest(request, side, seed) for side in ("base", "head")]
    return PairPlan(sides[0], sides[1], budget, seed, **more)


@dataclass
class Kept:
    """A sink that keeps what it is told."""

    workers: list[Prepared] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    elapsed: list[float] = field(default_factory=list)

    def prepared(self, prepared: Prepared) -> None:
        self.workers.append(prepared)

    def round(self, measured: Round, elapsed: float) -> None:
        self.rounds.append(measured)
        self.elapsed.append(elapsed)


def never(rounds: Sequence[Round], kind: RoundKind) -> None:
    return None


def stopping_rule(rounds: Sequence[Round], kind: RoundKind) -> str | None:
    return stopping.reason_to_stop(rounds, 0.01, kind)


def starter(text: str = "") -> FakeStarter:
    return FakeStarter(parse(f"1;{text}") or FakePlan())


def race(start: FakeStarter, asked: PairPlan, sink: Kept, enough: Any = never) -> MeasuredPair:
    return measure(asked, start, enough, sink, clock=start.clock)


def steps(rounds: Sequence[Round]) -> list[Round]:
    return [each for each in rounds if each.kind == "step"]


# --- a pair ----------------------------------------------------------------------------------


def test_the_planted_ratio_comes_out_and_both_sides_end() -> None:
    start, sink = starter("ratio=1.05;noise=0.002"), Kept()
    measured = race(start, plan(), sink)
    pairs = [(paired._turn_value(r.base), paired._turn_value(r.head)) for r in steps(sink.rounds)]
    logs = [math.log(head / base) for base, head in pairs if base and head]
    assert len(logs) > 20
    assert paired.estimate_logs(logs).ratio == pytest.approx(1.05, abs=0.002)
    assert measured.rounds == sink.rounds
    assert measured.stopped == "budget spent"
    assert measured.method == "a pair of workers, interleaved"
    assert start.alive == set()
    assert [p.side for p in sink.workers] == ["base", "head"]


def test_the_budget_is_kept_and_its_clock_starts_after_preparing() -> None:
    start, sink = starter("noise=0"), Kept()
    race(start, plan(budget=3.0), sink)
    assert 3.0 <= sink.elapsed[-1] < 3.1
    assert sink.elapsed == sorted(sink.elapsed)
    assert sink.rounds[0].at == 0.0
    assert [r.number for r in sink.rounds] == list(range(len(sink.rounds)))


def test_the_order_is_random_and_of_the_seed() -> None:
    orders = []
    for seed in (1, 1, 2):
        sink = Kept()
        race(starter(), plan(seed=seed), sink)
        orders.append([r.first for r in sink.rounds])
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    share = orders[0].count("base") / len(orders[0])
    assert 0.3 < share < 0.7


def test_the_profiler_has_its_share_and_no_round_of_steps() -> None:
    start, sink = starter("noise=0"), Kept()
    race(start, plan(budget=20.0), sink)
    profiled = [r for r in sink.rounds if r.kind == "kernels"]
    assert sink.rounds[0].kind == "step"
    assert all(r.base.seconds == () and len(r.base.launches) == PROFILED_STEPS for r in profiled)
    assert all(r.base.launches == () for r in steps(sink.rounds))
    ends = [0.0, *sink.elapsed]
    spent = sum(ends[n + 1] - ends[n] for n, r in enumerate(sink.rounds) if r.kind == "kernels")
    assert spent / ends[-1] == pytest.approx(PROFILED_SHARE, abs=0.02)
    none = Kept()
    race(starter(), plan(kernels=False), none)
    assert {r.kind for r in none.rounds} == {"step"}


def test_enough_is_asked_after_each_round_of_steps_and_ends_it() -> None:
    seen: list[int] = []

    def enough(rounds: Sequence[Round], kind: RoundKind) -> str | None:
        assert kind == "step"
        seen.append(len(steps(rounds)))
        return "precise enough" if len(steps(rounds)) == 7 else None

    sink = Kept()
    measured = race(starter(), plan(budget=60), sink, enough)
    assert measured.stopped == "precise enough"
    assert seen == [1, 2, 3, 4, 5, 6, 7]


def test_a_budget_of_nothing_still_measures_one_round_of_steps() -> None:
    sink = Kept()
    race(starter(), plan(budget=0.0), sink)
    assert [r.kind for r in sink.rounds] == ["step"]


def test_a_race_is_one_pair_of_processes() -> None:
    start, sink = starter(), Kept()
    measured = race(start, plan(budget=1.0), sink)
    assert [p.process for p in measured.prepared] == [0, 0]
    assert {r.process for r in measured.rounds} == {0}
    assert all(a.at + a.took <= b.at + 1e-9 for a, b in pairwise(measured.rounds))
    assert all(r.took > 0 for r in measured.rounds)
    assert start.alive == set()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("world", [1, 2])
def test_both_sides_start_before_either_gets_ready(device: str, world: int) -> None:
    """But for groups of ranks, of which each needs all devices."""
    happened = []
    start = starter()

    def noted(request: MeasureRequest, told: Any) -> Any:
        happened.append(f"start {request.side}")
        worker = start(request, told)
        prepare = worker.prepare

        def preparing() -> Prepared:
            happened.append(f"prepare {request.side}")
            return prepare()

        worker.prepare = preparing  # type: ignore[method-assign]
        return worker

    asked = plan(device=device)
    requests = [
        replace(side, compile=replace(side.compile, world=world))
        for side in (asked.base, asked.head)
    ]
    asked = replace(asked, base=requests[0], head=requests[1])
    Race(asked, noted, never, Kept(), clock=start.clock).run()
    at_once = ["start base", "start head", "prepare base", "prepare head"]
    assert happened == (at_once if world == 1 else [at_once[n] for n in (0, 2, 1, 3)])


def test_phases_are_told_with_their_side() -> None:
    told: list[tuple[str, str]] = []
    start = starter()
    tell = lambda side, phase: told.append((side, phase))  # noqa: E731
    measure(plan(), start, never, Kept(), tell, clock=start.clock)
    assert told[:3] == [("base", "import"), ("base", "trace"), ("base", "kernels")]
    assert ("head", "kernels") in told


def test_who_may_not_be_measured_together_is_told_before_a_round() -> None:
    def refuse(base: Prepared, head: Prepared) -> None:
        assert (base.side, head.side) == ("base", "head")
        raise PerfcliError("another GPU")

    start, sink = starter(), Kept()
    with pytest.raises(PerfcliError, match="another GPU"):
        measure(plan(), start, never, sink, ready=refuse, clock=start.clock)
    assert sink.rounds == []
    assert start.alive == set()


# --- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["base", "head"])
@pytest.mark.parametrize("kind", ["dies", "hangs", "garbage"])
@pytest.mark.parametrize("turn", ["prepare", "9"])
def test_a_worker_that_fails_ends_it_and_what_was_measured_is_kept(
    side: str, kind: str, turn: str
) -> None:
    start, sink = starter(f"fail={kind}:{side}:{turn}"), Kept()
    with pytest.raises(WorkerFailed, match=f"the {side}'s worker"):
        race(start, plan(), sink)
    # two rounds of burning in are not kept
    assert len(sink.rounds) == (0 if turn == "prepare" else 9 - 1 - 2)
    assert start.alive == set()


def test_wrong_outputs_are_not_timed() -> None:
    start, sink = starter("fail=wrong:head:prepare"), Kept()
    with pytest.raises(WrongResult, match="the head's outputs are wrong"):
        race(start, plan(), sink)
    assert sink.rounds == []
    assert start.alive == set()


def test_an_interrupt_keeps_what_is_there() -> None:
    start, sink = starter("fail=interrupt:base:12"), Kept()
    measured = race(start, plan(), sink)
    assert measured.stopped == "interrupted"
    assert len(measured.rounds) == 12 - 1 - 2
    assert start.alive == set()


@pytest.mark.parametrize("turn", ["prepare", "2"])
def test_an_interrupt_before_the_first_round_is_one(turn: str) -> None:
    start = starter(f"fail=interrupt:base:{turn}")
    with pytest.raises(KeyboardInterrupt):
        race(start, plan(), Kept())
    assert start.alive == set()


# --- one after the other ---------------------------------------------------------------------


@pytest.mark.parametrize("side", ["base", "head"])
def test_sides_that_do_not_fit_together_alternate(side: str) -> None:
    start, sink = starter(f"fail=crowded:{side}:prepare;ratio=1.05;noise=0.002"), Kept()
    most = 0

    def counted(request: MeasureRequest, told: Any) -> Any:
        nonlocal most
        worker = start(request, told)
        most = max(most, len(start.alive)) if len(start.started) > 2 else 0
        return worker

    measured = measure(plan(budget=300.0), counted, never, sink, clock=start.clock)
    assert measured.method == METHOD
    assert most == 1
    assert start.alive == set()
    (note,) = measured.notes
    assert note.startswith(f"both sides at once do not fit into memory (the {side}'s rmsnorm")
    assert {r.kind for r in measured.rounds} == {"step", "kernels"}
    processes = [r.process for r in measured.rounds if r.kind == "step"]
    assert processes == list(range(len(processes)))
    assert {r.first for r in measured.rounds} == {"base", "head"}
    pairs = [(paired._turn_value(r.base), paired._turn_value(r.head)) for r in steps(sink.rounds)]
    logs = [math.log(head / base) for base, head in pairs if base and head]
    assert paired.estimate_logs(logs).ratio == pytest.approx(1.05, abs=0.002)
    assert measured.stopped == "budget spent"
    assert 300.0 <= sink.elapsed[-1] < 307.0


def test_each_process_gives_several_turns_and_only_the_first_is_checked() -> None:
    start, sink = starter("fail=crowded:base:prepare;step=0.004;noise=0"), Kept()
    race(start, plan(budget=30.0), sink)
    first = steps(sink.rounds)[0]
    assert len(first.base.seconds) == TURNS * LEAST_STEPS
    checks = {p.process: p.check is not None for p in sink.workers}
    assert checks.pop(0) is True
    assert set(checks.values()) == {False}


def test_memory_that_runs_out_in_the_middle_keeps_the_rounds_before() -> None:
    start, sink = starter("fail=crowded:head:10"), Kept()
    measured = race(start, plan(budget=20.0), sink)
    assert measured.method == METHOD
    assert sink.rounds == measured.rounds
    assert [r.process for r in measured.rounds[:7]] == [0] * 7
    assert measured.rounds[7].process == 1
    assert [r.number for r in sink.rounds] == list(range(len(sink.rounds)))


@pytest.mark.parametrize("side", ["base", "head"])
def test_a_side_that_does_not_even_fit_alone(side: str) -> None:
    start = starter(f"fail=oom:{side}:prepare")
    with pytest.raises(OutOfMemory) as raised:
        race(start, plan(), Kept())
    assert str(raised.value).startswith(f"the {side}'s rmsnorm does not fit into memory")
    assert str(raised.value).endswith(f"tried: both sides at once, then the {side} alone")
    assert start.alive == set()


def test_enough_and_interrupts_end_the_alternation_too() -> None:
    start, sink = starter("fail=crowded:base:prepare"), Kept()
    stop = lambda rounds, kind: "precise enough" if len(steps(rounds)) == 4 else None  # noqa: E731
    measured = race(start, plan(budget=1e6), sink, stop)
    assert (measured.stopped, len(steps(sink.rounds))) == ("precise enough", 4)
    # the fifth worker of the alternation is that of the third round
    begun = 0

    def interrupted(request: MeasureRequest, told: Any) -> Any:
        nonlocal begun
        begun += 1
        if begun == 2 + 5:
            raise KeyboardInterrupt
        return start(request, told)

    sink = Kept()
    measured = measure(plan(budget=1e6), interrupted, never, sink, clock=start.clock)
    assert measured.stopped == "interrupted"
    assert len(steps(sink.rounds)) == 2
    start = starter("fail=interrupt:base:1")
    with pytest.raises(KeyboardInterrupt):
        alternating._Alternation(plan(), start, never, Kept(), clock=start.clock).run()


# --- two clocks ------------------------------------------------------------------------------


def two_clocks(
    text: str, clocks: Clocks = "both", budget: float = 4.0, enough: Any = None
) -> tuple[Kept, MeasuredPair]:
    asked = plan(device="cuda", budget=budget)
    base, head = (replace(side, clocks=clocks) for side in (asked.base, asked.head))
    sink = Kept()

    def precise(rounds: Sequence[Round], kind: RoundKind) -> str | None:
        return stopping.reason_to_stop(rounds, 0.01, kind)

    asked = replace(asked, base=base, head=head)
    return sink, race(starter(text), asked, sink, enough or precise)


def kinds(sink: Kept) -> Counter[str]:
    return Counter(each.kind for each in sink.rounds)


def test_the_device_is_timed_beside_the_step_and_comes_first() -> None:
    sink, measured = two_clocks("busy=0.5;noise=0.001;device=1.01")
    seconds = [r.head.seconds[0] for r in sink.rounds if r.kind == "device"]
    assert statistics.median(seconds) == pytest.approx(2.02e-3, rel=2e-3)
    assert kinds(sink).keys() == {"step", "device", "kernels"}
    assert measured.stopped == "precise enough"
    waits = [r.at for r in sink.rounds if r.kind == "step"]
    assert waits[0] == 0.0


def test_the_budget_goes_to_the_device_until_it_is_settled() -> None:
    sink, measured = two_clocks("busy=0.5", budget=10.0, enough=never)
    took: defaultdict[str, float] = defaultdict(float)
    for each in sink.rounds:
        took[each.kind] += each.took
    assert measured.stopped == "budget spent"
    assert took["device"] / 10.0 == pytest.approx(1 - PROFILED_BESIDE - SECOND_SHARE, abs=0.03)
    assert took["step"] / 10.0 == pytest.approx(SECOND_SHARE, abs=0.03)


@pytest.mark.parametrize(
    ("text", "clocks", "wanted"),
    [
        ("busy=0.5", "step", {"step", "kernels"}),
        ("busy=0.5;graph=why", "both", {"step", "kernels"}),
        ("busy=0.5", "device", {"step", "device", "kernels"}),
    ],
)
def test_no_graph_is_replayed_where_there_is_none_or_nobody_asks(
    text: str, clocks: Clocks, wanted: set[str]
) -> None:
    sink, measured = two_clocks(text, clocks)
    assert kinds(sink).keys() == wanted
    assert measured.stopped == "precise enough"
    assert {p.no_graph for p in sink.workers} == ({"why"} if "graph" in text else {""})


def test_a_cpu_has_one_clock() -> None:
    sink = Kept()
    race(starter("busy=0.5"), plan(), sink)
    assert kinds(sink).keys() == {"step", "kernels"}
    assert {p.device_clock for p in sink.workers} == {""}


def test_sides_that_alternate_replay_their_graphs_as_well() -> None:
    sink, _ = two_clocks("busy=0.5;fail=crowded:base:prepare", budget=60.0)
    assert kinds(sink)["device"] == kinds(sink)["step"] == kinds(sink)["kernels"] > 3


# --- how long a turn is ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "device", "count", "warmup"),
    [
        (1e-6, "cuda", MOST_STEPS, 1),
        (0.0, "cuda", MOST_STEPS, 1),
        (0.0001, "cuda", 100, 1),
        (0.0001, "cpu", 30, 1),
        (0.002, "cuda", 5, 1),
        (0.002, "cpu", LEAST_STEPS, 1),
        (0.5, "cuda", LEAST_STEPS, 1),
        (1.0, "cpu", 1, 0),
        (60.0, "cuda", 1, 0),
    ],
)
def test_how_many_steps_a_turn_has(seconds: float, device: Device, count: int, warmup: int) -> None:
    asked = ask_for("step", seconds, device)
    assert (asked.steps, asked.warmup) == (count, warmup)


def relayouts(budget: float, extra: float = 0.0) -> dict[str, list[tuple[float, bool]]]:
    """When each side was asked for a turn, and whether with another layout, which takes ``extra``
    seconds."""
    asked: dict[str, list[tuple[float, bool]]] = {"base": [], "head": []}
    start = starter("noise=0")

    def listening(request: MeasureRequest, told: Any) -> Any:
        worker = start(request, told)
        turn = worker.turn

        def heard(ask: Ask) -> Turn:
            asked[request.side].append((start.clock(), ask.relayout))
            start.clock.now += extra if ask.relayout else 0
            return turn(ask)

        worker.turn = heard  # type: ignore[method-assign]
        return worker

    measure(plan(budget=budget), listening, never, Kept(), clock=start.clock)
    return asked


def gaps(asked: dict[str, list[tuple[float, bool]]]) -> list[float]:
    """Seconds between the beginnings of rounds with another layout."""
    turns = zip(asked["base"], asked["head"], strict=True)
    moments = [min(base[0], head[0]) for base, head in turns if base[1]]
    return [later - earlier for earlier, later in pairwise(moments)]


def test_both_sides_get_another_layout_together_five_times_a_second() -> None:
    asked = relayouts(budget=3.0)
    changes = [[n for n, (_, relayout) in enumerate(asks) if relayout] for asks in asked.values()]
    assert changes[0] == changes[1]
    assert changes[0][0] == 0
    assert min(gaps(asked)) > RELAYOUT_SECONDS * 0.9
    assert max(gaps(asked)) < RELAYOUT_SECONDS * 1.6


def test_a_layout_that_takes_long_is_kept_for_longer() -> None:
    found = gaps(relayouts(budget=20.0, extra=0.25))
    # half a second for both sides, then four times as long
    assert min(found) > 0.5 + 2.0
    assert max(found) < 0.5 + 2.0 + 0.2


def test_a_request_differs_only_in_its_side() -> None:
    asked = plan()
    assert replace(asked.base, side="head") == asked.head


def test_long_steps_are_profiled_one_at_a_time() -> None:
    assert ask_for("kernels", 0.002, "cuda").steps == PROFILED_STEPS
    assert ask_for("kernels", 0.05, "cuda").steps == 1


# --- two devices -------------------------------------------------------------------------------


def two_devices(device: str = "cuda", **more: Any) -> PairPlan:
    asked = plan(device=device, exchanges=True, **more)
    places = [{"device_index": n} if device == "cuda" else {"cpus": (n,)} for n in range(2)]
    base, head = (
        replace(each, **place) for each, place in zip((asked.base, asked.head), places, strict=True)
    )
    return replace(asked, base=base, head=head)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_both_sides_exchange_their_devices_half_way(device: str) -> None:
    start, sink = starter(), Kept()
    measured = race(start, two_devices(device, budget=4.0), sink)
    places = [each.device_index if device == "cuda" else each.cpus[0] for each in start.started]
    assert [(each.side, n) for each, n in zip(start.started, places, strict=True)] == [
        ("base", 0), ("head", 1), ("base", 1), ("head", 0)
    ]  # fmt: skip
    assert [each.check for each in start.started] == [True, True, False, False]
    assert [(p.side, p.process) for p in measured.prepared] == [
        ("base", 0), ("head", 0), ("base", 1), ("head", 1)
    ]  # fmt: skip
    assert all(r.half == r.process + 1 for r in measured.rounds)
    assert sink.elapsed == sorted(sink.elapsed)
    first = [r for r in measured.rounds if r.half == 1]
    assert 2.0 <= first[-1].at + first[-1].took < 2.1
    assert 3.9 <= sink.elapsed[-1] < 4.1
    assert start.alive == set()


def test_the_second_half_has_as_many_rounds_as_the_first() -> None:
    def enough(rounds: Sequence[Round], kind: RoundKind) -> str | None:
        assert not any(r.half for r in rounds)
        return "precise enough" if sum(r.kind == kind for r in rounds) >= 9 else None

    measured = race(starter(), two_devices(budget=60), Kept(), enough)
    assert measured.stopped == "precise enough"
    for kind in ("step", "device"):
        halves = Counter(r.half for r in measured.rounds if r.kind == kind)
        assert halves[2] >= halves[1] >= 9


@pytest.mark.parametrize("change", [1.0, 1.03])
def test_what_the_devices_differ_by_cancels(change: float) -> None:
    start = starter(f"ratio={change};second=1.05;noise=0.002")
    measured = race(start, two_devices(budget=8.0), Kept())
    for kind in ("step", "device", "kernels"):
        found = series.estimate(series.clock_series(measured.rounds, kind))
        assert found.ratio == pytest.approx(change, abs=0.001)
        assert found.low and found.high and found.low <= change <= found.high
        assert series.device_ratio(measured.rounds, kind) == pytest.approx(1.05, abs=0.001)


def test_no_alarm_is_false_where_the_devices_differ() -> None:
    """A/A on 20 pairs of GPUs that differ by up to 10 %, with noise of 1 %."""
    found = []
    for seed in range(20):
        start = starter(f"second={0.9 + seed / 100};noise=0.01")
        asked = two_devices(budget=2.0, seed=seed, kernels=False)
        rounds = race(start, asked, Kept(), stopping_rule).rounds
        found.append(judge_clocks(rounds, "cuda", "graph"))
    assert {each.deciding.verdict for each in found} <= {"same", "unsure"}
    assert max(abs(math.log(each.deciding.ratio or 0)) for each in found) < 0.006


def test_one_that_is_out_of_memory_alone_on_its_device_does_not_alternate() -> None:
    with pytest.raises(OutOfMemory):
        race(starter("fail=oom:head:2"), two_devices(), Kept())


def test_an_interruption_before_the_exchange_leaves_nothing_to_compare() -> None:
    measured = race(starter("fail=interrupt:head:9"), two_devices(), Kept())
    assert measured.stopped == "interrupted"
    assert {r.half for r in measured.rounds} == {1}
    assert series.clock_series(measured.rounds, "step").base == ()
    assert series.device_ratio(measured.rounds, "step") is None
