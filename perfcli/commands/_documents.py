"""Documents beside the terminal's report: options for them, checked first, written at the end."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, TypeAlias

import typer

from perfcli.commands import _output
from perfcli.errors import PerfcliError
from perfcli.model import (
    Comparison,
    Document,
    Judged,
    Judgement,
    Outcome,
    Passing,
    Provenance,
)

if TYPE_CHECKING:
    from perfcli.commands._obtain import Obtained
    from perfcli.commands._progress import Notes

Markdown: TypeAlias = Annotated[
    Path | None,
    typer.Option("--markdown", metavar="FILE", help="Write Markdown for an issue or a comment."),
]
Html: TypeAlias = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page that works offline.")
]
Junit: TypeAlias = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML for a CI server.")
]
Sarif: TypeAlias = Annotated[
    Path | None,
    typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0 for code scanning."),
]
Github: TypeAlias = Annotated[
    bool,
    typer.Option("--github", help="In GitHub Actions: step summary, and annotations on stdout."),
]

SUMMARY = "GITHUB_STEP_SUMMARY"
# GitHub refuses the whole summary of a step beyond this.
MOST_SUMMARY_BYTES = 1024 * 1024
STDOUT = _output.STDOUT

_PASSING: dict[Outcome, Passing] = {
    "same": "pass", "better": "pass", "worse": "fail", "unknown": "unsure",
}  # fmt: skip
# The first of these that a check comes to is what all of them come to.
_GRAVITY: tuple[Passing, ...] = ("fault", "fail", "unsure", "pass")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which documents, and where: a file each, ``-`` is stdout."""

    markdown: Path | None = None
    html: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    github: bool = False
    json: Path | None = None
    """Written by the command itself; here because it shares stdout with the others."""

    @property
    def files(self) -> dict[str, Path]:
        """Format to file, but JSON."""
        given = (
            ("markdown", self.markdown),
            ("html", self.html),
            ("junit", self.junit),
            ("sarif", self.sarif),
        )
        return {name: path for name, path in given if path is not None}

    @property
    def any(self) -> bool:
        return self.github or bool(self.files)

    @property
    def stdout(self) -> Path | None:
        """``-`` where a document has stdout, so that the terminal's report goes to stderr."""
        return STDOUT if STDOUT in (*self.files.values(), self.json) else None


def check(wanted: Wanted) -> None:
    """Raises PerfcliError where a document could not be written, or two go to the same file,
    before anybody waits for what they are to hold."""
    named = {**wanted.files, **({"json": wanted.json} if wanted.json else {})}
    taken: dict[Path, str] = {}
    for name, path in named.items():
        _output.check_writable(path)
        place = path if path == STDOUT else path.absolute()
        if place in taken:
            where = "stdout" if path == STDOUT else str(path)
            raise PerfcliError(f"--{taken[place]} and --{name} both write {where}: name two files")
        taken[place] = name
    if wanted.github and (summary := os.environ.get(SUMMARY)):
        _output.check_writable(Path(summary))


def write(judgement: Judgement, wanted: Wanted, notes: Notes) -> None:
    """Every document that is wanted. One that can't be written does not keep the others from
    being; then the first error is raised."""
    errors = []
    for step in _steps(judgement, wanted, notes):
        try:
            step()
        except PerfcliError as error:
            errors.append(error)
    for other in errors[1:]:
        notes.warn(str(other))
    if errors:
        raise errors[0]


def _steps(judgement: Judgement, wanted: Wanted, notes: Notes) -> Iterator[Callable[[], None]]:
    def writes(name: str, path: Path) -> Callable[[], None]:
        return lambda: _output.write_text(rendered(name, judgement), path)

    for name, path in wanted.files.items():
        yield writes(name, path)
    if wanted.github:
        yield lambda: _write_summary(judgement, notes)
        yield lambda: _annotate(judgement, wanted)


def rendered(name: str, judgement: Judgement) -> str:
    """The whole text of a format. Raises PerfcliError where there is no such format."""
    from perfcli import registry

    return registry.declared("reports", name, Document).render(judgement)


# --- GitHub ----------------------------------------------------------------------------------


@contextmanager
def quoted(wanted: Wanted) -> Iterator[None]:
    """Around what the terminal's report prints: in GitHub Actions a kernel whose name looks like
    a workflow command gives none."""
    if not wanted.github:
        yield
        return
    stream, word = _stream(wanted), secrets.token_hex(16)
    stream.write(f"::stop-commands::{word}\n")
    try:
        yield
    finally:
        stream.write(f"::{word}::\n")


def _write_summary(judgement: Judgement, notes: Notes) -> None:
    """Appended to what the step wrote there before; the shorter text where the long one does not
    fit any more, since GitHub drops the whole summary of a step that is too long."""
    given = os.environ.get(SUMMARY)
    if not given:
        notes.warn(f"--github: {SUMMARY} is not set, so there is no step summary to write")
        return
    path = Path(given)
    try:
        left = MOST_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
        for name in ("github", "markdown"):
            text = rendered(name, judgement).encode()
            if len(text) <= left:
                with path.open("ab") as file:
                    file.write(text)
                return
    except OSError as error:
        raise PerfcliError(f"can't write {path}: {error.strerror or error}") from error
    notes.warn("--github: the step summary is full, nothing was added to it")


def _annotate(judgement: Judgement, wanted: Wanted) -> None:
    """GitHub reads workflow commands on both streams."""
    _stream(wanted).write(rendered("annotations", judgement))


def _stream(wanted: Wanted) -> TextIO:
    return sys.stderr if wanted.stdout else sys.stdout


# --- a judgement of what was only compared -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pairing:
    """One comparison for a document: the two runs, and how they compare. ``name`` tells it from
    others; ``fault`` is what of perfcli failed while it was judged."""

    base: Obtained
    head: Obtained
    comparison: Comparison
    name: str = ""
    fault: str = ""


def judgement_of(pairings: Sequence[Pairing], command: str = "") -> Judgement:
    """Comparisons that nobody put limits on as a judgement: as bad as the worst of them."""
    from perfcli.diagnosis import rules

    checks = tuple(_judged(pairing) for pairing in pairings)
    worst = min(range(len(checks)), key=lambda n: _GRAVITY.index(checks[n].outcome))
    return Judgement(
        checks=checks,
        outcome=checks[worst].outcome,
        reason=checks[worst].reason,
        exit_code=exit_code(pairings[worst]),
        command=command,
        rules=rules(),
        root=str(project_root()),
    )


def exit_code(pairing: Pairing) -> int:
    """What ``compare`` returns."""
    if pairing.fault:
        return PerfcliError.exit_code
    return _output.EXIT_CODES[pairing.comparison.outcome]


def _judged(pairing: Pairing) -> Judged:
    from perfcli.commands._texts import Texts

    base = pairing.base.run
    environment = base.environment
    return Judged(
        name=pairing.name,
        outcome="fault" if pairing.fault else _PASSING[pairing.comparison.outcome],
        reason=pairing.comparison.reason,
        comparison=pairing.comparison,
        provenance=Provenance(
            kind="run",
            where=base.id,
            created=base.created[:10],
            torch=environment.torch,
            triton=environment.triton or "",
        ),
        fault=pairing.fault,
        texts=Texts(pairing.base, pairing.head),
    )


def project_root(folder: Path | None = None) -> Path:
    """The repository that holds the folder (the current one), else the folder itself."""
    start = (folder or Path.cwd()).absolute()
    return next((each for each in (start, *start.parents) if (each / ".git").exists()), start)
