"""The sources of kernels as the page's data: each text once, and what its lines became."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perfcli import units
from perfcli.model import BlobId, Candidate

from .._rows.places import strip_root

# What would end a script element or a line of it, in JSON's own escapes.
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class PageSource:
    """A kernel's source; ``chosen``: the launch configuration whose instructions stand beside
    it."""

    name: str
    side: str
    number: int
    language: str
    text: BlobId
    chosen: Candidate | None


@dataclass(slots=True)
class PageTexts:
    """Says what pages show, gathered while they are made."""

    known: Mapping[BlobId, str]
    root: str = ""
    """Files are named relative to it."""
    _texts: list[str] = field(default_factory=list)
    _numbers: dict[BlobId, int | None] = field(default_factory=dict)
    _kernels: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, known: Mapping[BlobId, str]) -> PageTexts:
        """Return the same, for kernels whose texts are these."""
        return PageTexts(known, self.root, self._texts, self._numbers, self._kernels)

    def add(self, key: str, source: PageSource) -> None:
        lines = source.chosen.lines if source.chosen else {}
        self._kernels[key] = {
            "name": units.printable(source.name),
            "side": source.side,
            "number": source.number,
            "language": source.language,
            "text": self._number(source.text),
            "lines": {
                number: [c.global_loads, c.global_stores, c.local_loads, c.local_stores]
                for number, c in lines.items()
            },
        }

    def _number(self, blob: BlobId) -> int | None:
        """Return where the text stands; None: the run did not keep it."""
        if blob not in self._numbers or self._numbers[blob] is None:
            self._numbers[blob] = self._add(self.known.get(blob))
        return self._numbers[blob]

    def _add(self, text: str | None) -> int | None:
        if text is None:
            return None
        self._texts.append(units.printable(strip_root(text, self.root)).expandtabs(4).rstrip("\n"))
        return len(self._texts) - 1

    def json(self) -> str:
        """Return JSON that is safe inside a script element."""
        document = {"texts": self._texts, "kernels": self._kernels}
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        return text.translate(_ESCAPES)


def _check_id(check: int) -> str:
    return f"check-{check}"


def _kernel_id(check: int, side: str, number: int) -> str:
    """Return ``kernel-0-head-12``, which links name."""
    return f"kernel-{check}-{side}-{number}"


def _page_id(check: int, group: int) -> str:
    return f"group-{check}-{group}"
