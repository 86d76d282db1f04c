"""Compiles another revision of the user's repository, in a folder of its own that vanishes."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.machine.scratch import left_scratch, make_scratch
from perfcli.model import CompileRequest
from perfcli.names import suggestion

COMMIT_DIGITS = 12
"""As many of a commit as name it in what is shown and stored."""
# A gate in a git hook is told of the hook's repository by these; all else is the user's settings.
_HOOKS = ("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "COMMON_DIR", "PREFIX")
_KIND = "revision-"
_LINK_MODE = "120000"
"""What git calls a symbolic link."""
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
        """Return where a file of the user's checkout is in that revision. Raises PerfcliError for
        one outside the repository."""
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
    end whatever happens. Raises PerfcliError where there is no repository or no such revision, or
    git fails."""
    root, commit = find_commit(name, folder)
    sweep_worktrees()
    above = make_scratch(_KIND, str(root))
    place = above / root.name
    try:
        ask_git(
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


def find_commit(name: str, folder: Path) -> tuple[Path, str]:
    """Return the top of the repository around ``folder``, and the commit of a revision."""
    root = Path(
        ask_git(folder, "rev-parse", "--show-toplevel", what=f"{folder} is in no repository")
    )
    found = run_git(
        root, ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    )
    if found.returncode != 0:
        raise PerfcliError(f"{root} has no revision {name!r}: {_advise(root, name)}")
    commit = str(found.stdout).strip()
    return root, commit


def _advise(root: Path, name: str) -> str:
    """Return what to do about a revision that a repository does not have."""
    _, colon, part = name.partition(":")
    if colon:
        return f"the name of a part of a file stands before the @, model.py:{part}@REVISION"
    shallow = run_git(root, ("rev-parse", "--is-shallow-repository")).stdout.strip() == "true"
    if shallow:
        return "it is a shallow clone, fetch the revision first (git fetch --unshallow)"
    listed = run_git(root, ("for-each-ref", "--format=%(refname:short)")).stdout.split()
    near = suggestion(name, listed)
    return near if near.startswith("did you") else "it is no branch, tag or commit of it"


def check_tracked(file: Path, name: str, root: Path, commit: str) -> None:
    """Raise PerfcliError where a revision has no such file. ``name`` is the revision as typed."""
    top = root.resolve()
    real = file.parent.resolve() / file.name
    if not real.is_relative_to(top):
        raise PerfcliError(f"{file} is not in the repository {root}")
    path = real.relative_to(top).as_posix()
    if run_git(root, ("cat-file", "-e", f"{commit}:{path}")).returncode == 0:
        return
    known = run_git(root, ("ls-files", "--error-unmatch", "--", path)).returncode == 0
    why = "it came later, or had another path then" if known else "git does not track it"
    told = f": {why}" if file.exists() else ", and none here now"
    raise PerfcliError(f"there is no {path} in revision {name}{told}")


def read_tracked(file: Path, name: str, folder: Path) -> bytes:
    """Return the text of a file in a revision of the repository around ``folder``; empty for a
    symbolic link, of which git has nothing but where it leads. Raises PerfcliError where there is
    no such file."""
    root, commit = find_commit(name, folder)
    check_tracked(file, name, root, commit)
    path = (file.parent.resolve() / file.name).relative_to(root.resolve()).as_posix()
    if run_git(root, ("ls-tree", commit, "--", path)).stdout.startswith(_LINK_MODE):
        return b""
    return bytes(run_git(root, ("cat-file", "blob", f"{commit}:{path}"), text=False).stdout)


def describe_commit(name: str, folder: Path) -> str:
    """Return what a revision of the repository around ``folder`` is: ``HEAD~1 is a1b2c3d4e5f6,
    2026-11-20, Fuse it``."""
    shown = ask_git(
        folder,
        *("show", "--no-patch", "--date=short", "--format=%h, %cd, %s"),
        *(f"--abbrev={COMMIT_DIGITS}", "--end-of-options", f"{name}^{{commit}}"),
        what=f"there is no revision {name!r}",
    )
    return f"{name} is {shown}"


def _fill_submodules(root: Path, commit: str, place: Path) -> None:
    """Put into a worktree the files of its submodules, which git leaves out, as the revision has
    them: of those that the user's own checkout has."""
    if not (place / ".gitmodules").is_file():
        return
    listed = ask_git(root, "ls-tree", "-r", "-z", commit, what="can't list its files")
    for entry in filter(None, listed.split("\0")):
        about, _, path = entry.partition("\t")
        mode, _, at = about.split(" ")
        own = root / path
        if mode != "160000" or not (own / ".git").exists():
            continue
        made = run_git(own, ("archive", "--format=tar", at), text=False)
        if made.returncode:
            raise PerfcliError(
                f"the submodule {path} has no commit {at[:COMMIT_DIGITS]} here: fetch it first "
                f"(git -C {path} fetch)"
            )
        with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
            archive.extractall(place / path, filter="data")
        _fill_submodules(own, at, place / path)


def ask_git(folder: Path, *arguments: str, what: str) -> str:
    """Return what git prints. Raises PerfcliError, which begins with ``what``, where it fails."""
    try:
        done = run_git(folder, arguments)
    except OSError as error:
        raise PerfcliError(f"revisions need git: {error.strerror or error}") from error
    if done.returncode != 0:
        said = (done.stderr or "").strip().splitlines()
        raise PerfcliError(f"{what}{f' ({said[-1]})' if said else ''}")
    return str(done.stdout).strip()


def run_git(
    folder: Path, arguments: Sequence[str], text: bool = True
) -> subprocess.CompletedProcess[Any]:
    """Run git in a folder, whatever repository a hook is about, and return what came of it."""
    clean = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=text,
        errors="replace" if text else None,  # names of authors in who knows which encoding
        stdin=subprocess.DEVNULL,
        env=clean,
        check=False,
        start_new_session=True,  # Ctrl-C ends the command, not the git that cleans up for it
    )


def _remove(root: Path, place: Path) -> None:
    """Remove the worktree without leaving a note of it in the user's repository, or losing one of
    another worktree: ``git worktree prune`` would forget those whose disk is not mounted now."""
    remove = ("worktree", "remove", "--force", "--force", str(place))
    if run_git(root, remove).returncode != 0:  # broken: git forgets one whose folder is gone
        shutil.rmtree(place, ignore_errors=True)
        run_git(root, remove)
