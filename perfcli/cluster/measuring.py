"""Measures two variants on the GPU that a task is lent: runs on a machine of the cluster."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from perfcli.errors import NotComparable
from perfcli.fake import measuring
from perfcli.interleave import alternating, environments
from perfcli.interleave.pair import PairPlan
from perfcli.machine.scratch import make_scratch
from perfcli.model import CompileRequest, Measurement, MeasureRequest, Prepared, Round, RoundKind
from perfcli.worker.live import Starter
from perfcli.worker.roles import MeasuringWorker, Phase


class MeasureOrder(msgspec.Struct, frozen=True):
    """Holds a measurement without any round, and both sides of it."""

    opening: Measurement
    base: MeasureRequest
    head: MeasureRequest


class _Unheard:
    """Takes nothing down: all is given back at the end."""

    def prepared(self, prepared: Prepared) -> None: ...

    def round(self, measured: Round, elapsed: float) -> None: ...


def measure_here(
    order: MeasureOrder, settled: Sequence[CompileRequest], timeout: float | None, fake: str
) -> Measurement:
    """Return what an order asks for. ``settled``: both sides' requests for the files as they lie
    here. Raises what a worker raises, and NotComparable on another GPU than the variants are
    compiled for."""
    from perfcli.stats import floor, stopping

    opening = order.opening
    base, head = (
        replace(side, compile=request)
        for side, request in zip((order.base, order.head), settled, strict=True)
    )
    plan = PairPlan(base, head, opening.budget_seconds, opening.seed)
    variants, target = (base.compile.variant, head.compile.variant), base.compile.target
    inside = floor.find_floor(opening.device, ()).inside

    def ready(base: Prepared, head: Prepared) -> None:
        found = base.machine.device
        if target is not None and found not in (target.description, measuring.DEVICE):
            raise NotComparable(
                f"the cluster lent a {found}, and the variant is compiled for {target.name}"
            )
        environments.check(base, head, variants)

    def enough(rounds: Sequence[Round], kind: RoundKind) -> str | None:
        return stopping.reason_to_stop(rounds, inside, kind)

    caches = make_scratch("caches-")
    made_up = measuring.parse(fake) if fake else None

    def start(request: MeasureRequest, told: Callable[[Phase], None]) -> MeasuringWorker:
        # Sides of one interpreter share caches: identical kernels are compiled, and tuned, once.
        name = hashlib.sha256(str(request.compile.variant.python).encode()).hexdigest()[:12]
        own = caches / name
        own.mkdir(exist_ok=True)
        return Starter(own, timeout, None)(request, told)

    try:
        if made_up is not None:
            starter = measuring.FakeStarter(made_up)
            measured = alternating.measure(
                *(plan, starter, enough, _Unheard()), ready=ready, clock=starter.clock
            )
        else:
            measured = alternating.measure(plan, start, enough, _Unheard(), ready=ready)
    finally:
        shutil.rmtree(caches, ignore_errors=True)
    return measured.fill(opening)
