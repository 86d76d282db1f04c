"""Compiles the sources of kernels for a target, in a worker with a torch of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from perfcli import units
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.binaries.pool import KernelResult, read_source
from perfcli.compile.capture.definition import Definition
from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.importing.sources.admission import refuse
from perfcli.importing.sources.declared import read_declared
from perfcli.importing.sources.device import is_nvidia
from perfcli.model import Candidate, KernelsRequest, KernelText, SourceFacts

_PLACE = re.compile(r" \((?:/[^()]*)+\)")
"""A path of this machine, as Python adds it to its errors."""


class Compiler(Protocol):
    def built(self, request: KernelsRequest) -> Iterator[tuple[int, Compiled]]:
        """Yield each text's number and what it became, as they come. Raises PerfcliError where a
        worker fails as a whole."""
        ...


@dataclass(slots=True)
class KernelResults:
    """Answers what became of a kernel, as ``KernelPool.result`` does."""

    counted: Mapping[str, SourceFacts | None]
    unread: Mapping[str, str]
    compiled: dict[str, Compiled]

    def result(self, definition: Definition) -> KernelResult:
        source = definition.source
        made = self.compiled.get(source, Compiled((), {}))
        return KernelResult(self.counted.get(source), made, self.unread.get(source, ""))


def read_sources_of(
    definitions: Iterable[Definition],
) -> tuple[dict[str, SourceFacts | None], dict[str, str]]:
    """Return what stands in each text, and why where it can't be read."""
    counted: dict[str, SourceFacts | None] = {}
    unread: dict[str, str] = {}
    for each in definitions:
        if each.source in counted:
            continue
        try:
            counted[each.source], unread[each.source] = read_source(each)
        except (ValueError, RecursionError, MemoryError, LookupError, TypeError) as error:
            counted[each.source] = None
            unread[each.source] = f"its source could not be read: {type(error).__name__}"
    return counted, unread


def compile_sources(
    definitions: Sequence[Definition], request: KernelsRequest, compiler: Compiler, notes: Notes
) -> dict[str, Compiled]:
    """Return what becomes of each text that may be compiled; of all others, why they may not. What
    a worker did not come to is left out."""
    found: dict[str, Compiled] = {}
    texts: dict[str, KernelText] = {}
    for each in definitions:
        if each.language != "triton" or each.source in found:
            continue
        why = refuse(each.source, each.name)
        device = read_declared(each).device
        if not why and not is_nvidia(device):
            why = f"it was generated for a device of another kind ({device.get('type')!s:.20})"
        if why:
            found[each.source] = _failed(f"not compiled: {why}")
        else:
            texts[each.source] = KernelText(each.name, each.language, each.source, each.kind)
    if not texts:
        return found
    notes.say(f"compiling {units.plural(len(texts), 'kernel')} for {request.target.name}")
    asked = replace(request, kernels=tuple(texts.values()))
    sources = list(texts)
    try:
        for number, made in compiler.built(asked):
            found[sources[number]] = _failed(made.error) if made.error else made
    except PerfcliError as error:
        left = [source for source in sources if source not in found]
        notes.warn(f"{units.plural(len(left), 'kernel')} could not be compiled: {error}")
        found |= {source: _failed(f"not compiled: {error}") for source in left}
    return found


def _failed(error: str) -> Compiled:
    """Return a kernel of which only the source is known, and why."""
    text = _PLACE.sub("", _summarize(error))
    return Compiled((Candidate(config={}, num_warps=0, num_stages=0, error=text[:300]),), {})


def _summarize(error: str) -> str:
    """Return an error in one line: its first, which says what failed, and its last, which says why.
    Triton shows the kernel's lines and a caret between them, and the assembler's command below."""
    lines = [line.strip() for line in error.splitlines() if line.strip(" \t^")]
    told = [line for line in lines if not line.startswith("Repro command:")]
    if len(told) < 2:
        return told[0] if told else "it did not compile"
    return f"{told[0].removesuffix(':')}: {told[-1]}"
