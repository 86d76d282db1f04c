"""Options for documents beside the terminal's report: checked first, written at the end."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, TypeAlias

import typer

from perfcli import units
from perfcli.console import output
from perfcli.errors import PerfcliError
from perfcli.frames.table import Row, Table, check_parquet, render_csv, render_parquet
from perfcli.model import Document, Judgement
from perfcli.storing.whole import spare

if TYPE_CHECKING:
    from rich.console import RenderableType

    from perfcli.console.notes import Notes

SUMMARY = "GITHUB_STEP_SUMMARY"
# GitHub refuses the whole summary of a step beyond this.
MOST_SUMMARY_BYTES = 1024 * 1024


def _check_github() -> None:
    """Raise PerfcliError if there is a step summary that can't be written."""
    if summary := os.environ.get(SUMMARY):
        output.check_writable(Path(summary))


def _write_summary(texts: Iterator[str]) -> str:
    """Append the first text that fits to the step's summary; the longest comes first.

    GitHub drops the whole summary of a step that is too long. Returns a warning, or an empty
    string if all is well. Raises PerfcliError if the summary can't be written.
    """
    given = os.environ.get(SUMMARY)
    if not given:
        return f"--github: {SUMMARY} is not set, so there is no step summary to write"
    path = Path(given)
    try:
        left = MOST_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
        for text in texts:
            encoded = text.encode()
            if len(encoded) <= left:
                with path.open("ab") as file:
                    file.write(encoded)
                return ""
    except OSError as error:
        raise PerfcliError(f"can't write {path}: {error.strerror or error}") from error
    return "--github: the step summary is full, nothing was added to it"


@contextmanager
def _quote_commands(stream: TextIO) -> Iterator[None]:
    """Keep GitHub from reading what is printed inside as workflow commands: a kernel's name may
    look like one."""
    word = secrets.token_hex(16)
    stream.write(f"::stop-commands::{word}\n")
    try:
        yield
    finally:
        stream.write(f"::{word}::\n")


Markdown: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--markdown", metavar="FILE", help="Also write Markdown for an issue or a comment."
    ),
]
Html: TypeAlias = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write an HTML page that works offline."),
]
Junit: TypeAlias = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Also write JUnit XML for a CI server."),
]
Sarif: TypeAlias = Annotated[
    Path | None,
    typer.Option("--sarif", metavar="FILE", help="Also write SARIF 2.1.0 for code scanning."),
]
Github: TypeAlias = Annotated[
    bool, typer.Option("--github", help="In GitHub Actions: write a step summary, and annotations.")
]
Csv: TypeAlias = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Also write the table as CSV; - is stdout."),
]
Parquet: TypeAlias = Annotated[
    Path | None, typer.Option("--parquet", metavar="FILE", help="Also write the table as Parquet.")
]

STDOUT = output.STDOUT


@dataclass(frozen=True, slots=True)
class Wanted:
    """Says which documents are wanted, and where: a file each; ``-`` is stdout."""

    markdown: Path | None = None
    html: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    github: bool = False
    json: Path | None = None
    """The command itself writes JSON; it is here because it may share stdout with the others."""
    csv: Path | None = None
    """This and ``parquet`` are written by ``write_table``."""
    parquet: Path | None = None

    @property
    def files(self) -> dict[str, Path]:
        """Map each wanted format but JSON to its file."""
        return self._find("markdown", "html", "junit", "sarif")

    @property
    def named(self) -> dict[str, Path]:
        """Map each wanted format to its file."""
        return {**self.files, **self._find("json", "csv", "parquet")}

    def _find(self, *names: str) -> dict[str, Path]:
        return {name: path for name in names if (path := getattr(self, name)) is not None}

    @property
    def places(self) -> dict[Path, str]:
        """Map the place of each file to the option that names it: none of these is to be read."""
        files = {name: path for name, path in self.named.items() if path != STDOUT}
        return {path.resolve(): f"--{name} {path}" for name, path in files.items()}

    @property
    def stdout(self) -> Path | None:
        """Return ``-`` if a document takes stdout, so that the terminal's report goes to stderr."""
        return STDOUT if STDOUT in self.named.values() else None

    @property
    def stream(self) -> TextIO:
        """Return where the terminal's report and annotations go: GitHub reads both streams."""
        return sys.stderr if self.stdout else sys.stdout


