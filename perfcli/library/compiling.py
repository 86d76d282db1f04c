"""Compiles what ``perfcli.inspect`` was given in a worker that stays, and remembers the results."""

from __future__ import annotations

import atexit
import functools
import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.library.packing import Packed, pack
from perfcli.model import Bundle, CompileRequest, GivenRequest, Mode
from perfcli.storing import store
from perfcli.worker import protocol
from perfcli.worker.given import GivenCompiler
from perfcli.workflow.context import read_fake_plan
from perfcli.workflow.fingerprint import list_edited
from perfcli.workflow.obtain import Obtained

MOST_REMEMBERED = 256
"""Results kept in memory."""


@dataclass(frozen=True, slots=True)
class Call:
    """Says what is compiled: ``function(*args, **kwargs)``."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    mode: Mode
    by_value: tuple[ModuleType, ...] = ()


def compiled(call: Call, request: CompileRequest, timeout: float | None) -> Obtained:
    """Compile a call once per process and options, as long as none of the files that it comes from
    changes.

    Raises PerfcliError where it can't be sent or nothing of it is compiled, and what
    ``GivenCompiler.compile`` raises.
    """
    if plan := read_fake_plan():
        from perfcli.fake.executor import FakeExecutor

        ((_, made),) = FakeExecutor(plan).compile([request], lambda event: None)
        if isinstance(made, PerfcliError):
            raise made
        return _named(made)
    packed = pack(call.function, call.args, call.kwargs, call.by_value)
    given = GivenRequest(
        compile=request,
        packed=packed.text,
        path=tuple(sys.path),
        mode=call.mode,
        autocast=_autocast(request, packed),
        keeps_cpu=packed.keeps_cpu,
    )
    key = hashlib.sha256(protocol.encode(protocol.plain(given))).hexdigest()
    known = _remembered.pop(key, None)
    if known is None or list_edited(known.run.sources):
        known = _named(_compiler().compile(given, timeout))
        _check_compiled(known)
    _remembered[key] = known
    while len(_remembered) > MOST_REMEMBERED:
        del _remembered[next(iter(_remembered))]
    return known


_remembered: dict[str, Obtained] = {}


@functools.cache
def _compiler() -> GivenCompiler:
    compiler = GivenCompiler()
    atexit.register(compiler.close)
    return compiler


def close() -> None:
    """Ends the workers that ``inspect`` keeps alive; the next call starts new ones."""
    _compiler().close()


def _named(bundle: Bundle) -> Obtained:
    now = datetime.now(UTC)
    created = now.isoformat().replace("+00:00", "Z")
    run = replace(bundle.run, id=store.new_id(now), created=created)
    return Obtained(run, None, replace(bundle, run=run))


def _check_compiled(made: Obtained) -> None:
    """Refuse a function of which nothing was compiled: it would have no spills either."""
    run = made.run
    if not run.graphs:
        why = "; ".join(run.notes) or "torch.compile made no graph of it (is it disabled there?)"
        raise PerfcliError(f"nothing of {run.scenario} was compiled: {why}")


def _autocast(request: CompileRequest, packed: Packed) -> str | None:
    """Return the dtype of the autocast around the call.

    On a CPU it is taken for the target's where its tensors are.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    kinds = {request.device} if "cuda" in packed.devices else {request.device, "cpu"}
    active = [kind for kind in sorted(kinds, reverse=True) if torch.is_autocast_enabled(kind)]
    return str(torch.get_autocast_dtype(active[0])).removeprefix("torch.") if active else None
