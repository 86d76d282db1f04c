"""From what stands on the command line to requests that a worker can compile."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.loading import registry, userfile
from perfcli.machine import environment, targets
from perfcli.machine.environment import Interpreter
from perfcli.model import CompileRequest, Device, Run, Scalar, Target, Variant
from perfcli.options import assignments as options
from perfcli.workflow.fingerprint import fingerprint

DEFAULT_TARGET = "h100"


@dataclass(frozen=True, slots=True)
class Question:
    """What is compiled, whichever variant compiles it."""

    scenario: str
    params: tuple[str, ...] = ()
    preset: str | None = None
    target: str | None = None
    device: str | None = None
    dynamic: bool = False
    jobs: int | None = None
    threads: int | None = None
    """That kernels for the CPU are generated for; None: torch's own number."""


@dataclass(frozen=True, slots=True)
class Side:
    """One variant as typed: assignments, and the interpreter that has torch."""

    assignments: tuple[str, ...] = ()
    python: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A request and the fingerprint of everything that is known to decide its result."""

    request: CompileRequest
    fingerprint: str
    interpreter: Interpreter


Probe = Callable[[str | None], Interpreter]


def make_jobs(question: Question, sides: Sequence[Side], probe: Probe) -> list[Job]:
    """Requests for all sides of a question.

    Raises PerfcliError for whatever the user got wrong, before anything is compiled.
    """
    shared = _shared_request(question)
    jobs = []
    for side in sides:
        interpreter = probe(side.python)
        variant = Variant("", python=side.python)
        if side.assignments:
            catalogue = options.load_catalogue(interpreter.torch_dir)
            variant = options.make_variant("", side.assignments, catalogue, python=side.python)
            options.check_device(variant, catalogue, shared.device)
        # Named as typed; started by its path, since a virtual environment's folder will do.
        path = interpreter.path if side.python else None
        variant = replace(variant, name=describe(variant), python=path)
        request = replace(shared, variant=variant)
        jobs.append(Job(request, fingerprint(request, interpreter), interpreter))
    return jobs


def toggle_sides(toggle: str, sides: Sequence[Side], probe: Probe) -> list[Side]:
    """The two sides of ``--toggle``: a yes-or-no option's default and the other value, or with
    ``OPT=VAL`` whatever the default is and that value."""
    base, head = sides
    if "=" in toggle:
        return [base, replace(head, assignments=(*head.assignments, toggle))]
    added = []
    for number, side in enumerate(sides):
        entry = options.find(options.load_catalogue(probe(side.python).torch_dir), toggle)
        assignment = f"{entry.name}={str(options.toggle(entry)[number]).lower()}"
        added.append(replace(side, assignments=(*side.assignments, assignment)))
    return added


def already_default(jobs: Sequence[Job]) -> str:
    """What to say where two sides differ in nothing but options set to their default; else
    empty."""
    own: list[object] = []
    said: dict[str, None] = {}
    for job in jobs:
        variant, interpreter = job.request.variant, job.interpreter
        catalogue = options.load_catalogue(interpreter.torch_dir) if variant.options else None
        usual = options.defaults(variant, catalogue) if catalogue else {}
        rest = {name: value for name, value in variant.options.items() if name not in usual}
        own.append((interpreter, rest, dict(variant.env), variant.patches))
        said |= dict.fromkeys(
            f"{name}={units.setting(value)} is the default of torch {interpreter.torch} already"
            for name, value in usual.items()
        )
    return " and ".join(said) if said and own[0] == own[-1] else ""


def describe(variant: Variant) -> str:
    """``default``, or what the variant sets: ``triton.cudagraphs=true python 2.15/bin/python``."""
    settings = [f"{name}={units.setting(value)}" for name, value in variant.options.items()]
    settings += [f"{name}={value}" for name, value in variant.env.items()]
    settings += list(variant.patches)
    if variant.python:
        settings.append(f"python {variant.python}")
    return " ".join(settings) or "default"


def _shared_request(question: Question) -> CompileRequest:
    device, target = choose_device(question.device, question.target)
    params, preset = _params(question)
    return CompileRequest(
        scenario=question.scenario,
        params=params,
        preset=preset,
        variant=Variant("default"),
        device=device,
        target=target,
        dynamic=question.dynamic,
        jobs=question.jobs or len(os.sched_getaffinity(0)),
        cache_dir=str(environment.cache_dir()),
        threads=question.threads,
    )


def recompile(run: Run, variant: Variant, jobs: int | None = None) -> CompileRequest:
    """What compiles a stored run's question again, in another variant. A user's file resolves
    the parameters once more: those of the run are all of them, typed."""
    return CompileRequest(
        scenario=run.scenario,
        params=run.params,
        preset=None,
        variant=variant,
        device=run.device,
        target=run.target,
        dynamic=run.dynamic,
        jobs=jobs or len(os.sched_getaffinity(0)),
        cache_dir=str(environment.cache_dir()),
        threads=run.threads,
    )


def choose_device(device: str | None, target: str | None) -> tuple[Device, Target | None]:
    """The device and target that are meant: cuda where there is a GPU, else a target without one.

    Raises PerfcliError where the two contradict each other or the device is not there.
    """
    if device == "cpu":
        if target:
            raise PerfcliError(f"--target {target} is a GPU: leave out --target or --device cpu")
        return "cpu", None
    if device not in (None, "cuda"):
        raise PerfcliError(f"--device is cuda or cpu, not {device!r}")
    if target:
        return "cuda", targets.get(target)
    if device == "cuda" or targets.has_gpu():
        return "cuda", targets.this_gpu()
    return "cuda", targets.get(DEFAULT_TARGET)


def _params(question: Question) -> tuple[dict[str, Scalar], str | None]:
    """Typed parameters; those of a user's file stay text, with the preset, because only a worker
    may run the file and knows them."""
    given: dict[str, Scalar] = dict(_split(text) for text in question.params)
    if registry.is_user_file(question.scenario):
        path, _ = userfile.split(question.scenario)
        if not Path(path).is_file():
            raise PerfcliError(
                f"there is no file {path}: expected path/to/file.py or path/to/file.py:name"
            )
        return given, question.preset
    scenario = registry.scenario(question.scenario)
    return registry.resolve_params(scenario, question.preset, given), None


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise PerfcliError(f"a parameter is written NAME=VALUE, for example layers=3; got {text!r}")
    return name.strip(), value.strip()
