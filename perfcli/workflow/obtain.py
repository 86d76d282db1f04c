"""Runs for jobs: reused from the store where nothing changed, else compiled and stored at once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from perfcli.blobs import unpack
from perfcli.console.notes import Notes, Reporter
from perfcli.errors import Interrupted, PerfcliError
from perfcli.loading import registry
from perfcli.loading.userfile import FORWARD_ONLY
from perfcli.machine import environment
from perfcli.machine.environment import Interpreter
from perfcli.model import BlobId, Bundle, Run, Variant
from perfcli.names import public, suggestion
from perfcli.storing import store
from perfcli.worker.roles import Executor
from perfcli.workflow.fingerprint import list_edited
from perfcli.workflow.request import Job, Question, Side, already_default, make_jobs, toggle_sides

FAKE = "PERFCLI_FAKE"
MOST_TEXT = 256 << 20
"""Characters of all texts that one report unpacks."""


@dataclass(frozen=True, slots=True)
class Obtained:
    """A run, and the file that holds it: None where it could not be stored."""

    run: Run
    path: Path | None
    bundle: Bundle | None = field(default=None, repr=False)
    """Only where there is no file."""
    asked: Variant | None = None
    """What the command line asked for; None for a run that it names by its file or id."""

    @property
    def reference(self) -> str:
        """How a user names the run; empty where it is not stored."""
        if self.path is None:
            return ""
        return self.run.id if self.path.parent == store.FOLDER else str(self.path)

    @property
    def shown_path(self) -> str:
        return str(self.path or "")

    def text(self, blob: BlobId) -> str:
        """One of the run's texts."""
        if self.path is not None:
            return store.read_blob(self.path, blob)
        packed = self.bundle.blobs.get(blob) if self.bundle else None
        if packed is None:
            raise PerfcliError(f"the text {blob[:12]}… was not kept")
        return unpack(packed)


@dataclass(frozen=True, slots=True)
class How:
    """How runs come about."""

    fresh: bool = False
    timeout: float | None = None
    fake: bool = False
    toggles: tuple[str, ...] = ()
    trust: bool = False
    """Whether a stored run may start the programs that its file names."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """What compiles, and what tells the interpreters apart."""

    executor: Executor
    probe: Callable[[str | None], Interpreter]


def workshop(how: How, device: str | None = None) -> Workshop:
    """The real one, or with ``--fake`` (or PERFCLI_FAKE=1) the one for tests. C++ kernels for the
    CPU need no triton."""
    if plan := fake_plan(how):
        from perfcli.fake.executor import FakeExecutor, fake_interpreter

        return Workshop(FakeExecutor(plan), fake_interpreter)
    from perfcli.worker.process import ProcessExecutor

    probe = functools.partial(environment.probe, needs_triton=device != "cpu")
    return Workshop(ProcessExecutor(how.timeout), probe)


def fake_plan(how: How) -> str:
    """What is to be made up instead of compiled and measured; empty: nothing."""
    plan = os.environ.get(FAKE, "1" if how.fake else "")
    return "" if plan == "0" else plan


def stored(reference: str) -> Obtained:
    """A run by its file, id, or beginning of its id. Raises PerfcliError where there is none."""
    path = store.locate(reference)
    if path is None:
        if reference.endswith(".json"):
            raise PerfcliError(f"no stored run {reference!r}: there is no such file")
        if registry.is_user_file(reference) or public(reference) in registry.names("scenarios"):
            raise PerfcliError(
                f"{reference} is a scenario, not a stored run: compare it alone, with -a and -b"
            )
        raise PerfcliError(f"no stored run {reference!r}: perfcli runs lists them")
    return Obtained(store.read(path), path)


def stored_or_compiled(question: Question, side: Side, how: How, notes: Notes) -> Obtained:
    """The stored run that ``question.scenario`` names, or a run of the scenario of that name."""
    reference = question.scenario
    known = public(reference) in registry.names("scenarios")
    if not known and not reference.endswith(".py"):
        path = store.locate(reference)
        if path is not None or reference.endswith(".json") or reference[:1].isdigit():
            _check_stored_alone(question, side)
            return stored(reference)
        if not registry.is_user_file(reference) and not Path(f"{reference}.py").is_file():
            raise PerfcliError(_neither(reference))
    (found,) = compiled(question, [side], how, notes)
    warn_forward_only(found.run, notes)
    return found


def warn_forward_only(run: Run, notes: Notes) -> None:
    """For reports that do not show a run's notes."""
    for note in run.notes:
        if FORWARD_ONLY in note:
            notes.warn(f"{run.scenario}: {note}")


def _neither(reference: str) -> str:
    near = suggestion(reference, registry.names("scenarios"))
    stop = "" if near.endswith("?") else ";"
    return f"no scenario and no stored run {reference!r}: {near}{stop} perfcli runs lists the runs"


def _is_stored_run(reference: str) -> bool:
    if registry.is_user_file(reference) or public(reference) in registry.names("scenarios"):
        return False
    return reference.endswith(".json") or store.locate(reference) is not None


def _check_stored_alone(question: Question, side: Side) -> None:
    chosen = (question.params, question.preset, question.target, question.device)
    if any(chosen) or question.dynamic or side != Side():
        raise PerfcliError(
            f"{question.scenario} is a stored run, shown as it is: leave out the options for "
            "compiling"
        )


