"""Files of CI services, from the templates in ``data/ci``."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfcli.ci.source import _write_requirement
from perfcli.errors import PerfcliError
from perfcli.machine import environment
from perfcli.options.files import quote

TEMPLATES = Path(__file__).resolve().parent.parent / "data" / "ci"
WITHOUT_TORCH = ("2.13.0", "3.7.1")
"""torch and triton to write where none is installed."""

GITHUB = Path(".github/workflows/perfcli.yml")
GITLAB = Path(".gitlab/perfcli.yml")
GITLAB_MAIN = Path(".gitlab-ci.yml")
PRE_COMMIT = Path(".pre-commit-config.yaml")
INCLUDE = "include:\n  - local: .gitlab/perfcli.yml\n"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Says what was done to a file, in a line, and what is left to do, empty where nothing is."""

    line: str
    next: str = ""
    written: Path | None = None


def check_root(folder: Path) -> None:
    """Raise PerfcliError below a repository's root: CI services read their files there alone."""
    above = next((each for each in folder.parents if (each / ".git").exists()), None)
    if above is not None and not (folder / ".git").exists():
        raise PerfcliError(f"CI files belong into the repository's root: cd {above} first")


def guess_service(root: Path) -> str:
    """Return the service that the repository seems to use."""
    is_gitlab = (root / GITLAB_MAIN).exists() and not (root / ".github").exists()
    return "gitlab" if is_gitlab else "github"


def installs(root: Path, service: str, force: bool) -> bool:
    """Tell whether a file is to be written that installs perfcli; a hook runs what is there."""
    place = {"github": GITHUB, "gitlab": GITLAB}.get(service)
    return place is not None and (force or not os.path.lexists(root / place))


def fill_in(root: Path, source: str) -> dict[str, str]:
    """Return what the templates leave open: versions of this environment, where perfcli comes from,
    and the main branch."""
    try:
        found = environment.probe(needs_triton=False)
        torch, triton = found.torch.partition("+")[0], found.triton or WITHOUT_TORCH[1]
    except PerfcliError:
        torch, triton = WITHOUT_TORCH
    return {
        "@TORCH@": torch,
        "@TRITON@": triton,
        "@PERFCLI@": _write_requirement(source),
        "@PERFCLI_GPU@": _write_requirement(source, "nvml"),
        "@PYTHON@": f"{sys.version_info.major}.{sys.version_info.minor}",
        "@BRANCH@": _find_main_branch(root),
    }


def _find_main_branch(root: Path) -> str:
    """Return the main branch as the remote calls it, else ``main``; it is never more than a plain
    name."""
    head = root / ".git" / "refs" / "remotes" / "origin" / "HEAD"
    try:
        name = head.read_text(encoding="utf-8").strip().rpartition("refs/remotes/origin/")[2]
    except (OSError, UnicodeDecodeError):
        return "main"
    plain = name and all(c.isalnum() or c in "-_./" for c in name)
    return name if plain else "main"


def write_service(
    root: Path, service: str, values: Mapping[str, str], force: bool
) -> Iterator[WrittenFile]:
    if service == "github":
        yield put(root, GITHUB, fill("github.yml", values), force)
    elif service == "gitlab":
        yield put(root, GITLAB, fill("gitlab.yml", values), force)
        yield _include(root)
    else:
        yield _write_hook(root, fill("pre-commit.yml", values))


def _include(root: Path) -> WrittenFile:
    """Include the job in .gitlab-ci.yml, because GitLab reads one file: made where there is none,
    never edited."""
    path = root / GITLAB_MAIN
    if not path.exists():
        return put(root, GITLAB_MAIN, INCLUDE, force=False)
    if str(GITLAB) in path.read_text(encoding="utf-8", errors="replace"):
        return WrittenFile(f"kept   {GITLAB_MAIN}, which includes it")
    return WrittenFile(
        f"kept   {GITLAB_MAIN}", f"add to {GITLAB_MAIN}:  include: [{{ local: {GITLAB} }}]"
    )


def _write_hook(root: Path, text: str) -> WrittenFile:
    install = "pre-commit install --hook-type pre-push"
    path = root / PRE_COMMIT
    if not path.exists():
        return replace(put(root, PRE_COMMIT, text, force=False), next=install)
    if "perfcli-gate" in path.read_text(encoding="utf-8", errors="replace"):
        return WrittenFile(f"kept   {PRE_COMMIT}, which has the hook", install)
    hook = text.partition("repos:\n")[2].rstrip().replace("\n", "\n  ")
    return WrittenFile(
        f"kept   {PRE_COMMIT}", f"add to the repos of {PRE_COMMIT}:\n  {hook}\n  then {install}"
    )


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template of ``data/ci`` with these values in it."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def check_inside(root: Path, place: Path) -> None:
    """Raise PerfcliError for a file that is a link, or behind one that leads out of the repository:
    a checkout of someone else's must not have files elsewhere written."""
    path = root / place
    if path.is_symlink():
        raise PerfcliError(f"can't write {place}: it is a link, a file is expected")
    if not path.resolve().is_relative_to(root.resolve()):
        raise PerfcliError(f"can't write {place}: a link leads out of the repository")


def put(root: Path, place: Path, text: str, force: bool) -> WrittenFile:
    """Write a file that is not there, or that may be overwritten."""
    path = root / place
    there = os.path.lexists(path)
    if not there or force:
        check_inside(root, place)
    if there and not force:
        same = path.is_file() and path.read_text(encoding="utf-8", errors="replace") == text
        return WrittenFile(f"kept   {place}{' (the same)' if same else ''}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PerfcliError(f"can't write {place}: {error.strerror or error}") from error
    return WrittenFile(f"wrote  {place}{' (again)' if there else ''}", written=place)


PLACE = Path("perfcli-gpu.toml")
_KEPT = ("name", "scenario", "preset")


def write_gpu_configuration(root: Path, configuration: Path) -> WrittenFile:
    """Write it beside the configuration, which is there. Raises PerfcliError where that can't be
    read."""
    try:
        document = tomllib.loads((root / configuration).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PerfcliError(f"can't read {configuration}: {error}") from error
    table = document.get("tool", {}).get("perfcli", document)
    checks = table.get("checks")
    found = [c for c in checks if isinstance(c, dict)] if isinstance(checks, list) else []
    if not found:
        return WrittenFile(f"no     {PLACE}: {configuration} has no checks")
    text = "\n".join("\n".join(["[[checks]]", *_list_lines(check), ""]) for check in found)
    return put(root, PLACE, fill("gpu.toml", {"@CHECKS@\n": text}), force=False)


def _list_lines(check: dict[str, Any]) -> Iterator[str]:
    for name in _KEPT:
        if isinstance(check.get(name), str):
            yield f"{name} = {quote(check[name])}"
    if check.get("dynamic") is True:
        yield "dynamic = true"
    for name in ("params", "options"):
        table = check.get(name)
        if isinstance(table, dict) and table:
            yield f"{name} = {_write_value(table)}"


def _write_value(value: object) -> str:
    """Return the value as TOML writes it, in a line. Raises PerfcliError for what no check has:
    dates."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{quote(k)} = {_write_value(v)}' for k, v in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_write_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return quote(value)
    raise PerfcliError(
        f"can't write {PLACE}: a check has {value}, where a text, a number or a truth value is "
        "expected"
    )
