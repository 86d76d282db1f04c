"""Compiles another revision of the user's repository, in a folder of its own that vanishes."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from perfcli.errors import PerfcliError
from perfcli.loading.references import Reference, parse_reference
from perfcli.machine.scratch import left_scratch, make_scratch
from perfcli.model import Bundle, CompileRequest, Run
from perfcli.worker.roles import Executor, Progress

_DIGITS = 12
"""As many of a commit as name it in what is shown and stored."""
# A gate in a git hook is told of the hook's repository by these; all else is the user's settings.
_HOOKS = ("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "COMMON_DIR", "PREFIX")
_KIND = "revision-"
_OF_A_HOOK = frozenset(f"GIT_{name}" for name in _HOOKS)


@dataclass(frozen=True, slots=True)
class Revision:
    """``folder`` is checked out; ``root`` is the user's own checkout, which nobody touches."""

    name: str
    """As it was typed."""
    commit: str
    root: Path
    folder: Path

    def place(self, path: Path) -> Path:
        """Return where a file of the user's checkout is in that revision.

        Raises PerfcliError for one outside the repository.
        """
        real = path.resolve()
        if not real.is_relative_to(self.root):
            raise PerfcliError(
                f"{path} is not in the repository {self.root}, so it has no revisions"
            )
        return self.folder / real.relative_to(self.root)

    def foreign(self, sources: Iterable[str]) -> list[Path]:
        """Return the files of the user's checkout among those that a run imported."""
        paths = (Path(os.path.realpath(source)) for source in sources)
        return [path for path in paths if path.is_relative_to(self.root)]

    def import_folders(self, files: Sequence[Path]) -> list[Path]:
        """Return the folders of that revision where Python finds the same packages."""
        return list(dict.fromkeys(map(self._import_folder, files)))

    def _import_folder(self, file: Path) -> Path:
        top = _top_folder(file)
        if top.is_relative_to(self.root):
            return self.folder / top.relative_to(self.root)
        return self.folder.parent  # the root is a package itself: the worktree has its name

    def working_folder(self, current: Path) -> Path | None:
        """Return where the revision's code runs, so that files that it opens by a relative path are
        its own: the same folder of that revision, the nearest one above that it has; None outside
        the repository."""
        real = current.resolve()
        if not real.is_relative_to(self.root):
            return None
        place = self.folder / real.relative_to(self.root)
        return next(each for each in (place, *place.parents) if each.is_dir())


def _top_folder(file: Path) -> Path:
    """Return the folder that holds a file's outermost package."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def look_in(request: CompileRequest, folders: Sequence[Path]) -> CompileRequest:
    """Return the same request, with folders where Python looks first."""
    path = os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])
    variant = replace(request.variant, env={**request.variant.env, "PYTHONPATH": path})
    return replace(request, variant=variant)


@contextmanager
def check_out(name: str, folder: Path) -> Iterator[Revision]:
    """Yield a worktree of a revision of the repository around ``folder``, which is removed at the
    end whatever happens.

    Raises PerfcliError where there is no repository or no such revision, or git fails.
    """
    root, commit = _find_commit(name, folder)
    sweep_worktrees()
    above = make_scratch(_KIND, str(root))
    place = above / root.name
    try:
        _git(
            root,
            *("-c", f"core.hooksPath={os.devnull}"),  # no hook of the user's runs for this
            *("worktree", "add", "--detach", "--quiet", str(place), commit),
            what=f"can't check out {name}",
        )
        _fill_submodules(root, commit, place)
        yield Revision(name, commit, root.resolve(), place)
    finally:
        _remove(root, place)
        shutil.rmtree(above, ignore_errors=True)


def sweep_worktrees() -> None:
    """Remove the worktrees of commands that were killed."""
    for left, repository in left_scratch(_KIND):
        _remove(Path(repository), left / Path(repository).name)
        shutil.rmtree(left, ignore_errors=True)


def _find_commit(name: str, folder: Path) -> tuple[Path, str]:
    """Return the top of the repository around ``folder``, and the commit of a revision."""
    root = Path(_git(folder, "rev-parse", "--show-toplevel", what=f"{folder} is in no repository"))
    commit = _git(
        root,
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"),
        what=f"{root} has no revision {name!r} (a shallow clone? fetch it first)",
    )
    return root, commit


def _fill_submodules(root: Path, commit: str, place: Path) -> None:
    """Put into a worktree the files of its submodules, which git leaves out, as the revision has
    them: of those that the user's own checkout has."""
    if not (place / ".gitmodules").is_file():
        return
    listed = _git(root, "ls-tree", "-r", "-z", commit, what="can't list its files")
    for entry in filter(None, listed.split("\0")):
        about, _, path = entry.partition("\t")
        mode, _, at = about.split(" ")
        own = root / path
        if mode != "160000" or not (own / ".git").exists():
            continue
        made = _run(own, ("archive", "--format=tar", at), text=False)
        if made.returncode:
            raise PerfcliError(
                f"the submodule {path} has no commit {at[:_DIGITS]} here: fetch it first "
                f"(git -C {path} fetch)"
            )
        with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
            archive.extractall(place / path, filter="data")
        _fill_submodules(own, at, place / path)


