"""What bisect-config is asked, in all its parts, and how to ask compare the same."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfcli import registry, units, userfile
from perfcli.bisect.metrics import Metric
from perfcli.bisect.space import Settings
from perfcli.commands._bisect_sides import Plan
from perfcli.commands._fingerprint import code_hash, fingerprint
from perfcli.commands._measuring_options import Setting
from perfcli.commands._obtain import How
from perfcli.commands._request import Job, Question, describe
from perfcli.search.improvement import Direction


@dataclass(frozen=True, slots=True)
class Asked:
    """What is searched, and how far."""

    question: Question
    plan: Plan
    metric: Metric
    how: How
    direction: Direction | None = None
    """Of a catalogue."""
    setting: Setting | None = None
    """How to measure, where there is a device."""
    max_runs: int | None = None
    budget: float | None = None
    flip: bool = True


def identity(asked: Asked) -> dict[str, Any]:
    """What everything that a search finds out is about."""
    request, place = asked.plan.base.request, asked.plan.base.interpreter
    return {
        "scenario": request.scenario,
        "file": _file_digest(request.scenario),
        "params": dict(request.params),
        "preset": request.preset,
        "device": request.device,
        "target": request.target.name if request.target else None,
        "dynamic": request.dynamic,
        "threads": request.threads,
        "torch": place.torch,
        "triton": place.triton,
        "python": place.version,
        "perfcli_code": code_hash(),
    }


def _file_digest(scenario: str) -> str:
    """SHA-256 of a user's file; empty for shipped scenarios."""
    if not registry.is_user_file(scenario):
        return ""
    path, _ = userfile.split(scenario)
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def title(asked: Asked) -> str:
    """``gqa-transformer · layers=3 · h100``."""
    question, request = asked.question, asked.plan.base.request
    place = request.target.name if request.target else request.device
    preset = f"preset {question.preset}" if question.preset else ""
    params = " ".join(question.params)
    return " · ".join(filter(None, [question.scenario, preset, params, place]))


def ends_of(asked: Asked, cured: Settings | None) -> list[Job]:
    """The jobs whose comparison is shown: of two sides as they are; of a catalogue the base and its
    best set."""
    if asked.direction is None:
        return list(asked.plan.jobs)
    base = asked.plan.base
    variant = asked.plan.space.variant(cured or {}, base.request.variant.python)
    request = replace(base.request, variant=replace(variant, name=describe(variant)))
    # Runs are found by their fingerprint: it has to be that of these settings.
    return [
        base,
        replace(base, request=request, fingerprint=fingerprint(request, base.interpreter)),
    ]


def compare_command(asked: Asked, a: Settings, b: Settings) -> str:
    """The command line that shows what the second settings do."""
    question, python = asked.question, asked.plan.base.request.variant.python
    words = ["perfcli", "compare", question.scenario]
    for param in question.params:
        words += ["-p", param]
    typed: list[tuple[str, str | None]] = [
        ("--preset", question.preset),
        ("--target", question.target),
        ("--device", question.device),
        ("--a-python", python),
        ("--b-python", python),
    ]
    for option, given in typed:
        words += [option, given] if given else []
    words += ["--dynamic"] if question.dynamic else []
    for side, settings in (("-a", a), ("-b", b)):
        for name, value in settings.items():
            words += [side, f"{name}={units.setting(value)}"]
    return shlex.join(words)
