"""Parses what people type for something to compile or to compare: a scenario, a file and a name in
it, a script with its arguments, a stored run; what is a user's own perhaps at a git revision."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from perfcli.errors import PerfcliError
from perfcli.loading.builders import is_script
from perfcli.loading.registry import names
from perfcli.loading.userfile import SUFFIX, split
from perfcli.model import ScriptCommand
from perfcli.names import public
from perfcli.storing import store

_PYTHON = ("python", "python3")
"""What may stand before a file, and says that it is a script."""
_AT = re.compile(rf"(?P<place>.+?\{SUFFIX}(?::[^@/]+)?)@(?P<revision>.*)", re.DOTALL)
_DATES = re.compile(r"@\{[^}]*\}")
"""Of a revision what may have blanks in it: ``main@{2 days ago}``."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Says what one text on the command line means."""

    text: str
    """As it was typed."""
    kind: Literal["scenario", "file", "script", "run"]
    path: str = ""
    """The user's file that is compiled; empty for all else, and for ``-m package.module``."""
    name: str | None = None
    """The builder, class or instance in the file; None where none is named."""
    revision: str = ""
    """The git revision of the file; empty for the file as it lies there."""
    script: ScriptCommand | None = None

    def move(self, path: str) -> Reference:
        """Return the same of the file as it lies at another path, where it has no revision."""
        script = self.script
        if script is not None:
            script = script if script.module else replace(script, path=path)
            return replace(self, text=_write(script), path=path, revision="", script=script)
        text = path if self.name is None else f"{path}:{self.name}"
        return replace(self, text=text, path=path, revision="")

    def pin(self, revision: str) -> Reference:
        """Return the same at another revision, by the name of which it is written."""
        if self.script is not None:
            text = _write(self.script, f"@{revision}")
        else:
            text = f"{self.move(self.path).text}@{revision}"
        return replace(self, text=text, revision=revision)


def parse_reference(
    text: str, name_foreign: Callable[[Path], str] = lambda _: "", folder: Path = Path()
) -> Reference:
    """Return what a text means. ``name_foreign`` says of a path what it is that is imported as a
    run, ``a trace``; empty for what is not. Files are looked for from ``folder``. Raises
    PerfcliError for quotes that are not closed, arguments of what takes none, a revision of what
    has none."""
    words = _split_words(text, folder)
    forced = words[0] in _PYTHON and len(words) > 1
    first, *arguments = words[1:] if forced else words
    if first == "-m":
        return _parse_module(text, arguments)
    place, revision = split_revision(first, folder)
    if place != first and not revision:
        raise _refuse_nameless(first, place)
    if not split(place)[0].endswith(SUFFIX):
        return _parse_other(text, name_foreign)
    path, name = split(place)
    if name is None and not forced and not revision and name_foreign(folder / path):
        return Reference(text, "run")
    runs = name is None and (forced or is_script(folder / path))
    if forced and not runs:
        raise PerfcliError(f"{place} names a part of a file: a script is the whole of {path}")
    if arguments and not runs:
        raise _refuse_arguments(place, arguments, folder)
    if runs:
        script = ScriptCommand(path, False, tuple(arguments))
        return Reference(text, "script", path, None, revision, script)
    return Reference(text, "file", path, name, revision)


def find_file(text: str) -> str:
    """Return the path of the user's file that a reference compiles; empty where there is none, as
    for the names that runs of other origin have."""
    try:
        return parse_reference(text).path
    except PerfcliError:
        return ""


def list_files(reference: Reference) -> list[str]:
    """Return the paths of which one is the user's file that a reference runs: those that a module
    may have."""
    if reference.path or reference.script is None:
        return [reference.path]
    stem = reference.script.path.replace(".", "/")
    return [f"{stem}{SUFFIX}", f"{stem}/__main__{SUFFIX}"]


def join_words(first: str, arguments: Sequence[str] = (), forced: bool = False) -> str:
    """Return as one text what stood on the command line as several words: a script and its
    arguments. ``forced``: it is a script whatever the file looks like."""
    given = list(arguments)
    if "--" in given:
        given.remove("--")
    if not given and not forced:
        return first
    if not begins_script(first):
        raise (
            _refuse_arguments(first, given)
            if given
            else PerfcliError(f"--script runs a file, path/to/train.py: {first} is none")
        )
    # One that has blanks in it may be a script with arguments itself.
    shown = shlex.quote(first) if Path(split_revision(first)[0]).exists() else first
    before = ["python"] if forced and first != "-m" else []
    return " ".join([*before, shown, *map(shlex.quote, given)])