def _git(folder: Path, *arguments: str, what: str) -> str:
    try:
        done = _run(folder, arguments)
    except OSError as error:
        raise PerfcliError(f"revisions need git: {error.strerror or error}") from error
    if done.returncode != 0:
        said = (done.stderr or "").strip().splitlines()
        raise PerfcliError(f"{what}{f' ({said[-1]})' if said else ''}")
    return str(done.stdout).strip()


def _run(
    folder: Path, arguments: Sequence[str], text: bool = True
) -> subprocess.CompletedProcess[Any]:
    clean = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=text,
        stdin=subprocess.DEVNULL,
        env=clean,
        check=False,
        start_new_session=True,  # Ctrl-C ends the command, not the git that cleans up for it
    )


def _remove(root: Path, place: Path) -> None:
    """Remove the worktree without leaving a note of it in the user's repository, or losing one of
    another worktree: ``git worktree prune`` would forget those whose disk is not mounted now."""
    remove = ("worktree", "remove", "--force", "--force", str(place))
    if _run(root, remove).returncode != 0:  # broken: git forgets one whose folder is gone
        shutil.rmtree(place, ignore_errors=True)
        _run(root, remove)


# --- files at a revision, as they are typed: model.py:block@main ------------------------------


def pin_reference(reference: Reference) -> Reference:
    """Return the reference with the commit that its revision is now: a branch is another one
    tomorrow. One without a revision stays as it is.

    Raises PerfcliError where there is no repository, no such revision, or no such file in it.
    """
    if not reference.revision:
        return reference
    with _said_of(reference):
        root, commit = _find_commit(reference.revision, _find_folder(reference))
        if reference.path:
            _check_tracked(reference, root, commit)
    return reference.pin(commit[:_DIGITS])


def describe_revision(reference: Reference) -> str:
    """Return what a revision is that was typed: ``HEAD~1 is a1b2c3d4e5f6, 2026-11-20, Fuse it``."""
    shown = _git(
        _find_folder(reference),
        *("show", "--no-patch", "--date=short", "--format=%h, %cd, %s", f"--abbrev={_DIGITS}"),
        *("--end-of-options", f"{reference.revision}^{{commit}}"),
        what=f"there is no revision {reference.revision!r}",
    )
    return f"{reference.revision} is {shown}"


def _find_folder(reference: Reference) -> Path:
    """Return the folder that a file lies in, or the nearest one above that is still there."""
    above = Path(reference.path).absolute().parents if reference.path else [Path.cwd()]
    return next(folder for folder in above if folder.is_dir())