def check(wanted: Wanted, inputs: Sequence[Path] = ()) -> Wanted:
    """Return what is wanted; its paths are checked before anybody waits for their content.

    ``inputs`` are files that the command reads. Raises PerfcliError if a document can't be
    written, if two go to the same file, or if one would overwrite what is read.
    """
    taken: dict[Path, str] = {}
    for name, path in wanted.named.items():
        output.check_writable(path)
        place = path if path == STDOUT else path.resolve()
        if place in taken:
            where = "stdout" if path == STDOUT else str(path)
            raise PerfcliError(f"--{taken[place]} and --{name} both write {where}: name two files")
        taken[place] = name
    for each in inputs:
        spare(each, wanted.places)
    if wanted.parquet:
        if wanted.parquet == STDOUT:
            raise PerfcliError("--parquet -: a file is expected; --csv - writes text to stdout")
        check_parquet()
    if wanted.github:
        _check_github()
    return wanted


def write_table(table: Table[Row], rows: Iterable[Row], wanted: Wanted) -> None:
    """Write a table as CSV and as Parquet, whichever is wanted. Raises PerfcliError if a file can't
    be written."""
    rows = list(rows)
    if wanted.csv:
        text = render_csv(table, rows)
        output.write_text(units.printable(text) if wanted.csv == STDOUT else text, wanted.csv)
    if wanted.parquet:
        output.write_bytes(render_parquet(table, rows), wanted.parquet)


def write(
    judgement: Judgement, wanted: Wanted, notes: Notes, *others: Callable[[], object]
) -> None:
    """Write every document that is wanted, after what ``others`` write.

    A document that can't be written does not keep the others from being written; the first error
    is raised at the end.
    """
    errors = []
    for step in (*others, *_list_steps(judgement, wanted, notes)):
        try:
            step()
        except PerfcliError as error:
            errors.append(error)
    for other in errors[1:]:
        notes.warn(str(other))
    if errors:
        raise errors[0]


def _list_steps(
    judgement: Judgement, wanted: Wanted, notes: Notes
) -> Iterator[Callable[[], object]]:
    def summarize() -> None:
        names = ("github", "markdown")
        texts = (render_document(name, judgement) for name in names)
        if warning := _write_summary(texts):
            notes.warn(warning)

    def annotate() -> None:
        wanted.stream.write(render_document("annotations", judgement))

    for name, path in wanted.files.items():
        yield partial(_write_file, name, path, judgement)
    if wanted.github:
        yield summarize
        yield annotate


def _write_file(name: str, path: Path, judgement: Judgement) -> None:
    output.write_text(render_document(name, judgement), path)


def show(view: RenderableType, wanted: Wanted) -> None:
    """Print the terminal's report, on stderr if a document takes stdout.

    In GitHub Actions none of it is taken for a workflow command.
    """
    with _quote_commands(wanted.stream) if wanted.github else nullcontext():
        output.show(view, wanted.stdout)


def render_document(name: str, judgement: Judgement) -> str:
    """Return the whole text of a format. Raises PerfcliError if there is no such format."""
    from perfcli.loading import registry

    return registry.load_declared("reports", name, Document).render(judgement)


def find_root(folder: Path | None = None) -> Path:
    """Return the repository around the folder (default: the current one), or the folder."""
    start = (folder or Path.cwd()).absolute()
    return next((each for each in (start, *start.parents) if (each / ".git").exists()), start)
