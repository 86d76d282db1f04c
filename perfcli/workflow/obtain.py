"""Obtains the runs of a question or of its jobs: reused from the store where nothing changed, else
compiled and stored at once."""

from __future__ import annotations

import functools
import os
import re
import shlex
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfcli import units
from perfcli.blobs import unpack
from perfcli.console.notes import LiveDisplay, Notes
from perfcli.console.tally import watch
from perfcli.errors import Interrupted, PerfcliError
from perfcli.loading import registry
from perfcli.loading.references import Reference, find_file, parse_reference
from perfcli.loading.userfile import FORWARD_ONLY
from perfcli.machine import environment
from perfcli.model import BlobId, Bundle, CompileRequest, Run, Variant
from perfcli.names import public, suggestion
from perfcli.predict.step import name_estimator
from perfcli.storing import store
from perfcli.storing.whole import spare
from perfcli.worker.roles import Interlude, Progress
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job, list_edited, list_set_anew
from perfcli.workflow.request import Question, Side, name_foreign, order_jobs, read_reference
from perfcli.workflow.worktrees import Worktrees

if TYPE_CHECKING:
    from perfcli.importing.bringing import ImportOptions

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
    compiled: bool = False
    """Whether it was compiled now, and not found in the store."""

    @property
    def reference(self) -> str:
        """Return how a user names the run; empty where it is not stored."""
        if self.path is None:
            return ""
        return self.run.id if self.path.parent == store.FOLDER else str(self.path)

    @property
    def shown_path(self) -> str:
        return str(self.path or "")

    @property
    def needs_trust(self) -> bool:
        """Return whether the run, once it is read from its file, is compiled again only by somebody
        who trusts that file."""
        return next(list_foreign(self.run, None), None) is not None

    def text(self, blob: BlobId) -> str:
        """Return one of the run's texts."""
        if self.path is not None:
            return store.read_blob(self.path, blob)
        packed = self.bundle.blobs.get(blob) if self.bundle else None
        if packed is None:
            raise PerfcliError(f"the text {blob[:12]}… was not kept")
        return unpack(packed)


def load_stored(reference: str, context: Context | None = None) -> Obtained:
    """Load a run by its file, id, or beginning of its id; bring in what another program wrote.
    Raises PerfcliError where there is none, and where its file is one of those that will be
    written."""
    context = context or Context(Notes(quiet=True))
    path = _locate(reference)
    if path is None:
        if reference.endswith(".json"):
            raise PerfcliError(f"no stored run {reference!r}: there is no such file")
        if find_file(reference) or public(reference) in registry.names("scenarios"):
            raise PerfcliError(
                f"{reference} is a scenario, not a stored run: compare it alone, with -a and -b"
            )
        raise PerfcliError(f"no stored run {reference!r}: perfcli runs lists them")
    spare(path, context.written)
    if name_foreign(path):
        return import_paths([[path]], None, context)[0]
    return Obtained(store.read(path), path)


def _locate(reference: str) -> Path | None:
    """Return the file that a user means, or the folder of what other programs wrote."""
    folder = Path(reference)
    return folder if folder.is_dir() and name_foreign(folder) else store.locate(reference)


def load_both(base: str, head: str, context: Context) -> tuple[Obtained, Obtained]:
    """Load two runs as ``load_stored``; traces of both are read at once."""
    paths = [_locate(reference) for reference in (base, head)]
    foreign = [path for path in paths if path is not None and name_foreign(path)]
    if len(foreign) == 2:
        ours, theirs = import_paths([[path] for path in foreign], None, context)
        return ours, theirs
    return load_stored(base, context), load_stored(head, context)


def import_paths(
    imports: Sequence[Sequence[Path]], options: ImportOptions | None, context: Context
) -> list[Obtained]:
    """Return the run of each of several imports: reused where the same was imported before."""
    # Here, since commands that import nothing take a tenth less time without it.
    from perfcli.importing.bringing import ImportOptions, bring_in_all, fingerprint

    options = options or ImportOptions()
    marks = [fingerprint(paths, options) for paths in imports]
    found = [None if context.fresh else _find_imported(mark) for mark in marks]
    missing = [number for number, known in enumerate(found) if known is None]
    made = bring_in_all([imports[number] for number in missing], options, context.notes)
    for number, bundle in zip(missing, made, strict=True):
        found[number] = keep_run(bundle, marks[number], context.notes)
    return [each for each in found if each is not None]


def _find_imported(mark: str) -> Obtained | None:
    """Return the stored run of what was imported; of one that is damaged, or of an earlier
    version's, the files are read again."""
    known = store.find(mark)
    with suppress(PerfcliError):
        return Obtained(store.read(known.path, sealed=True), known.path) if known else None
    return None


