"""A fresh pair of perfcli's measuring workers that other tools can have run steps.

The workload of all tools is so the same process that perfcli measures: the same step, compiled the
same way, with as many threads, the same pinning and memory layout, and the same planted waiting.
Only when it is run, and what is made of the times, is the tool's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from accuracy_records import Campaign, Pair

from perfcli.loading import registry
from perfcli.model import Ask, MeasureRequest, SideName, Variant
from perfcli.worker.live import LiveWorker, Starter
from perfcli.workflow.request import build_request

COMPILE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Door:
    """A side that is warm: its folder has the pipes ``ask`` and ``answer`` (accuracy_ask.py)."""

    side: SideName
    folder: Path
    step_seconds: float


@contextmanager
def doors(campaign: Campaign, pair: Pair) -> Iterator[tuple[Door, Door]]:
    """Base and head, compiled at the same time, each in a process of its own."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="perfcli-accuracy-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        start = Starter(folder / "caches", COMPILE_SECONDS)
        workers: dict[SideName, LiveWorker] = {}
        sides: tuple[SideName, SideName] = ("base", "head")
        for side in sides:
            workers[side] = start(_request(campaign, pair, side), lambda phase: None)
            stack.callback(workers[side].close)
        base, head = (_door(folder / side, side, workers[side]) for side in sides)
        yield base, head


def _request(campaign: Campaign, pair: Pair, side: SideName) -> MeasureRequest:
    scenario = registry.scenario(campaign.scenario)
    given = dict(assignment.split("=", 1) for assignment in campaign.params)
    compile_request = build_request(
        campaign.scenario,
        Variant(side),
        params=registry.resolve_params(scenario, campaign.preset, given),
        device="cpu",
        jobs=1,
        threads=1,
    )
    return MeasureRequest(
        compile=compile_request,
        side=side,
        seed=pair.seed,
        threads=1,
        cpus=(max(os.sched_getaffinity(0)),),
        slow_down=campaign.planted / 100 if side == "head" else 0.0,
    )


def _door(folder: Path, side: SideName, worker: LiveWorker) -> Door:
    prepared = worker.prepare()
    folder.mkdir()
    for pipe in ("ask", "answer"):
        os.mkfifo(folder / pipe)
    # A daemon, since it waits in open() for whoever asks next, also when nobody will.
    threading.Thread(target=_serve, args=(folder, worker), daemon=True).start()
    return Door(side, folder, prepared.step_seconds)


def _serve(folder: Path, worker: LiveWorker) -> None:
    while True:
        steps = int((folder / "ask").read_text())
        try:
            turn = worker.turn(Ask("step", steps, warmup=1))
            answer = f"done {sum(turn.seconds)}"
        except Exception as error:  # told to the tool, whose run then fails
            answer = f"{type(error).__name__}: {error}".splitlines()[0]
        (folder / "answer").write_text(f"{answer}\n")
