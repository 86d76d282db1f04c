"""``--try-fixes``: what findings propose is compiled, and judged by what became of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli import options, registry, trials, units, userfile
from perfcli.commands import _obtain, _output
from perfcli.commands._fingerprint import fingerprint
from perfcli.commands._obtain import How, Obtained
from perfcli.commands._progress import Notes
from perfcli.commands._request import Job, describe, recompile
from perfcli.environment import Interpreter
from perfcli.errors import Interrupted, PerfcliError
from perfcli.model import Cure, Finding, Run, Trial, Variant
from perfcli.names import public
from perfcli.options import Catalogue


@dataclass(frozen=True, slots=True)
class Patient:
    """The run whose findings are to be cured, with all of them; ``base`` where they are those of a
    comparison."""

    head: Obtained
    findings: Sequence[Finding]
    base: Obtained | None = None


Wanted = Callable[[Finding], bool]


def proposals(findings: Sequence[Finding], wanted: Wanted) -> int:
    """How many different changes the wanted findings propose."""
    return len({_key(cure) for finding in findings if wanted(finding) for cure in finding.cures})


def everything(_: Finding) -> bool:
    return True


def came_with_head(finding: Finding) -> bool:
    """Of a comparison's findings those that it shows in full."""
    return finding.came_with_head


def show_hint(
    arguments: Sequence[str],
    findings: Sequence[Finding],
    json_file: Path | None,
    wanted: Wanted = everything,
) -> None:
    """The command that tries what is proposed, in one line to be pasted; nothing where there is
    nothing to try, or a run in ``arguments`` is not stored."""
    number = proposals(findings, wanted)
    if not number or not all(arguments):
        return
    from rich.console import Group
    from rich.text import Text

    does = f"compiles {units.plural(number, 'proposed change')}"
    command = f"perfcli {shlex.join(arguments)} --try-fixes  # {does}"
    line = Text(units.printable(command), no_wrap=True, overflow="ignore")
    _output.show(Group(line), json_file)


def try_fixes(
    patient: Patient, how: How, jobs: int | None, notes: Notes, wanted: Wanted = everything
) -> tuple[Finding, ...]:
    """The patient's findings, the wanted ones with trials of their cures. Where the run can't be
    compiled again a warning says why. Raises Interrupted, saying what is stored."""
    findings = tuple(patient.findings)
    if not proposals(findings, wanted):
        return findings
    try:
        compiler = _Compiler(patient, replace(how, fresh=False), jobs, notes)
        compiler.check()
    except PerfcliError as error:
        notes.warn(f"fixes are not tried: {error}")
        return findings
    return tuple(compiler.tried(finding) if wanted(finding) else finding for finding in findings)


def _key(cure: Cure) -> str:
    return json.dumps(dict(cure.options), sort_keys=True)


class _Compiler:
    """Compiles each set of options once."""

    def __init__(self, patient: Patient, how: How, jobs: int | None, notes: Notes) -> None:
        self._patient = patient
        self._run = patient.head.run
        self._jobs = jobs
        self._notes = notes
        self._place = _obtain.workshop(how, self._run.device)
        self._interpreter = self._place.probe(self._run.variant.python)
        self._catalogue = options.load_catalogue(self._interpreter.torch_dir)
        self._attempts: dict[str, trials.Attempt | str] = {}
        self._stored = [made for made in (patient.base, patient.head) if made]

    def check(self) -> None:
        """Raises PerfcliError, with what to do, where the run can't be compiled again."""
        check_unchanged(self._run)
        check_torch(self._run, self._interpreter)

    def tried(self, finding: Finding) -> Finding:
        return replace(finding, trials=tuple(self._trial(finding, c) for c in finding.cures))

    def _trial(self, finding: Finding, cure: Cure) -> Trial:
        if _key(cure) not in self._attempts:
            self._attempts[_key(cure)] = self._attempt(cure)
        made = self._attempts[_key(cure)]
        if isinstance(made, str):
            return trials.failed(cure, made)
        return replace(trials.judge(finding, cure, made), brought=self._brought(cure))

    def _brought(self, cure: Cure) -> tuple[str, ...]:
        return tuple(n for n in cure.options if options.find(self._catalogue, n).note)

    def _attempt(self, cure: Cure) -> trials.Attempt | str:
        """The cure compiled and looked at, or why it could not be."""
        base = self._patient.base
        try:
            found = self._compiled(cure)
            against = base.run if base else None
            return trials.attempt(self._run, found.run, self._patient.findings, against)
        except Interrupted:
            raise
        except PerfcliError as error:
            return str(error)

    def _compiled(self, cure: Cure) -> Obtained:
        variant = cured(self._run.variant, cure, self._catalogue)
        options.check_device(variant, self._catalogue, self._run.device)
        request = recompile(self._run, variant, self._jobs)
        job = Job(request, fingerprint(request, self._interpreter), self._interpreter)
        try:
            (found,) = _obtain.obtain([job], self._place.executor, False, self._notes)
        except Interrupted as error:
            kept = _obtain.what_is_kept(self._stored)
            raise Interrupted(f"interrupted; {kept}") from error
        self._stored.append(found)
        return found


# --- the run again, with other options -------------------------------------------------------


def cured(variant: Variant, cure: Cure, catalogue: Catalogue) -> Variant:
    """The variant with a cure's options added. Raises PerfcliError where this torch has none of
    that name."""
    texts = [f"{name}={units.setting(value)}" for name, value in cure.options.items()]
    added = options.make_variant("", texts, catalogue)
    both = replace(
        variant,
        options={**variant.options, **added.options},
        env={**variant.env, **added.env},
    )
    return replace(both, name=describe(both))


def check_torch(run: Run, interpreter: Interpreter) -> None:
    """Raises PerfcliError where the interpreter has another torch than the run's."""
    had = {"torch": run.environment.torch, "triton": run.environment.triton}
    has = {"torch": interpreter.torch, "triton": interpreter.triton}
    for name, version in had.items():
        if version and version != has[name]:
            raise PerfcliError(
                f"the run was compiled with {name} {version}, {interpreter.path} has "
                f"{has[name] or 'none'}: call perfcli with the Python that has {version}, or "
                "compile the run anew"
            )


def check_unchanged(run: Run) -> None:
    """Raises PerfcliError where what the run was compiled from is gone or was edited."""
    known = public(run.scenario) in registry.names("scenarios")
    if not known and not registry.is_user_file(run.scenario):
        raise PerfcliError(f"there is no scenario {run.scenario} any more")
    path = "" if known else userfile.split(run.scenario)[0]
    if path and not Path(path).is_file():
        raise PerfcliError(
            f"there is no file {path} here: call perfcli in the folder where the run was compiled"
        )
    for source, digest in run.sources.items():
        if not _obtain.unchanged(source, digest):
            raise PerfcliError(
                f"{source} is not what it was when the run was compiled: compile the run anew"
            )
