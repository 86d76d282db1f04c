"""Ranks of a process group that are measured as one: small stand-ins for the interpreter, and two
real ranks with gloo."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade_worker import HEAD, WORKS

from perfcli.errors import OutOfMemory, PerfcliError, UserCodeFailed, WorkerFailed, WrongResult
from perfcli.measure.judging import GRADIENTS, OUTPUTS
from perfcli.model import (
    Ask,
    CompileRequest,
    DeviceState,
    Machine,
    MeasureRequest,
    MemoryUse,
    OutputCheck,
    Prepared,
    Turn,
    Variant,
)
from perfcli.worker import live, ranks
from perfcli.worker.live import Starter
from perfcli.worker.ranks import RankGroup, join_prepared, join_turns

STEP = Ask("step", 3, 2)
RANK = "rank = request['rank']['number']\n"
MODELS = Path(__file__).parents[2] / "fixtures" / "gloo_models.py"


# --- what holds for all ----------------------------------------------------------------------


def test_a_step_takes_as_long_as_its_slowest_rank() -> None:
    calm, busy = DeviceState(others_utilisation=0.1), DeviceState(throttle=("thermal",))
    first = Turn((1.0, 2.0, 3.0), (0.5, 0.5, 0.5), ((0.1,),), calm, (0, 1, 0))
    second = Turn((1.5, 1.0, 3.5), (0.4, 0.6, 0.5), ((0.9,),), busy, (0, 1, 2))
    assert join_turns([first, second], [(False,), (False,)]) == Turn(
        (1.5, 2.0, 3.5), (0.5, 0.6, 0.5), ((0.1,),), busy, (0, 2, 2),
        ((1.0, 2.0, 3.0), (1.5, 1.0, 3.5)), (0.9,),
    )  # fmt: skip


def test_the_devices_are_busy_as_long_as_whoever_waits_least() -> None:
    kernel, collective = False, True
    which = (kernel, collective, kernel, collective)
    first = Turn((), launches=((1.0, 5.0, 2.0, 0.5), (1.0, 0.6, 2.0, 4.0)))
    second = Turn((), launches=((1.5, 0.7, 2.5, 3.0), (1.5, 6.0, 2.0, 0.5)))
    joined = join_turns([first, second], [which, which])
    # The second rank waits 3.7 of 5.5, then the first one 4.6 of 6.5; collectives take 0.7 and 0.5,
    # then 0.6 and 0.5.
    assert joined.busy == pytest.approx((4.0 + 1.2, 3.0 + 1.1))
    assert joined.launches == first.launches
    # What the profiler lost of a rank is missing; with fewer collectives, their sums are taken.
    lost = join_turns([first, replace(second, launches=second.launches[:1])], [which, which])
    assert lost.busy == pytest.approx((5.2,))
    assert join_turns([first, Turn(())], [which, which]).busy == ()
    fewer = Turn((), launches=((1.5, 0.7, 2.5),))
    assert join_turns([first, fewer], [which, which[:3]]).busy == pytest.approx((4.0 + 0.7,))
    less = Turn((), launches=((1.0, 0.7, 1.0),))  # what it waits, and where, is not comparable
    assert join_turns([first, less], [which, which[:3]]).busy == pytest.approx((3.0 + 0.7,))


ALONE, BESIDE, TOGETHER = 26.0, 48.0, 20.0
"""Microseconds of a matrix product alone and beside a collective that waits (two H200s, torch 2.11,
2026-11-28), and of a collective that nobody keeps waiting (made up)."""


def run_step(begin: list[float], before: list[float]) -> list[Turn]:
    """Return the turn of each rank, in which something runs before a collective, and a matrix
    product beside that. ``begin``: when each rank's host has it start."""
    comes = [start + kernel for start, kernel in zip(begin, before, strict=True)]
    waits = [max(comes) - each for each in comes]
    return [
        Turn((), launches=((kernel, TOGETHER + wait, BESIDE if wait else ALONE),))
        for kernel, wait in zip(before, waits, strict=True)
    ]


WHICH = [(False, True, False)] * 2


@pytest.mark.parametrize("begin", [[0.0, 0.0], [0.0, 300.0], [40.0, 0.0]])
def test_kernels_that_waiting_makes_slower_do_not_count(begin: list[float]) -> None:
    joined = join_turns(run_step(begin, [100.0, 100.0]), WHICH)
    assert joined.busy == pytest.approx((100.0 + ALONE + TOGETHER,))


