"""Compiles what the good one of two torch installations itself generates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from perfcli.bisect.answer import Across
from perfcli.bisect.forge import Forge
from perfcli.bisect.knowledge import Knowledge
from perfcli.bisect.sides import SearchScope
from perfcli.bisect.timed import Stopwatch
from perfcli.errors import PerfcliError
from perfcli.workflow.fingerprint import Job


def _across_of(asked: SearchScope, forge: Forge) -> Across | None:
    """Return the good installation's own ends, or None if there is only one installation. Raises
    PerfcliError where the good side does not compile on its own torch."""
    installations = asked.plan.installations
    if installations is None:
        return None
    ours, theirs = asked.plan.jobs
    return Across(
        ours.interpreter.torch,
        theirs.interpreter.torch,
        _of_good_torch(asked, ours, forge),
        tuple(change.name for change in installations.unsettable),
        installations.only_good,
        (*installations.only_bad, *installations.unknown),
    )


def _check_comparable(asked: SearchScope) -> None:
    """Raise PerfcliError for metrics by which two installations can't be compared."""
    if asked.plan.installations is None:
        return
    if asked.metric.kind == "memory" and asked.setting is None:
        raise PerfcliError(
            "releases of torch estimate peak memory in different ways, so that two can't be "
            "compared: take bytes, or measure on a GPU"
        )
    if asked.metric.is_timed:
        raise PerfcliError(
            f"{asked.metric.name} is not searched between two installations: take an "
            "exact metric (bytes, spills, …), and perfcli compare --b-python for the time"
        )


def _of_good_torch(asked: SearchScope, job: Job, forge: Forge) -> float:
    """Return the good side as it is, on its own torch. Raises what compiling or measuring it
    raises."""
    variant = job.request.variant
    settings: Mapping[str, Any] = {**variant.env, **variant.options}
    space = replace(forge.space, variables=frozenset(variant.env))
    own = Forge(forge.generator, job.request, space, asked.metric, Knowledge())
    if asked.setting is not None:
        # Peak memory, as it is measured of the other installation.
        with closing(Stopwatch.of(own, asked.setting, job, asked.context)) as stopwatch:
            return stopwatch.memory(settings)
    (code,) = own.codes([settings])
    forge.compiled += 1
    if code.name is None:
        raise PerfcliError(f"the good side does not compile on its own torch: {code.failure}")
    return own.value(settings, code.name)