def warn_of_oversights(run: Run, notes: Notes, shows_notes: bool = False) -> None:
    """Warn of what was probably not meant: a model that was put on the CPU and, where the report
    does not show the run's notes, a forward pass that looks like training."""
    forward_only = () if shows_notes else (note for note in run.notes if FORWARD_ONLY in note)
    for note in forward_only:
        notes.warn(f"{run.scenario}: {note}")
    languages = {kernel.language for kernel in run.kernels}
    if run.target is not None and run.device != "cpu" and languages == {"cpp"}:
        notes.warn(
            f"{run.scenario}: no kernel was compiled for {run.target.name}, all are C++: the model "
            "or its inputs were put on the CPU (leave out device='cpu' and .to('cpu')), or the "
            "model makes its tensors there (device=x.device puts them beside x)"
        )


AGAIN = "; --fresh compiles again"
Begin = Callable[[Mapping[str, str]], "Interlude | None"]
"""Is called before anything is compiled, with the id that each job's run has or will have, by
fingerprint. Returns what is done meanwhile."""


def obtain(
    jobs: Sequence[Job],
    context: Context,
    again: str = AGAIN,
    keeps: bool = True,
    begin: Begin = lambda ids: None,
) -> list[Obtained]:
    """Get one run per job, in order, as ``obtain_each``. Raises the error of the first job that
    fails, saying what was stored until then."""
    found: dict[int, Obtained] = {}
    with closing(obtain_each(jobs, context, again, keeps, begin)) as arriving:
        for number, made in arriving:
            if isinstance(made, PerfcliError):
                compiled = [run for run in found.values() if run.compiled and run.path]
                if compiled:
                    context.notes.say(describe_kept(compiled))
                raise made
            found[number] = made
    return [found[number] for number in range(len(jobs))]


def obtain_each(
    jobs: Sequence[Job],
    context: Context,
    again: str | None = AGAIN,
    keeps: bool = True,
    begin: Begin = lambda ids: None,
) -> Generator[tuple[int, Obtained | PerfcliError], None, None]:
    """Yield each job's number and its run, as they come: first those that are stored, then what is
    compiled, once where several jobs are the same. A job that fails is an error, never raised.

    ``again`` is said of stored ones: empty without ``--fresh``, None where nothing is said of
    them. ``keeps``: what is compiled is stored. Raises Interrupted on Ctrl-C, saying what was
    stored.
    """
    notes = context.notes
    known = {} if context.fresh else store.find_newest()
    missing: dict[str, list[int]] = {}
    ids: dict[str, str] = {}
    for number, job in enumerate(jobs):
        stored = known.get(job.fingerprint)
        found = _reuse(job, stored, notes, again) if stored else None
        if found is None:
            missing.setdefault(job.fingerprint, []).append(number)
        else:
            ids[job.fingerprint] = found.run.id
            yield number, replace(found, asked=job.request.variant)
    if not missing:
        return
    wanted = [jobs[numbers[0]] for numbers in missing.values()]
    for job in {job.interpreter.torch: job for job in wanted}.values():
        if warning := environment.torch_warning(job.interpreter.torch):
            notes.warn(warning)
    obstacle = store.find_obstacle() if keeps else ""
    if obstacle:  # said before anybody waits for what is compiled
        notes.warn(
            f"{obstacle}: what is compiled is reported and not stored; to keep it, "
            f"{store.OTHERWISE}"
        )
    ids |= {fingerprint: store.new_id(datetime.now(UTC)) for fingerprint in missing}
    interlude = begin(ids)

    def keep(bundle: Bundle, fingerprint: str, notes: Notes) -> Obtained:
        kept = keep_run if keeps and not obstacle else _pass_on
        return kept(bundle, fingerprint, notes, ids[fingerprint])

    with context.phase("compile"):
        for job, made in _compile(wanted, context, keep, interlude):
            for number in missing[job.fingerprint]:
                variant = jobs[number].request.variant
                yield number, replace(made, asked=variant) if isinstance(made, Obtained) else made