def compiled(question: Question, sides: Sequence[Side], how: How, notes: Notes) -> list[Obtained]:
    """Runs of all sides, compiled or found. Raises PerfcliError for what the user got wrong."""
    order = ordered(question, sides, how, notes)
    return obtain(order.jobs, order.executor, how.fresh, notes)


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be compiled, and by whom."""

    jobs: Sequence[Job]
    executor: Executor


def ordered(question: Question, sides: Sequence[Side], how: How, notes: Notes) -> _Order:
    """A job for each side. Raises PerfcliError for what the user got wrong."""
    if _is_stored_run(question.scenario):
        raise PerfcliError(
            f"{question.scenario} is a stored run, not a scenario: compare takes two of them, "
            "inspect-kernel one"
        )
    place = workshop(how, question.device)
    for toggle in how.toggles:
        sides = toggle_sides(toggle, sides, place.probe)
    jobs = make_jobs(question, sides, place.probe)
    if len(jobs) > 1 and len({job.fingerprint for job in jobs}) == 1:
        raise PerfcliError(
            "both sides are the same: say what differs with -a OPT=VAL, -b OPT=VAL, "
            "--toggle OPT, or --b-python"
        )
    if len(jobs) > 1 and (said := already_default(jobs)):
        notes.warn(f"both sides are the same: {said}")
    return _Order(jobs, place.executor)


AGAIN = "; --fresh compiles again"


def obtain(
    jobs: Sequence[Job],
    executor: Executor,
    fresh: bool,
    notes: Notes,
    again: str = AGAIN,
    keeps: bool = True,
) -> list[Obtained]:
    """One run per job, in order. ``again`` is said of stored ones: empty without ``--fresh``.
    ``keeps``: what is compiled is stored.

    Raises Interrupted on Ctrl-C, saying what was stored; what the executor raises otherwise.
    """
    found = [None if fresh else _reuse(job, notes, again) for job in jobs]
    missing = [number for number, known in enumerate(found) if known is None]
    for job in {jobs[number].interpreter.torch: jobs[number] for number in missing}.values():
        if warning := environment.torch_warning(job.interpreter.torch):
            notes.warn(warning)
    keep = kept if keeps else _passing
    _compile(jobs, missing, found, executor, notes, keep)
    made = zip(jobs, found, strict=True)
    return [replace(run, asked=job.request.variant) for job, run in made if run is not None]


def _compile(
    jobs: Sequence[Job],
    missing: Sequence[int],
    found: list[Obtained | None],
    executor: Executor,
    notes: Notes,
    keep: Callable[[Bundle, str, Notes], Obtained],
) -> None:
    requests = [jobs[number].request for number in missing]
    stored: list[Obtained] = []
    try:
        with Reporter([request.variant.name for request in requests], notes) as progress:
            bundles = executor.compile(requests, progress)
            for number, bundle in zip(missing, bundles, strict=True):
                made = keep(bundle, jobs[number].fingerprint, notes)
                found[number] = made
                stored.append(made)
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; {what_is_kept(stored)}") from error
    except PerfcliError as error:
        if stored:
            notes.say(what_is_kept(stored))
        raise error


def kept(bundle: Bundle, fingerprint: str, notes: Notes) -> Obtained:
    """Named and stored, where the store can be written."""
    bundle = _named(bundle, fingerprint)
    try:
        return Obtained(bundle.run, store.save(bundle))
    except PerfcliError as error:
        notes.warn(f"{error}; the run is not stored, the report follows")
        return Obtained(bundle.run, None, bundle)


def _passing(bundle: Bundle, fingerprint: str, _notes: Notes) -> Obtained:
    """Named, never stored."""
    bundle = _named(bundle, fingerprint)
    return Obtained(bundle.run, None, bundle)


def _named(bundle: Bundle, fingerprint: str) -> Bundle:
    now = datetime.now(UTC)
    run = replace(
        bundle.run,
        id=store.new_id(now),
        created=now.isoformat().replace("+00:00", "Z"),
        fingerprint=fingerprint,
    )
    return replace(bundle, run=run)


def what_is_kept(stored: Sequence[Obtained]) -> str:
    """``default is stored as .perfcli/runs/….json``, of each."""
    kept = [f"{made.run.variant.name} is stored as {made.path}" for made in stored if made.path]
    return "; ".join(kept) or "nothing was finished"


def _reuse(job: Job, notes: Notes, again: str) -> Obtained | None:
    """The newest stored run of this job, if the files that it imported are still the same."""
    known = store.find(job.fingerprint)
    if known is None:
        return None
    try:
        run = store.read(known.path, sealed=True)
    except PerfcliError as error:
        notes.warn(f"{error}; compiling again")
        return None
    if list_edited(run.sources):
        return None
    notes.say(f"{run.variant.name}: nothing changed since run {run.id}{again}")
    return Obtained(run, known.path)


class StoredTexts(Mapping[BlobId, str]):
    """Texts of several runs by their SHA-256. A run's file is read with the first of them.

    Looking one up raises KeyError where no run holds it, PerfcliError where a file can't be read
    or a text is damaged.
    """

    def __init__(self, *runs: Obtained) -> None:
        self._runs = runs
        self._seen: set[BlobId] = set()
        self._unpacked = 0

    def __getitem__(self, blob: BlobId) -> str:
        try:
            text = unpack(self._packed[blob])
        except ValueError as error:
            raise PerfcliError(f"the text {blob[:12]}… of a run is damaged: {error}") from error
        if blob not in self._seen:
            self._seen.add(blob)
            self._unpacked += len(text)
        if self._unpacked > MOST_TEXT:
            raise PerfcliError(
                f"the texts of these runs are longer than {MOST_TEXT >> 20} MiB together, which is "
                "more than one report shows: leave out --html, or compile smaller runs"
            )
        return text

    def __iter__(self) -> Iterator[BlobId]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    @functools.cached_property
    def _packed(self) -> Mapping[BlobId, str]:
        found: dict[BlobId, str] = {}
        for run in self._runs:
            if run.path is not None:
                found |= store.read_blobs(run.path)
            elif run.bundle is not None:
                found |= run.bundle.blobs
        return found