@pytest.mark.parametrize("more", [0, 1])
def test_a_rank_that_has_more_to_do_decides(more: int) -> None:
    """All begin at once: the other rank waits for it, and has a slower kernel."""
    before = [100.0, 100.0]
    before[more] = 110.0
    joined = join_turns(run_step([0.0, 0.0], before), WHICH)
    assert joined.busy == pytest.approx((110.0 + ALONE + TOGETHER,))


def test_of_ranks_that_wait_alike_the_one_with_most_kernels_decides() -> None:
    turns = [Turn((), launches=((kernel, 20.0),)) for kernel in (30.0, 50.0, 40.0)]
    assert join_turns(turns, [(False, True)] * 3).busy == (70.0,)
    assert join_turns(turns, [(False, False)] * 3).busy == (70.0,)  # no collectives


def test_a_group_needs_what_the_rank_does_that_needs_most() -> None:
    machines = [Machine("cpu", "2.13.0", cpus=(n,)) for n in range(2)]
    first = Prepared(
        "head", 0, machines[0], 0.1, 9.0,
        memory=MemoryUse(5, None, "made up"), check=OutputCheck(1e-3, 1e-2, "eager"), notes=("a",),
    )  # fmt: skip
    second = replace(
        first, machine=machines[1], step_seconds=0.3, compile_seconds=7.0,
        memory=MemoryUse(8, None, "made up"), check=OutputCheck(1e-4, 1e-2, "eager"),
        notes=("a", "b"),
    )  # fmt: skip
    joined = join_prepared([first, second])
    assert (joined.step_seconds, joined.compile_seconds) == (0.3, 9.0)
    assert joined.memory == second.memory
    assert joined.check == first.check
    assert (joined.machine, joined.ranks) == (machines[0], tuple(machines))
    assert joined.notes == ("a", "b")


# --- processes -------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr("perfcli.worker.channel.STACK_SECONDS", 0.1)
    monkeypatch.setattr(ranks, "LAST_WORDS_SECONDS", 0.3)
    return folder


@pytest.fixture
def start(tmp_path: Path, temporary: Path) -> Iterator[Any]:
    """Starts two ranks whose interpreter is a script with the given body."""
    groups: list[RankGroup] = []

    def begin(body: str, device: Any = "cpu", **more: Any) -> RankGroup:
        script = tmp_path / f"python{len(groups)}"
        script.write_text(f"{HEAD}{RANK}{body}")
        script.chmod(0o755)
        variant = Variant("v", python=str(script))
        compiled = CompileRequest("softmax", {}, None, variant, device, None, world=2)
        request = MeasureRequest(compiled, "base", 7, **more)
        groups.append(RankGroup(request, told.append, Starter(tmp_path / "caches", 30)))
        return groups[-1]

    told: list[str] = []
    begin.told = told  # type: ignore[attr-defined]
    yield begin
    for group in groups:
        group.close()


def failure(group: RankGroup) -> PerfcliError:
    """What a turn raises; nothing of the group is left then."""
    others = set(threading.enumerate())
    group.prepare()
    with pytest.raises(PerfcliError) as raised:
        group.turn(STEP)
    group.close()
    for rank in group._ranks:
        assert rank._channel is None  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= others
    return raised.value


def test_all_ranks_are_asked_at_once_and_the_slowest_counts(start: Any, tmp_path: Path) -> None:
    """Each rank waits for the other one's file: one after the other, none would ever answer."""
    meets = f"""
ready()
while ask := asked():
    open({str(tmp_path)!r} + f'/{{rank}}', 'w').close()
    while not os.path.exists({str(tmp_path)!r} + f'/{{1 - rank}}'):
        pass
    send(type="turn", turn={{"seconds": [0.25 + rank, 0.5 - rank / 4]}})
"""
    group = start(meets, cpus=(4, 7))
    assert [p.device for p in group.prepare().ranks] == ["a stand-in"] * 2
    turn = group.turn(Ask("step", 2, 1))
    assert turn.seconds == (1.25, 0.5)
    assert turn.ranks == ((0.25, 0.5), (1.25, 0.25))


def test_each_rank_has_its_place(start: Any, tmp_path: Path, temporary: Path) -> None:
    keeps = f"open({str(tmp_path)!r} + f'/{{rank}}', 'w').write(json.dumps(request))\n{WORKS}"
    import json

    def requests() -> list[Any]:
        return [json.loads((tmp_path / str(n)).read_text()) for n in range(2)]

    start(keeps, cpus=(4, 5, 6, 7)).prepare()
    first, second = requests()
    assert (first["cpus"], second["cpus"]) == ([4, 5], [6, 7])
    assert first["rank"]["store"] == second["rank"]["store"]
    assert first["rank"]["port"] == second["rank"]["port"] > 1023
    assert start.told == ["import", "trace", "kernels", "check", "warm"]  # once
    start(keeps, "cuda").prepare()
    first, second = requests()
    assert (first["device_index"], second["device_index"]) == (0, 1)
    assert (first["turnstile"], second["turnstile"]) == ("", "")