def _compile(
    jobs: Sequence[Job],
    context: Context,
    keep: Callable[[Bundle, str, Notes], Obtained],
    interlude: Interlude | None = None,
) -> Iterator[tuple[Job, Obtained | PerfcliError]]:
    requests, notes = [job.request for job in jobs], context.notes
    stored: list[Obtained] = []
    try:
        with (
            Worktrees() as worktrees,
            watch(_name_requests(requests), notes, context.first_step) as progress,
            closing(
                worktrees.compile(
                    context.start_executor(interlude and _hide(interlude, progress)),
                    requests,
                    progress,
                )
            ) as arriving,
        ):
            for number, bundle in arriving:
                if isinstance(bundle, PerfcliError):
                    progress(Progress(number, "done", text="failed"))
                    yield jobs[number], bundle
                    continue
                made = keep(bundle, jobs[number].fingerprint, notes)
                stored.append(made)
                yield jobs[number], replace(made, compiled=True)
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; {describe_kept(stored)}") from error


def _hide(interlude: Interlude, progress: LiveDisplay) -> Interlude:
    """Return the interlude without the progress of what waits for it."""

    def run() -> None:
        progress.hide()
        interlude.run()

    return replace(interlude, run=run)


def _name_requests(requests: Sequence[CompileRequest]) -> list[str]:
    """Return what tells requests apart in what is said of their progress; ``default`` for one that
    leaves everything in which they differ as it is."""
    ways: tuple[Callable[[CompileRequest], str], ...] = (
        lambda each: each.scenario,
        lambda each: " ".join(units.settings(each.params)),
        lambda each: each.place,
        lambda each: each.variant.name,
    )
    parts = [[way(each) for each in requests] for way in ways]
    differing = [part for part in parts if len(set(part)) > 1] or [parts[-1]]
    names = (" ".join(filter(None, words)) for words in zip(*differing, strict=True))
    return [name or "default" for name in names]


def keep_run(bundle: Bundle, fingerprint: str, notes: Notes, id_: str = "") -> Obtained:
    """Name the run and store it, where the store can be written. ``id_``: its id, where that is
    known already."""
    bundle = _name_run(bundle, fingerprint, id_)
    try:
        return Obtained(bundle.run, store.save(bundle))
    except PerfcliError as error:
        notes.warn(f"{error}; the run is not stored, the report follows")
        return Obtained(bundle.run, None, bundle)


def _pass_on(bundle: Bundle, fingerprint: str, _notes: Notes, id_: str = "") -> Obtained:
    """Name the run, and never store it."""
    bundle = _name_run(bundle, fingerprint, id_)
    return Obtained(bundle.run, None, bundle)


def _name_run(bundle: Bundle, fingerprint: str, id_: str = "") -> Bundle:
    now = datetime.now(UTC)
    run = replace(
        bundle.run,
        id=id_ or store.new_id(now),
        created=now.isoformat().replace("+00:00", "Z"),
        fingerprint=fingerprint,
        estimated_with=name_estimator(bundle.run) if bundle.run.weighed else "",
    )
    return replace(bundle, run=run)


def tell_estimator(run: Run, notes: Notes) -> None:
    """Say so where a stored run's estimated times are other ones now than when it was stored."""
    now = name_estimator(run)
    if run.weighed and run.estimated_with and now != run.estimated_with:
        notes.say(
            f"{run.id}: its times are estimated anew (constants {now or 'none'}); when it was "
            f"stored, others were used ({run.estimated_with})"
        )


def describe_kept(stored: Sequence[Obtained]) -> str:
    """Return ``default is stored as .perfcli/runs/….json``, of each, with what tells apart those
    of one name; their number where they are many."""
    kept = [made for made in stored if made.path]
    if len(kept) > _MOST_NAMED:
        return f"{len(kept)} runs are stored in {store.FOLDER}"
    names = [made.run.variant.name for made in kept]
    if len(set(names)) < len(names):
        facts = [_list_facts(made.run) for made in kept]
        same = set.intersection(*map(set, facts))
        names = [
            " ".join([name, *(fact for fact in each if fact not in same)])
            for name, each in zip(names, facts, strict=True)
        ]
    told = (f"{name} is stored as {made.path}" for name, made in zip(names, kept, strict=True))
    return "; ".join(told) or "nothing was finished"


def _list_facts(run: Run) -> list[str]:
    return [run.scenario, *units.settings(run.params), run.place]


_MOST_NAMED = 4


def _reuse(job: Job, known: store.StoredRun, notes: Notes, again: str | None) -> Obtained | None:
    """Return the newest stored run of this job, if the files that it imported and the variables
    that it asked for are still the same."""
    try:
        run = store.read(known.path, sealed=True)
    except PerfcliError as error:
        notes.warn(f"{error}; compiling again")
        return None
    if list_edited(run.sources) or list_set_anew(run) or not _is_of(run, job.request):
        return None
    if again is not None:
        notes.say(f"{run.variant.name}: nothing changed since run {run.id}{again}")
    return Obtained(run, known.path)


