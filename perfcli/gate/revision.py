"""Another revision of the user's repository, in a folder of its own that vanishes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.machine.scratch import left_scratch, make_scratch
from perfcli.model import CompileRequest
from perfcli.workflow.fingerprint import Job, make_job

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
                f"--base-rev: {path} is not in the repository {self.root}, so it has no revisions"
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


def _looking_in(job: Job, folders: Sequence[Path]) -> Job:
    """Return the same job, with folders where Python looks first."""
    path = os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])
    request = job.request
    variant = replace(request.variant, env={**request.variant.env, "PYTHONPATH": path})
    return _changed(job, replace(request, variant=variant))


def _running_in(job: Job, folder: Path) -> Job:
    """Return the same job, with another working folder."""
    return _changed(job, replace(job.request, folder=str(folder)))


def _changed(job: Job, request: CompileRequest) -> Job:
    return make_job(request, job.interpreter)


@contextmanager
def _checked_out(name: str, folder: Path) -> Iterator[Revision]:
    """Yield a worktree of a revision of the repository around ``folder``, which is removed at the
    end whatever happens.

    Raises PerfcliError where there is no repository or no such revision, or git fails.
    """
    root = Path(_git(folder, "rev-parse", "--show-toplevel", what=f"{folder} is in no repository"))
    commit = _git(
        root,
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"),
        what=f"{root} has no revision {name!r} (a shallow clone? fetch it first)",
    )
    for left, repository in left_scratch(_KIND):
        _remove(Path(repository), left / Path(repository).name)
        shutil.rmtree(left, ignore_errors=True)
    above = make_scratch(_KIND, str(root))
    place = above / root.name
    try:
        _git(
            root,
            *("-c", f"core.hooksPath={os.devnull}"),  # no hook of the user's runs for this
            *("worktree", "add", "--detach", "--quiet", str(place), commit),
            what=f"can't check out {name}",
        )
        yield Revision(name, commit, root.resolve(), place)
    finally:
        _remove(root, place)
        shutil.rmtree(above, ignore_errors=True)


def _git(folder: Path, *arguments: str, what: str) -> str:
    try:
        done = _run(folder, arguments)
    except OSError as error:
        raise PerfcliError(f"--base-rev needs git: {error.strerror or error}") from error
    if done.returncode != 0:
        said = (done.stderr or "").strip().splitlines()
        raise PerfcliError(f"--base-rev: {what}{f' ({said[-1]})' if said else ''}")
    return done.stdout.strip()


def _run(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=clean,
        check=False,
    )


def _remove(root: Path, place: Path) -> None:
    """Remove the worktree without leaving a note of it in the user's repository, or losing one of
    another worktree: ``git worktree prune`` would forget those whose disk is not mounted now."""
    remove = ("worktree", "remove", "--force", "--force", str(place))
    if _run(root, remove).returncode != 0:  # broken: git forgets one whose folder is gone
        shutil.rmtree(place, ignore_errors=True)
        _run(root, remove)