DIES = """
ready()
asked()
if rank == 1:
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
sleep()
"""


def test_a_rank_that_dies_is_named_and_ends_the_others(start: Any, temporary: Path) -> None:
    before = time.monotonic()
    error = failure(start(DIES))
    assert time.monotonic() - before < 10
    assert type(error) is WorkerFailed
    assert str(error) == "the base's rank 1 was killed by SIGSEGV while measuring"
    assert error.detail == "the end of its log:\nlast words"
    assert list(temporary.iterdir()) == []


def test_the_rank_that_died_is_to_blame_though_another_complained_first(start: Any) -> None:
    complains = DIES.replace(
        "sleep()",
        "send(type='error', kind='UserCodeFailed', message='connection closed', detail='')",
    ).replace("    os.kill", "    threading.Event().wait(0.1); os.kill")
    assert str(failure(start(complains))).startswith("the base's rank 1 was killed by SIGSEGV")


def test_ranks_that_hang_are_named_with_where_they_were(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "TURN_SECONDS", 0.4)
    error = failure(start("ready()\nprint(f'{rank} waits', flush=True)\nasked()\nsleep()"))
    assert "did not finish within 0.4 s and was stopped while measuring" in str(error)
    assert str(error).startswith("the base's rank ")
    assert "0 waits" in error.detail
    assert "1 waits" in error.detail


@pytest.mark.parametrize("kind", [OutOfMemory, WrongResult, UserCodeFailed])
def test_an_error_of_one_rank_is_that_of_the_group(start: Any, kind: Any) -> None:
    body = f"""
ready()
asked()
if rank == 1:
    send(type='error', kind={kind.__name__!r}, message="the base's outputs are wrong", detail='it')
sleep()
"""
    error = failure(start(body))
    assert type(error) is kind
    assert (str(error), error.detail) == ("the base's outputs are wrong (rank 1)", "it")


def test_a_group_can_be_closed_while_somebody_waits_for_it(
    start: Any, temporary: Path, tmp_path: Path
) -> None:
    """As Ctrl-C does."""
    asked = tmp_path / "asked"
    group = start(f"ready()\nasked()\nopen({str(asked)!r}, 'w').close()\nsleep()")
    group.prepare()
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            group.turn(STEP)
        except PerfcliError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not asked.exists():
        assert waiting.is_alive()
    group.close()
    waiting.join(10)
    assert not waiting.is_alive()
    assert len(raised) == 1
    assert list(temporary.iterdir()) == []


# --- two real ranks --------------------------------------------------------------------------


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.torch
def test_two_ranks_run_one_step_together(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    compiled = CompileRequest(
        f"{MODELS}:both", {}, None, Variant("v"), "cpu", None, world=2,
        cache_dir=str(tmp_path),
    )  # fmt: skip
    cores = tuple(sorted(os.sched_getaffinity(0))[:2])
    request = MeasureRequest(compiled, "base", 7, threads=1, cpus=cores if len(cores) > 1 else ())
    group = RankGroup(request, lambda phase: None, Starter(tmp_path / "caches", 240))
    try:
        prepared = group.prepare()
        assert len(prepared.ranks) == 2
        assert prepared.check is not None
        assert prepared.check.error is not None
        assert prepared.check.error < 1e-5
        # All tensors are float32, but half of the model computes in bfloat16.
        assert prepared.check.tolerance in (OUTPUTS["bfloat16"], GRADIENTS["bfloat16"])
        turn = group.turn(Ask("step", 4, 1))
        assert turn.seconds == tuple(map(max, *turn.ranks))
        assert len(turn.seconds) == 4
        profiled = group.turn(Ask("kernels", 1, 1))
        named = {launch.name.split()[0] for launch in prepared.launches}
        assert any("allreduce" in name for name in named), named
        assert any("allgather" in name for name in named), named
        assert len(profiled.launches[0]) == len(prepared.launches)
        pids = [rank._channel._process.pid for rank in group._ranks]  # type: ignore[attr-defined]
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(OutOfMemory, match="the base's rank 1 was killed by SIGKILL"):
            group.turn(Ask("step", 4, 1))
    finally:
        group.close()
    assert not any(map(alive, pids))
