"""Compiles files at a revision, as they are typed, ``model.py:block@main``: each revision is
checked out once, and what is made of it says nothing of the folder that it was in."""

from __future__ import annotations

import collections.abc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import GeneratorType
from typing import TypeVar

import msgspec

from perfcli.decoding import decode
from perfcli.errors import PerfcliError
from perfcli.loading.references import Reference, parse_reference
from perfcli.model import Bundle, CompileRequest, KernelFacts, KernelText, Run
from perfcli.worker.roles import Compiled, Executor, Generator, Made, Progress
from perfcli.workflow.revision import (
    COMMIT_DIGITS,
    Revision,
    check_out,
    check_tracked,
    describe_commit,
    find_commit,
    look_in,
    read_tracked,
)


def pin_reference(reference: Reference) -> Reference:
    """Return the reference with the commit that its revision is now: a branch is another one
    tomorrow. One without a revision stays as it is. Raises PerfcliError where there is no
    repository, no such revision, or no such file in it."""
    if not reference.revision:
        return reference
    with _said_of(reference):
        root, commit = find_commit(reference.revision, _find_folder(reference))
        if reference.path:
            check_tracked(Path(reference.path), reference.revision, root, commit)
    return reference.pin(commit[:COMMIT_DIGITS])


def read_text(reference: Reference) -> bytes:
    """Return the text of a file at its revision. Raises PerfcliError as ``pin_reference``."""
    with _said_of(reference):
        return read_tracked(Path(reference.path), reference.revision, _find_folder(reference))


def describe_revision(reference: Reference) -> str:
    """Return what a revision is that was typed, as ``describe_commit``."""
    return describe_commit(reference.revision, _find_folder(reference))


def _find_folder(reference: Reference) -> Path:
    """Return the folder that a file lies in, or the nearest one above that is still there."""
    above = Path(reference.path).absolute().parents if reference.path else [Path.cwd()]
    return next(folder for folder in above if folder.is_dir())


@contextmanager
def _said_of(reference: Reference) -> Iterator[None]:
    """Begin what is wrong with a revision with what was typed."""
    try:
        yield
    except PerfcliError as error:
        raise type(error)(f"{reference.text}: {error}", detail=error.detail) from error


Failure = TypeVar("Failure", bound=PerfcliError)
Item = TypeVar("Item")