def _is_of(run: Run, request: CompileRequest) -> bool:
    """Return whether a stored run is of the code that is asked for: anyone may have written its
    file, and a fingerprint with it."""
    named = run.scenario == request.scenario or not find_file(run.scenario)
    return named and run.script == request.script


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


def compile_runs(question: Question, sides: Sequence[Side], context: Context) -> list[Obtained]:
    """Return runs of all sides, compiled or found. Raises PerfcliError for what the user got
    wrong, and what compiling raises."""
    return obtain(order_jobs(question, sides, context), context)


def load_or_compile(question: Question, side: Side, context: Context) -> Obtained:
    """Return the stored run that ``question.scenario`` names, or a run of the scenario of that
    name."""
    reference = read_reference(question.scenario)
    if reference.kind == "run":
        _check_stored_alone(question, side)
        stored = load_stored(reference.text, context)
        tell_estimator(stored.run, context.notes)
        return stored
    if reference.kind == "scenario":
        _check_known(reference.text)
    (found,) = compile_runs(question, [side], context)
    warn_of_oversights(found.run, context.notes)
    return found


def _check_known(reference: str) -> None:
    """Raise PerfcliError for what is no scenario's name: it may have been meant for a run's."""
    if public(reference) in registry.names("scenarios") or Path(f"{reference}.py").is_file():
        return
    near = suggestion(reference, registry.names("scenarios"))
    stop = "" if near.endswith("?") else ";"
    raise PerfcliError(
        f"no scenario and no stored run {reference!r}: {near}{stop} perfcli runs lists the runs"
    )


def _check_stored_alone(question: Question, side: Side) -> None:
    if replace(question, scenario="") != Question("") or side != Side():
        raise PerfcliError(
            f"{question.scenario} is a stored run, shown as it is: leave out the options for "
            "compiling"
        )


# --- what a stored run may start ---------------------------------------------------------------

# Its file is data that anyone may have written: the programs that it names are started only where
# the command line names them too.

_PLAIN = (bool, int, float, type(None))
_WORD = re.compile(r"\w*")
"""A text that names a dtype, perhaps, and neither a file nor a command with its arguments."""


def list_foreign(run: Run, asked: Variant | None) -> Iterator[str]:
    """Yield what compiling the run again would use that only its file names. ``asked`` is the
    variant that the command line asks for, None for a run by its name."""
    variant, known = run.variant, asked or Variant("")
    if variant.python not in (None, os.path.abspath(sys.executable), known.python):
        yield f"the program {variant.python}"
    for name, value in variant.env.items():
        if known.env.get(name) != value:
            yield f"the variable {name}"
    for name, option in variant.options.items():
        # A number or a yes can't name a compiler or a library; cpp.cxx is a text.
        if not isinstance(option, _PLAIN) and known.options.get(name) != option:
            yield f"the text {name}={option}"
    if asked is None:
        yield from _list_foreign_code(run)


def _list_foreign_code(run: Run) -> Iterator[str]:
    """Yield the code that a run's file names besides a file of this folder as it lies here, and the
    texts that such code would be given."""
    try:
        reference = parse_reference(run.scenario)
    except PerfcliError:
        yield f"the scenario {run.scenario}"
        return
    script, meant = run.script, reference.script
    if script and meant:
        meant = replace(meant, steps=script.steps)
    if script != meant or (script and script.module):
        yield f"the script {shlex.join([script.path, *script.arguments])}" if script else "a script"
    elif script and script.arguments:
        yield f"the arguments {shlex.join(script.arguments)}"
    if reference.path:
        yield from _list_foreign_file(run, reference)


def _list_foreign_file(run: Run, reference: Reference) -> Iterator[str]:
    """Yield what is foreign about the file that a run is of, and the texts that it is given."""
    if reference.revision:
        yield f"the revision {reference.revision} of {reference.path}"
    elif not run.script and reference.move(reference.path).text != run.scenario:
        yield f"the scenario {run.scenario}"
    if not _lies_here(Path(reference.path)):
        yield f"the program {reference.path}, outside this folder"
    varied = run.recompilations.varied if run.recompilations else ()
    for params in (run.params, *(call.params for call in varied)):
        for name, value in params.items():
            if not isinstance(value, _PLAIN) and not _WORD.fullmatch(value):
                yield f"the text {name}={value}"


def _lies_here(path: Path) -> bool:
    """Return whether a file lies in this folder, and is no part of an environment in it, whose
    programs do whatever they are told."""
    folder, real = Path.cwd(), path.resolve()
    if not real.is_relative_to(folder):
        return False
    above = real.relative_to(folder).parents
    return not any((folder / each / "pyvenv.cfg").exists() for each in above)
