"""From what is typed of good and bad to what differs between them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcli import options, performance_knobs, units
from perfcli.bisect import space as spaces
from perfcli.bisect.metrics import Metric
from perfcli.bisect.space import Installations, Space
from perfcli.commands._request import Job, Probe, Question, Side, make_jobs
from perfcli.errors import PerfcliError


@dataclass(frozen=True, slots=True)
class Sides:
    """As typed: ``OPT=VAL``, or files of them."""

    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    good_python: str | None = None
    bad_python: str | None = None

    @property
    def is_catalogue(self) -> bool:
        """Nothing is said of a bad side: the catalogue is searched, on top of what is good."""
        return not self.bad and not self.bad_python


@dataclass(frozen=True, slots=True)
class Plan:
    """What is searched. ``jobs`` compile both ends as compare does; of a catalogue the second is
    not there."""

    space: Space
    jobs: tuple[Job, ...]
    installations: Installations | None = None

    @property
    def base(self) -> Job:
        """All variants are compiled with its interpreter."""
        return self.jobs[-1]


def plan(question: Question, sides: Sides, metric: Metric, probe: Probe) -> Plan:
    """Raises PerfcliError for what the user got wrong, and where nothing differs."""
    good = Side(tuple(_assignments(sides.good)), sides.good_python)
    bad = Side(tuple(_assignments(sides.bad)), sides.bad_python or sides.good_python)
    if sides.is_catalogue:
        return _catalogue(question, good, metric, probe)
    jobs = make_jobs(question, [good, bad], probe)
    ours, theirs = (job.request.variant for job in jobs)
    catalogues = [options.load_catalogue(job.interpreter.torch_dir) for job in jobs]
    if jobs[0].interpreter.torch_dir == jobs[1].interpreter.torch_dir:
        found = spaces.between(ours, theirs, catalogues[1])
        return Plan(_checked(found), tuple(jobs))
    installations = spaces.installations(ours, theirs, catalogues[0], catalogues[1])
    return Plan(installations.space, tuple(jobs), installations)


def _catalogue(question: Question, side: Side, metric: Metric, probe: Probe) -> Plan:
    (job,) = make_jobs(question, [side], probe)
    request = job.request
    catalogue = options.load_catalogue(job.interpreter.torch_dir)
    choices = performance_knobs.usable(
        performance_knobs.for_torch(catalogue.entries),
        request.device,
        has_device=metric.kind == "time",
    )
    if request.device == "cpu":  # what perfcli brings to older releases is about Triton's kernels
        choices = tuple(choice for choice in choices if not choice.entry.note)
    return Plan(_checked(spaces.of_catalogue(choices, request.variant)), (job,))


def _checked(space: Space) -> Space:
    if not space.changes:
        raise PerfcliError(
            "nothing differs between the good and the bad side: give --bad OPT=VAL something that "
            "is not the default, or leave both out to search the catalogue"
        )
    return space


def _assignments(typed: Sequence[str]) -> list[str]:
    found = []
    for text in typed:
        if "=" not in text and text.endswith(".toml"):
            found += _of_file(Path(text))
        else:
            found.append(text)
    return found


def _of_file(path: Path) -> list[str]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PerfcliError(f"{path} is not TOML: {error}") from error
    settings = spaces.flatten(document, str(path))
    return [f"{name}={units.setting(value)}" for name, value in settings]