def _check_tracked(reference: Reference, root: Path, commit: str) -> None:
    file, top = Path(reference.path), root.resolve()
    real = file.parent.resolve() / file.name
    if not real.is_relative_to(top):
        raise PerfcliError(f"{file} is not in the repository {root}")
    path = real.relative_to(top).as_posix()
    if _run(root, ("cat-file", "-e", f"{commit}:{path}")).returncode == 0:
        return
    known = _run(root, ("ls-files", "--error-unmatch", "--", path)).returncode == 0
    why = "it came later, or had another path then" if known else "git does not track it"
    why = why if file.exists() else "nor is it here now"
    raise PerfcliError(f"there is no {path} in revision {reference.revision}: {why}")


@contextmanager
def _said_of(reference: Reference) -> Iterator[None]:
    """Begin what is wrong with a revision with what was typed."""
    try:
        yield
    except PerfcliError as error:
        raise type(error)(f"{reference.text}: {error}", detail=error.detail) from error


class Worktrees:
    """Checks out the revisions that requests name, each once, and removes them at its end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._known: dict[tuple[Path, str], Revision] = {}
        self._of: dict[str, Revision] = {}

    def __enter__(self) -> Worktrees:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def compile(
        self,
        executor: Executor,
        requests: Sequence[CompileRequest],
        progress: Callable[[Progress], None],
    ) -> Iterator[Bundle]:
        """Compile as the executor does; a run of a revision says nothing of its worktree.

        What it imports of the user's checkout, since the project is installed from there (``pip
        install -e``), is another revision's: then it is compiled once more, with the worktree's
        folders before those. Raises PerfcliError where that does not help.
        """
        placed = [self.place(request) for request in requests]
        made = executor.compile(placed, progress)
        for number, (request, moved) in enumerate(zip(requests, placed, strict=True)):

            def tell(told: Progress, number: int = number) -> None:
                progress(replace(told, request=number))

            with self._hidden():
                bundle = next(made)
                revision = self._of.get(request.scenario)
                if revision and (foreign := revision.foreign(bundle.run.sources)):
                    again = look_in(moved, revision.import_folders(foreign))
                    (bundle,) = executor.compile([again], tell)
                if revision:
                    _check_own(bundle.run, request, revision)
                    bundle = _give_back(bundle, request, revision)
            yield bundle

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
        return replace(
            request,
            scenario=moved.text,
            script=replace(script, path=place) if script and place else script,
            folder=str(revision.working_folder(Path.cwd()) or ""),
        )

    def _check_out(self, reference: Reference) -> Revision:
        folder = _find_folder(reference)
        root, commit = _find_commit(reference.revision, folder)
        if (root, commit) not in self._known:
            made = self._stack.enter_context(check_out(reference.revision, folder))
            self._known[root, commit] = made
        return self._known[root, commit]

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        """Say of an error where it is in the user's checkout, not in a folder that is gone."""
        try:
            yield
        except PerfcliError as error:
            message, detail = str(error), error.detail
            for revision in self._known.values():
                message = message.replace(str(revision.folder), str(revision.root))
                detail = detail.replace(str(revision.folder), str(revision.root))
            raise type(error)(message, detail=detail) from error


def _check_own(run: Run, request: CompileRequest, revision: Revision) -> None:
    if foreign := revision.foreign(run.sources):
        raise PerfcliError(
            f"{request.scenario} imports {foreign[0]}, which is the one of your checkout: give an "
            "interpreter in which that is not installed (--python)"
        )


def _give_back(bundle: Bundle, request: CompileRequest, revision: Revision) -> Bundle:
    """Return the bundle as if the revision lay where the user's checkout does. Files of the
    revision are no sources that could change: its commit says what they are."""
    own = f"{revision.folder}{os.sep}"
    sources = {path: sha for path, sha in bundle.run.sources.items() if not path.startswith(own)}
    text = msgspec.json.encode(replace(bundle.run, sources=sources))
    text = text.replace(own.encode(), f"{revision.root}{os.sep}".encode())
    run = replace(
        msgspec.json.decode(text, type=Run),
        scenario=request.scenario,
        variant=request.variant,
        script=request.script,
    )
    return replace(bundle, run=run)
