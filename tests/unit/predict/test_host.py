"""How long the host is busy, by hand from the constants that the module states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade_estimate import weighed_kernel, weighed_run, work

from perfcli.diff.compare import compare
from perfcli.machine import targets
from perfcli.model import GraphObstacle, HostEstimate, Launch, RecordedGraph, Run
from perfcli.predict.host import compare_hosts, estimate_host_of
from perfcli.predict.step import estimate_run, estimate_step
from perfcli.rules.host_bound import RULE

H200 = targets.get("h200")


def made(
    launches: int,
    mode: str = "forward",
    blocks: int = 4096,
    text: str = "",
    sectors: float = 0.0,
    **more: Any,
) -> Run:
    name = "triton_poi_fused_add_0"
    kernel = weighed_kernel(name, "1", launches=launches, blocks=blocks, text=text or name)
    if sectors:
        asked = replace(kernel.candidates[0], work=work(blocks, sectors))
        kernel = replace(kernel, candidates=(asked,))
    listed = tuple(Launch("forward 0", kernel.name) for _ in range(launches))
    return weighed_run(kernel, target=H200, mode=mode, launches=listed, **more)


def host(run: Run) -> HostEstimate:
    found = estimate_host_of(run)
    assert found is not None
    return found


def test_a_forward_step() -> None:
    """A graph takes 80 µs (20 to 700), a launch 9 (5 to 27)."""
    found = host(made(10))
    assert (found.launches, found.replayed) == (10, False)
    assert found.seconds == pytest.approx(170e-6)
    assert found.low == pytest.approx(70e-6)
    assert found.high == pytest.approx(970e-6)
    assert found.once == pytest.approx(80e-6)
    assert found.launching == pytest.approx(50e-6)


def test_what_was_measured_lies_within() -> None:
    """Of an H200's host: launches to seconds."""
    for launches, seconds in ((1, 91e-6), (17, 1.15e-3), (35, 403e-6), (41, 434e-6)):
        found = host(made(launches))
        assert found.low < seconds < found.high


def test_a_training_step_takes_the_calibrations_time() -> None:
    """1.5 ms and 25 µs for each launch: 230 of them were seen to take 5 to 7 ms."""
    found = host(made(230, "training"))
    assert found.seconds == pytest.approx(1.5e-3 + 230 * 25e-6)
    assert found.low < 5e-3 < 7e-3 < found.high


RECORDED = (RecordedGraph("forward 0", 1),)


def test_replayed_graphs_launch_nothing() -> None:
    """Whoever asked for them: a script's own ``mode=`` is no option of the run."""
    found = host(made(10, settings={"triton.cudagraphs": False}, recorded_graphs=RECORDED))
    assert (found.replayed, found.replays, found.alone) == (True, 1, 0)
    assert found.seconds == pytest.approx(88.5e-6)
    assert found.launching == 0
    asked = {"triton.cudagraphs": True}
    refused = (RecordedGraph("forward 0", 0),)
    assert not host(made(10, settings=asked, graph_obstacles=())).replayed
    assert not host(made(10, settings=asked, recorded_graphs=refused)).replayed


def test_what_is_not_recorded_is_launched_one_by_one() -> None:
    """Two replays of 8.5 µs each beside one operator between them, and 4 launches of another
    graph."""
    split = GraphObstacle("forward 0", "split", "dynamic shape op")
    run = made(10, recorded_graphs=(RecordedGraph("forward 0", 2),), graph_obstacles=(split,))
    others = tuple(Launch("forward 1", "triton_poi_fused_add_0") for _ in range(4))
    found = host(replace(run, launches=(*run.launches, *others)))
    assert (found.launches, found.replays, found.alone, found.replayed) == (14, 2, 5, False)
    assert found.seconds == pytest.approx(80e-6 + 5 * 9e-6 + 2 * 8.5e-6)
    assert found.launching == pytest.approx(25e-6)
    trained = host(replace(run, launches=(*run.launches, *others), mode="training"))
    assert trained.seconds == pytest.approx(1.5e-3 + 5 * 25e-6 + 2 * 8.5e-6)


def test_two_hosts() -> None:
    assert compare_hosts(made(4), made(4)) == (1, 1)
    least, most = compare_hosts(made(2), made(4))
    assert least == pytest.approx(64 / 62)
    assert most == pytest.approx(5 / 3)


# --- what waits for its host -----------------------------------------------------------------


def test_launches_decide_where_the_device_needs_less() -> None:
    """A kernel of one block needs 2.5 µs at most, its launch 5 at least."""
    (found,) = RULE.of_run(made(8, blocks=1, sectors=4))
    step = estimate_step(made(8, blocks=1, sectors=4))
    assert step is not None
    assert step.high < 8 * 5e-6
    assert (found.code, found.amount, found.metric) == ("PC601", 8, "launches")
    assert found.headline.startswith("8 launches keep the host busy for 72 µs")
    assert found.cost is not None
    # 80 µs once and 72 for launches become 80 and a replay of 8.5.
    assert found.cost.seconds == pytest.approx(72e-6 - 8.5e-6)
    assert found.cost.low <= found.cost.seconds <= found.cost.high


def test_a_large_kernel_does_not_wait() -> None:
    assert list(RULE.of_run(made(8))) == []


def test_one_launch_is_no_finding() -> None:
    """To replay it would take as long."""
    assert list(RULE.of_run(made(1, blocks=1, sectors=4))) == []


def test_recorded_launches_are_no_finding() -> None:
    run = made(8, blocks=1, sectors=4, recorded_graphs=RECORDED, graph_obstacles=())
    assert list(RULE.of_run(run)) == []


def test_the_cure_is_proposed_where_nothing_is_in_its_way() -> None:
    settings = {"triton.cudagraphs": False}
    obstacle = GraphObstacle("forward 0", "not recorded", "mutated inputs (1 instances)")
    (free,) = RULE.of_run(made(8, blocks=1, sectors=4, settings=settings, graph_obstacles=()))
    (kept,) = RULE.of_run(
        made(8, blocks=1, sectors=4, settings=settings, graph_obstacles=(obstacle,))
    )
    assert [dict(cure.options) for cure in free.cures] == [{"triton.cudagraphs": True}]
    assert kept.cures == ()
    assert "mutated inputs (1 instances)" in kept.evidence[-1]


def test_a_target_without_a_table_has_no_host() -> None:
    assert estimate_host_of(weighed_run(target=None)) is None


def test_the_run_shows_it() -> None:
    assert estimate_run(made(10)).host == host(made(10))


def test_more_launches_and_less_work_can_be_either() -> None:
    """Four small kernels instead of one larger: the device alone says that it is faster."""
    one, four = (
        made(1, blocks=4096, sectors=64, text="one"),
        made(4, blocks=1, sectors=4, text="four"),
    )
    found = compare(one, four)
    assert found.estimate is not None and found.estimate.ratio is not None
    assert found.estimate.head.waits_for_host
    assert found.estimate.high is not None
    assert found.estimate.high >= 5 / 2, "four launches after little else take 2.5 times one"
    assert found.outcome == "unknown"
    assert found.because is not None
    assert "launches decide so short a step (1 → 4)" in found.because.why
