"""Packs the files of the user's project, so that a model compiles where they do not lie: an archive
that is named by its content, and what is moved to its place and back."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.loading.references import parse_reference
from perfcli.model import CompileRequest

MOST_BYTES = 256 << 20
"""Of all files of a project: it travels to each machine of a cluster."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Parcel:
    """Holds the files below ``root``; ``sha`` names them."""

    root: Path
    sha: str
    archive: bytes

    @property
    def place(self) -> Path:
        """Return what stands for the folder in which it is unpacked."""
        return _name(self.sha)


def find_root(path: Path) -> Path:
    """Return the folder whose files go with a model: the repository around it, else the current
    folder if it lies in that, else its own."""
    folder = path.resolve().parent
    for each in (folder, *folder.parents):
        if (each / ".git").exists():
            return each
    here = Path.cwd().resolve()
    return here if folder.is_relative_to(here) else folder


def pack(root: Path) -> Parcel:
    """Return the files below a folder: in a repository those that git does not ignore. Raises
    PerfcliError for more than ``MOST_BYTES``."""
    held = io.BytesIO()
    total = 0
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(_list_files(root)):
            total += path.stat().st_size
            if total > MOST_BYTES:
                raise PerfcliError(
                    f"{root} holds more than {units.size(MOST_BYTES)}, too much to send to each "
                    "machine of a cluster: add data and weights to .gitignore"
                )
            # Neither times nor owners: the same files give the same bytes.
            entry = zipfile.ZipInfo(str(path.relative_to(root)), _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    content = held.getvalue()
    return Parcel(root, hashlib.sha256(content).hexdigest(), content)


def _list_files(root: Path) -> Iterator[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = None
    if (root / ".git").exists():
        with suppress(OSError):
            found = subprocess.run(command, cwd=root, capture_output=True, check=False)
    if found is not None and found.returncode == 0:
        for name in filter(None, found.stdout.split(b"\0")):
            path = root / os.fsdecode(name)
            if path.is_file():
                yield path
        return
    for above, folders, names in os.walk(root):
        folder = Path(above)
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name != "__pycache__"
            and not (folder / name / "pyvenv.cfg").exists()
        ]
        yield from (p for name in names if (p := folder / name).is_file() and name[0] != ".")


def unpack(sha: str, archive: bytes, cache: Path) -> Path:
    """Return the folder that holds the files; they are unpacked there once."""
    place = cache / "parcels" / sha
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=place.parent))
        try:
            with zipfile.ZipFile(io.BytesIO(archive)) as held:
                held.extractall(made)
            with suppress(OSError):  # somebody else was first
                made.rename(place)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return place.resolve()


def address(request: CompileRequest, parcel: Parcel) -> CompileRequest:
    """Return the request with the name of the parcel in place of the folder that it was packed
    from: only who unpacks it knows where it lies."""
    reference = parse_reference(request.scenario)
    folder = Path(request.folder or Path.cwd()).resolve()
    inside = folder.is_relative_to(parcel.root)
    place = parcel.place
    path, script = "", request.script
    if reference.path:
        path = str(place / Path(reference.path).resolve().relative_to(parcel.root))
    if script is not None and path:
        script = replace(script, path=path)
    return replace(
        request,
        scenario=reference.move(path).text if path else request.scenario,
        script=script,
        folder=str(place / folder.relative_to(parcel.root) if inside else place),
    )


def settle(request: CompileRequest, sha: str, place: Path) -> CompileRequest:
    """Return an addressed request for the files as they lie here."""
    script, name = request.script, str(_name(sha))
    if script is not None:
        script = replace(script, path=script.path.replace(name, str(place)))
    return replace(
        request,
        scenario=request.scenario.replace(name, str(place)),
        script=script,
        folder=request.folder.replace(name, str(place)),
    )


def _name(sha: str) -> Path:
    return Path(f"/perfcli-parcel-{sha}")
