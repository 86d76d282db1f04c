"""``.perfcli/bisect/ID.json``: what a search knows, written after each test, read by --resume."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfcli.bisect.knowledge import Knowledge, _name_of
from perfcli.errors import NotComparable, PerfcliError
from perfcli.search.drive import Code
from perfcli.search.weighing import Reading
from perfcli.storing import store
from perfcli.storing.whole import write_whole
from perfcli.workflow.fingerprint import list_edited

FOLDER = store.FOLDER.parent / "bisect"
_UNNAMED = "of-"
"""How the ids of searches begin that the same command finds again by itself."""
KIND, FORMAT = "bisect-state", 2

MOST_DIFFERENCES = 3
"""Differences from another search that are named."""

Identity = Mapping[str, Any]
"""What everything known is about, as ``fingerprint.identify`` says it."""


class Record:
    """Holds one search's file. What can't be written is said once, and searched all the same."""

    def __init__(self, about: Identity, known: Knowledge, search_id: str = "") -> None:
        self.id = search_id or store.new_id(datetime.now(UTC))
        self.known = known
        self.failure = ""
        self._about = about

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.id}.json"

    def save(self) -> None:
        if self.failure:
            return
        try:
            # On one line: indented, Python's own encoder is slower than all else that a test does.
            write_whole(self.path, json.dumps(self._document()).encode())
            store.keep_out_of_commits(FOLDER.parent)
        except OSError as error:
            self.failure = f"can't write {self.path}: {error.strerror or error}"

    def _document(self) -> dict[str, Any]:
        known = self.known
        return {
            "perfcli": KIND,
            "format": FORMAT,
            "about": dict(self._about),
            "sources": known.sources,
            "tests": [
                {
                    "settings": json.loads(name),
                    "code": code.name,
                    "failure": code.failure,
                    "inferred": name in known.inferred,
                }
                for name, code in known.codes.items()
            ],
            "parts": known.parts,
            "values": known.values,
            "readings": {
                key: [[r.log_ratio, r.standard_error] for r in made]
                for key, made in known.readings.items()
            },
        }


def _resume(reference: str, about: Identity) -> Record:
    """Return the search with this id, or in this file. Raises PerfcliError where there is none, or
    the file is something else, NotComparable where it is of another identity, or a file that its
    variants imported was edited since."""
    path = Path(reference)
    if not path.is_file():
        path = FOLDER / f"{reference}.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise PerfcliError(f"no stored search {reference!r}: {_stored()}") from None
    except (ValueError, RecursionError):
        raise PerfcliError(f"{path} is not JSON") from None
    if not isinstance(document, dict) or document.get("perfcli") != KIND:
        raise PerfcliError(f"{path} is no search of bisect-config")
    if document.get("format") != FORMAT:
        raise PerfcliError(
            f"{path} has format {document.get('format')}, and this perfcli reads {FORMAT}: search "
            "anew"
        )
    try:
        known = _read_knowledge(document)
        _check_unedited(path, known.sources)
        _check_same(path, document["about"], json.loads(json.dumps(dict(about))))
        return Record(about, known, path.stem)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise PerfcliError(f"{path} is broken ({type(error).__name__}: {error})") from error


def find_or_begin(about: Identity) -> Record:
    """Return the record of all searches of this identity that nobody named, or a new one. One that
    can't be read, or is about sources that were edited since, is begun anew."""
    text = json.dumps(dict(about), sort_keys=True)
    name = f"{_UNNAMED}{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    try:
        return _resume(name, about)
    except PerfcliError:
        return Record(about, Knowledge(), name)


def _stored() -> str:
    names: list[str] = []
    with suppress(OSError):
        stems = (path.stem for path in FOLDER.glob("*.json"))
        names = sorted(stem for stem in stems if not stem.startswith(_UNNAMED))
    return f"there are {', '.join(names[-5:])}" if names else f"there are none in {FOLDER}"


def _check_same(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    before, now = _flat(theirs), _flat(ours)
    differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if differing:
        shown = ", ".join(
            f"{name.replace('_', ' ')} {_short(before.get(name))} there, {_short(now.get(name))} "
            "here"
            for name in differing[:MOST_DIFFERENCES]
        )
        if len(differing) > MOST_DIFFERENCES:
            shown += f" and {len(differing) - MOST_DIFFERENCES} more"
        raise NotComparable(f"{path} is another search ({shown}): search anew without --resume")


def _check_unedited(path: Path, sources: Mapping[str, str]) -> None:
    if edited := list_edited(sources):
        raise NotComparable(
            f"{edited[0]} was edited after the search {path}: search anew without --resume"
        )


def _flat(about: Identity) -> dict[str, Any]:
    """Return each parameter by itself: of two long lists nobody sees which one differs."""
    found = dict(about)
    for group, each in (("params", "parameter"), ("variables", "variable"), ("target", "target")):
        members = found.pop(group) or {}
        found |= {f"{each} {name}": value for name, value in members.items()}
    return found


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:12]}…"


def _read_knowledge(document: Mapping[str, Any]) -> Knowledge:
    return Knowledge(
        {
            _name_of(test["settings"]): Code(test["code"], test["failure"])
            for test in document["tests"]
        },
        {code: dict(parts) for code, parts in document["parts"].items()},
        {_name_of(test["settings"]) for test in document["tests"] if test["inferred"]},
        {code: dict(values) for code, values in document["values"].items()},
        {
            key: [Reading(float(log), float(error)) for log, error in made]
            for key, made in document["readings"].items()
        },
        dict(document["sources"]),
    )