def split_words(
    base: str, head: str | None, arguments: Sequence[str] = (), forced: bool = False
) -> tuple[str, str]:
    """Return the texts of both sides of a comparison; that of the head is empty where it is the
    base's: nothing was typed, or what stands in its place is an argument already. Arguments are
    those of each script among them."""
    words = [*([] if head is None else [head]), *arguments]
    option = words and words[0].startswith("-") and not re.match(r"-m\s", words[0])
    named = words and base != "-m" and not option
    sides = [base, words.pop(0) if named else ""]
    scripts = [text for text in sides if text and (forced or begins_script(text))]
    if words and not scripts:
        raise _refuse_arguments(base, words)
    ours, theirs = (join_words(text, words, forced) if text in scripts else text for text in sides)
    return ours, theirs


def split_revision(text: str, folder: Path = Path()) -> tuple[str, str]:
    """Split ``model.py:block@v1.2`` into what is meant and its git revision, which is empty where
    there is none."""
    found = None if (folder / text).exists() else _AT.fullmatch(text)
    return (found["place"], found["revision"]) if found else (text, "")


def _split_words(text: str, folder: Path) -> list[str]:
    """Return the words of a text, in which a file whose name has blanks is one, as is everything
    that is no script with its arguments."""
    place, revision = split_revision(text, folder)
    path, name = split(place)
    behind = f"{name or ''}{_DATES.sub('', revision)}"
    whole = (folder / path).exists() and not re.search(r"\s", behind)
    if whole or not re.search(r"\s", text) or not begins_script(text):
        return [text]
    try:
        return shlex.split(text)
    except ValueError as error:
        raise PerfcliError(f"{text!r} is not a command: {str(error).lower()}") from None


def may_take_arguments(text: str) -> bool:
    """Return whether a text may be a script: it is a file or a module, and no part of one."""
    try:
        return begins_script(text) and parse_reference(text).name is None
    except PerfcliError:
        return True  # it is told when it is used


def begins_script(text: str) -> bool:
    """Return whether a text begins as a script or another file of Python does: ``train.py``,
    ``-m``, ``python``."""
    first = text.split()[0].lstrip("'\"") if text.strip() else ""
    return first in ("-m", *_PYTHON) or re.search(rf"\{SUFFIX}(?![\w.])", text) is not None


def _parse_module(text: str, arguments: list[str]) -> Reference:
    if not arguments:
        raise PerfcliError("-m needs the name of a module: perfcli run -m package.module ARGUMENTS")
    module, at, revision = arguments[0].partition("@")
    if not all(part.isidentifier() for part in module.split(".")):
        raise PerfcliError(f"-m needs the name of a module, package.module, not {module!r}")
    if at and not revision:
        raise _refuse_nameless(arguments[0], module)
    script = ScriptCommand(module, True, tuple(arguments[1:]))
    return Reference(text, "script", revision=revision, script=script)


def _refuse_nameless(text: str, place: str) -> PerfcliError:
    return PerfcliError(f"{text}: a git revision stands behind the @, {place}@HEAD~1")


def _parse_other(text: str, name_foreign: Callable[[Path], str]) -> Reference:
    """Return what a text means that names no Python file."""
    if public(text) in names("scenarios"):
        return Reference(text, "scenario")
    if name_foreign(Path(text)) or text.endswith(".json") or store.locate(text) is not None:
        return Reference(text, "run")
    before, at, revision = text.rpartition("@")
    if at and (public(before) in names("scenarios") or store.locate(before) is not None):
        raise PerfcliError(
            f"{before} has no git revisions, so there is none {revision!r} of it: @ stands behind "
            "a file of your own, model.py:build@main"
        )
    if "/" in text:
        path, name = split(text)
        return Reference(text, "file", path, name)
    return Reference(text, "run" if text[:1].isdigit() else "scenario")


def name_missing(path: Path, typed: str) -> str:
    """Return what is wrong with a path that is no file's."""
    if path.exists() and not path.is_dir():
        return f"{typed} is not a regular file"
    return f"there is no file {typed}"


def _refuse_arguments(place: str, arguments: Sequence[str], folder: Path = Path()) -> PerfcliError:
    option = next((word for word in arguments if word.startswith("-")), "")
    what = f"there is no option {option}" if option else f"{arguments[0]!r} is one word too many"
    file, name = split(split_revision(place)[0])
    if file.endswith(SUFFIX) and file == place and not (folder / file).is_file():
        return PerfcliError(f"{name_missing(folder / file, file)}: expected path/to/file.py")
    if not file.endswith(SUFFIX):
        return PerfcliError(f"{what}: arguments are for scripts, and {place} is none")
    if name is not None:
        return PerfcliError(
            f"{what}: arguments are for scripts, and {place} is a part of a file ({file} alone "
            "would be run as a script)"
        )
    return PerfcliError(
        f"{what}: {place} builds a model, so that no arguments are passed on to it "
        "(--script runs it as a script)"
    )


def _write(script: ScriptCommand, behind: str = "") -> str:
    """Return how a script is typed, with what stands behind its name."""
    before = [] if is_script(Path(script.path)) else ["python"]
    before = ["-m"] if script.module else before
    return shlex.join([*before, script.path + behind, *script.arguments])