class Worktrees:
    """Checks out the revisions that requests name, each once, and removes them at its end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._known: dict[tuple[Path, str], Revision] = {}
        self._of: dict[str, Revision] = {}
        self._import_folders: dict[Path, list[Path]] = {}
        """Where Python looks first, by the folder of a revision that is installed from the user's
        checkout."""

    def __enter__(self) -> Worktrees:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def compile(
        self,
        executor: Executor,
        requests: Sequence[CompileRequest],
        progress: Callable[[Progress], None],
    ) -> collections.abc.Generator[tuple[int, Compiled], None, None]:
        """Compile as the executor does; a run of a revision says nothing of its worktree.

        What it imports of the user's checkout, since the project is installed from there (``pip
        install -e``), is another revision's: then it is compiled once more, with the worktree's
        folders before those. Raises PerfcliError where that does not help.
        """
        placed = [self.place(request) for request in requests]
        with _closing(executor.compile(placed, progress)) as arriving:
            for number, made in arriving:
                request = requests[number]

                def tell(told: Progress, number: int = number) -> None:
                    progress(replace(told, request=number))

                while isinstance(made, Bundle):
                    again = self.place_again(request, placed[number], made.run.sources)
                    if again is None:
                        break
                    placed[number] = again
                    ((_, made),) = executor.compile([again], tell)
                if isinstance(made, PerfcliError):
                    yield number, self._hide(made)
                else:
                    yield number, self._give_back(made, request)

    def search(self, generator: Generator) -> Generator:
        """Return a generator that does for each variant what ``compile`` does."""
        return _PlacedGenerator(generator, self)

    def place(self, request: CompileRequest) -> CompileRequest:
        """Return the request for the files of the revision that it names, where it names one."""
        reference = parse_reference(request.scenario)
        if not reference.revision:
            return request
        with _said_of(reference):
            revision = self._check_out(reference)
            place = str(revision.place(Path(reference.path))) if reference.path else ""
        self._of[request.scenario] = revision
        moved, script = reference.move(place), request.script
        request = replace(
            request,
            scenario=moved.text,
            script=replace(script, path=place) if script and place else script,
            folder=str(revision.working_folder(Path.cwd()) or ""),
        )
        folders = self._import_folders.get(revision.folder)
        return look_in(request, folders) if folders else request

    def place_again(
        self, request: CompileRequest, placed: CompileRequest, sources: Iterable[str]
    ) -> CompileRequest | None:
        """Return the request with the folders in which Python has to look first, where a worker
        that was asked for ``placed`` imported files of the user's checkout; None where all files
        are the revision's. Raises PerfcliError where it had these folders already."""
        revision = self._of.get(request.scenario)
        foreign = revision.foreign(sources) if revision else []
        if not revision or not foreign:
            return None
        folders = self._import_folders.setdefault(revision.folder, [])
        folders += [each for each in revision.import_folders(foreign) if each not in folders]
        again = self.place(request)
        if again == placed:
            raise PerfcliError(
                f"{request.scenario} imports {foreign[0]}, which is the one of your checkout: give "
                "an interpreter in which that is not installed (--python)"
            )
        return again

    def _give_back(self, bundle: Bundle, request: CompileRequest) -> Bundle:
        """Return the bundle as if its revision, where it has one, lay where the user's checkout
        does."""
        revision = self._of.get(request.scenario)
        return bundle if revision is None else _give_back(bundle, request, revision)

    def _check_out(self, reference: Reference) -> Revision:
        folder = _find_folder(reference)
        root, commit = find_commit(reference.revision, folder)
        if (root, commit) not in self._known:
            made = self._stack.enter_context(check_out(reference.revision, folder))
            self._known[root, commit] = made
        return self._known[root, commit]

    def _hide(self, error: Failure) -> Failure:
        message, detail = str(error), error.detail
        for revision in self._known.values():
            message = message.replace(str(revision.folder), str(revision.root))
            detail = detail.replace(str(revision.folder), str(revision.root))
        return type(error)(message, detail=detail)


@contextmanager
def _closing(made: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """End what an iterator has begun when the block ends, if it can be ended."""
    try:
        yield made
    finally:
        if isinstance(made, GeneratorType):
            made.close()


class _PlacedGenerator:
    """Generates code in the worktrees of what requests name."""

    def __init__(self, generator: Generator, worktrees: Worktrees) -> None:
        self._generator = generator
        self._worktrees = worktrees

    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        worktrees, missing = self._worktrees, dict(enumerate(requests))
        again = True
        while again:
            again, numbers = False, list(missing)
            common = None if base is None else worktrees.place(base)
            placed = [worktrees.place(request) for request in missing.values()]
            with _closing(self._generator.generate(placed, common)) as arriving:
                for place, made in arriving:
                    number = numbers[place]
                    request = requests[number]
                    if isinstance(made, PerfcliError):
                        yield number, worktrees._hide(made)
                    elif worktrees.place_again(request, placed[place], made.bundle.run.sources):
                        again = True
                        break
                    else:
                        own = worktrees._give_back(made.bundle, request)
                        yield number, replace(made, bundle=own)
                    del missing[number]

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        return self._generator.with_binaries(kernels, self._worktrees.place(request), weighs)

    def close(self) -> None:
        self._generator.close()


def _give_back(bundle: Bundle, request: CompileRequest, revision: Revision) -> Bundle:
    """Return the bundle as if the revision lay where the user's checkout does. Files of the
    revision are no sources that could change: its commit says what they are."""
    own = f"{revision.folder}{os.sep}"
    sources = {path: sha for path, sha in bundle.run.sources.items() if not path.startswith(own)}
    text = msgspec.json.encode(replace(bundle.run, sources=sources))
    text = text.replace(own.encode(), f"{revision.root}{os.sep}".encode())
    run = replace(
        decode(text, Run), scenario=request.scenario, variant=request.variant, script=request.script
    )
    return replace(bundle, run=run)
