"""Where CI installs perfcli from: what the user names, else what this installation tells of itself.

No package index has perfcli. pip writes down where a package came from (PEP 610): a git URL, a
wheel, or a checkout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from perfcli.errors import PerfcliError
from perfcli.workflow.revision import run_git

_REMOTE = ("git+https://", "git+ssh://", "https://")
_PACKED = (".whl", ".tar.gz")
_PLAIN = re.compile(r"[\w.+:/@%~=#&?,-]+", re.ASCII)
_WAYS = (
    "name a git URL (--install git+https://HOST/OWNER/perfcli@TAG), a wheel that the repository "
    "holds (--install ./perfcli-0.1.0-py3-none-any.whl), or its own checkout of perfcli "
    "(--install .)"
)


def choose_source(given: str | None, root: Path) -> str:
    """Return what CI gives to pip, with paths relative to the repository's root. Raises
    PerfcliError where CI could not install it, or nobody knows where it is."""
    if given is not None:
        return _check(given, root)
    found = _describe_installation(_read_direct_url(), root)
    if not found:
        raise PerfcliError(f"perfcli is on no package index; say where CI gets it: {_WAYS}")
    return found


def _write_requirement(source: str, extra: str = "") -> str:
    """Return the requirement as pip takes it: ``perfcli[nvml] @ git+https://…``, ``.[nvml]``."""
    extras = f"[{extra}]" if extra else ""
    return f"perfcli{extras} @ {source}" if source.startswith(_REMOTE) else f"{source}{extras}"


def _check(given: str, root: Path) -> str:
    if not _PLAIN.fullmatch(given):
        raise PerfcliError(
            f"--install {given!r} has characters that a shell or YAML reads: {_WAYS}"
        )
    if given.startswith(_REMOTE):
        return given
    path = root / given
    if not path.exists():
        raise PerfcliError(f"--install {given}: no such file here, and no index has it: {_WAYS}")
    inside = _find_inside(path, root)
    if inside is None:
        raise PerfcliError(f"--install {given}: CI has no files from outside of the repository")
    if not (path.name.endswith(_PACKED) or (path / "pyproject.toml").is_file()):
        raise PerfcliError(f"--install {given}: neither a wheel nor a folder with pyproject.toml")
    return inside


def _find_inside(path: Path, root: Path) -> str | None:
    """Return ``.`` or ``./dist/x.whl``; None for what the repository does not hold."""
    path, root = path.resolve(), root.resolve()
    if not path.is_relative_to(root):
        return None
    place = path.relative_to(root).as_posix()
    return "." if place == "." else f"./{place}"


# --- what the installation tells ---------------------------------------------------------------


def _read_direct_url() -> Mapping[str, Any]:
    """Return what pip wrote down; empty where it came from an index or pip did not say."""
    try:
        text = metadata.distribution("perfcli").read_text("direct_url.json")
        document = json.loads(text or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _describe_installation(document: Mapping[str, Any], root: Path) -> str:
    """Return what to install in CI; empty where CI could not get it."""
    url = str(document.get("url", ""))
    below = f"#subdirectory={document['subdirectory']}" if document.get("subdirectory") else ""
    if "vcs_info" in document:
        commit = document["vcs_info"].get("commit_id", "")
        source = f"git+{url}@{commit}{below}"
        return source if source.startswith(_REMOTE) and commit else ""
    if url.startswith("https://"):
        return url
    if not url.startswith("file://"):
        return ""
    path = Path(unquote(urlsplit(url).path))
    inside = _find_inside(path, root)
    if inside is not None:
        return inside if _PLAIN.fullmatch(inside) else ""
    return _describe_checkout(path) if "dir_info" in document else ""


def _describe_checkout(folder: Path) -> str:
    """Return the commit of a checkout where its remote has it, too, and anybody may read that."""
    url, commit = (
        _ask_git(folder, "remote", "get-url", "origin"),
        _ask_git(folder, "rev-parse", "HEAD"),
    )
    if not url.startswith("https://") or "@" in url or not _PLAIN.fullmatch(url) or not commit:
        return ""
    pushed = _ask_git(folder, "branch", "--remotes", "--contains", commit)
    return f"git+{url}@{commit}" if pushed else ""


def _ask_git(folder: Path, *arguments: str) -> str:
    try:
        done = run_git(folder, arguments)
    except OSError:
        return ""
    return str(done.stdout).strip() if done.returncode == 0 else ""
