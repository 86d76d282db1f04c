"""Reads the log that torch writes with TORCH_TRACE, which is what tlparse reads as well.

Each event is a line: a prefix as glog writes it, then JSON. What belongs to it follows in lines
that begin with a tab, and has its MD5 in the event. Seen with torch 2.11 and 2.13.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import msgspec

from perfcli import units
from perfcli.compile.capture.settings import WATCHED, WATCHED_OF_DYNAMO
from perfcli.errors import PerfcliError
from perfcli.frames.table import joined
from perfcli.importing.sources.leftovers import MOST_BYTES, Leftovers, WrittenGraph, read_head
from perfcli.model import BreakPlace, OptionValue

_EVENT = re.compile(rb"^[VIWEC](\d{4} \d\d:\d\d:\d\d\.\d+) +\d+ [^\]]{1,300}\] (\{.*)$", re.DOTALL)
_MOST_LINE = 32 << 20
_HEADLINE = 200
_BREAK = re.compile(r"^Graph break in user code at (.+:\d+)", re.MULTILINE)
_REASON = re.compile(r"^(?:Graph Break )?Reason: *(.*)$", re.MULTILINE)
_ATTEMPT = "Encountered graph break when attempting to trace"
_EXPLANATION = re.compile(r"^\s*Explanation: (.*)$", re.MULTILINE)
_GPU = re.compile(r"^# GPU Hardware Info:[ \t]*\n# (.+?)\s*:\s*\d+", re.MULTILINE)
_VERSION = re.compile(r"^# torch version: (\S+)", re.MULTILINE)
_OUTPUT = "inductor_output_code"
_LISTING = "inductor_post_grad_graph"
_MAPPING = "inductor_provenance_tracking_node_mappings"
_BROKEN = "dynamo_graph_break_reason"
_RUNNABLE, _TORCH = "fx_graph_runnable", "torch_version"
_WANTED = (_OUTPUT, _LISTING, _MAPPING, _BROKEN, _RUNNABLE, _TORCH)


_CompileId: TypeAlias = "tuple[int | None, int | None, int | None]"
"""Numbers of the compiled autograd graph, the function and its compilation."""


@dataclass(slots=True)
class _Event:
    kind: str
    """The name of the event, or that of the artifact that it is."""
    data: Mapping[str, Any]
    lines: list[bytes] = field(default_factory=list)
    size: int = 0

    @property
    def compile_id(self) -> _CompileId:
        keys = ("compiled_autograd_id", "frame_id", "frame_compile_id")
        found = (self.data.get(key) for key in keys)
        first, second, third = (each if isinstance(each, int) else None for each in found)
        return first, second, third

    def payload(self) -> str | None:
        """Return what belongs to the event; None where it is not what was written."""
        data = b"".join(self.lines).removesuffix(b"\n")
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        return (
            data.decode("utf-8", errors="replace") if digest == self.data["has_payload"] else None
        )


@dataclass(slots=True)
class _Log:
    """Collects what one log says."""

    when: bytes = b""
    rank: int | None = None
    codes: list[tuple[_CompileId, WrittenGraph]] = field(default_factory=list)
    """Each graph with the id of its compilation."""
    listings: dict[_CompileId, str] = field(default_factory=dict)
    torch: str = ""
    triton: str = ""
    python: str = ""
    gpu: str = ""
    settings: dict[str, OptionValue] = field(default_factory=dict)
    breaks: dict[str, int] = field(default_factory=dict)
    places: dict[str, dict[BreakPlace, None]] = field(default_factory=dict)
    broken_lines: int = 0
    broken_codes: int = 0


def is_log(path: Path) -> bool:
    """Return whether a file begins as a structured log of torch does."""
    head = read_head(path)
    first, _, rest = head.partition(b"\n")
    return bool(_EVENT.match(first)) and (not rest or b"] {" in head)


def read_logs(paths: Sequence[Path], rank: int | None = None) -> Leftovers:
    """Return what the logs of a folder say: that of ``rank`` or the first where several processes
    trained together, else the latest one. Raises PerfcliError where there is no such rank."""
    logs = [(path, _read(path)) for path in paths]
    useful = [(path, log) for path, log in logs if log.codes] or logs[:1]
    ranks = sorted({log.rank for _, log in useful if log.rank is not None})
    notes: list[str] = []
    if rank is not None and ranks and rank not in ranks:
        raise PerfcliError(f"there is no log of rank {rank}: there are {joined(ranks)}")
    if len(ranks) > 1:
        shown = ranks[0] if rank is None else rank
        useful = [(path, log) for path, log in useful if log.rank == shown]
        notes.append(f"the logs are of ranks {joined(ranks)}: rank {shown} is shown")
    path, log = max(useful, key=lambda each: (each[1].when, each[0].name))
    if len(useful) > 1:
        notes.append(
            f"{len(useful)} logs of different processes: {path.name} is the latest; name another "
            "one to read it"
        )
    return _conclude(log, path, notes)


def _conclude(log: _Log, path: Path, notes: list[str]) -> Leftovers:
    latest: dict[int | None, int] = {}
    for (_, frame, number), _graph in log.codes:
        if number is not None:
            latest[frame] = max(latest.get(frame, 0), number)
    graphs = [
        graph
        for (_, frame, number), graph in log.codes
        if number is None or number == latest[frame]
    ]
    if dropped := len(log.codes) - len(graphs):
        notes.append(
            f"{units.plural(dropped, 'graph')} of functions that were compiled again left out: a "
            "step is counted with what was compiled last"
        )
    if not log.codes:
        notes.append(f"{path.name}: Inductor generated nothing in it")
    if log.broken_lines:
        notes.append(f"{path.name}: {units.plural(log.broken_lines, 'line')} can't be read")
    if log.broken_codes:
        notes.append(
            f"{path.name}: the code of {units.plural(log.broken_codes, 'graph')} is not as it was "
            "written (cut off or changed)"
        )
    return Leftovers(
        graphs=tuple({graph.text: graph for graph in graphs}.values()),
        torch=log.torch,
        triton=log.triton,
        python=log.python,
        gpu=log.gpu,
        settings=log.settings,
        graph_breaks=log.breaks,
        break_places={reason: tuple(places) for reason, places in log.places.items()},
        notes=tuple(notes),
    )


def _read(path: Path) -> _Log:
    log = _Log()
    with path.open("rb") as file:
        for event in _events(file, log):
            _take(event, log, path.name)
    return log


def _events(file: BinaryIO, log: _Log) -> Iterator[_Event]:
    """Yield the events of interest, with what belongs to them."""
    current: _Event | None = None
    while line := file.readline(_MOST_LINE):
        if line.startswith(b"\t"):
            if current is not None and current.size < MOST_BYTES:
                current.lines.append(line[1:])
                current.size += len(line)
            continue
        if current is not None:
            yield current
        current = _parse(line, log)
    if current is not None:
        yield current


def _parse(line: bytes, log: _Log) -> _Event | None:
    """Return the event of a line; None for one that nothing is taken from."""
    found = _EVENT.match(line)
    try:
        data = msgspec.json.decode(found[2]) if found else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        data = None
    if found is None or not isinstance(data, dict):
        log.broken_lines += bool(line.strip())
        return None
    log.when = log.when or found[1]
    if isinstance(data.get("rank"), int):
        log.rank = data["rank"]
    if "compilation_metrics" in data:
        _take_metrics(data["compilation_metrics"], log)
    artifact = data.get("artifact")
    kind = artifact.get("name") if isinstance(artifact, dict) else None
    kind = _OUTPUT if _OUTPUT in data else kind
    if not isinstance(kind, str) or kind not in _WANTED or "has_payload" not in data:
        return None
    return _Event(kind, data)


def _take(event: _Event, log: _Log, file: str) -> None:
    text = event.payload()
    if text is None:
        log.broken_codes += event.kind == _OUTPUT
        # What is left of a graph's code is read like a file that is cut off.
        text = b"".join(event.lines).decode("utf-8", errors="replace")
    if event.kind == _OUTPUT:
        _, frame, number = event.compile_id
        listing = log.listings.pop(event.compile_id, "")
        graph = WrittenGraph(text, f"{file}, graph of {frame}/{number}", listing=listing)
        log.codes.append((event.compile_id, graph))
    elif event.kind == _MAPPING and log.codes and log.codes[-1][0] == event.compile_id:
        log.codes[-1] = (event.compile_id, replace(log.codes[-1][1], mapping=text))
    elif event.kind == _LISTING:
        log.listings[event.compile_id] = text
    elif event.kind == _BROKEN:
        _take_break(text, log)
    elif event.kind == _RUNNABLE:
        version, gpu = read_versions(text)
        log.torch, log.gpu = log.torch or version, log.gpu or gpu
    elif found := re.search(r'"pytorch_version": "([^"]{1,80})"', text):
        log.torch = found[1]


def read_versions(runnable: str) -> tuple[str, str]:
    """Return the versions of torch and the name of the GPU in the head of a ``fx_graph_runnable``;
    empty where it has none."""
    head = runnable[: 1 << 16]
    version, gpu = _VERSION.search(head), _GPU.search(head)
    return (version[1][:80] if version else ""), (gpu[1][:80] if gpu else "")


def _take_break(text: str, log: _Log) -> None:
    found = _REASON.search(text)
    reason = found[1].strip() if found else text.strip().partition("\n")[0]
    if found and reason.startswith(_ATTEMPT):
        rest = (line.strip() for line in text[found.end() :].splitlines())
        reason = next((line for line in rest if line), reason)
    reason = reason[:_HEADLINE]
    log.breaks[reason] = log.breaks.get(reason, 0) + 1
    if place := _BREAK.search(text):
        explanation = _EXPLANATION.search(text)
        known = BreakPlace(place[1][:1000], "", (explanation[1] if explanation else "")[:_HEADLINE])
        log.places.setdefault(reason, {})[known] = None


def _take_metrics(metrics: Any, log: _Log) -> None:
    """Take the versions, and the options that rules speak of."""
    if not isinstance(metrics, dict):
        return
    log.torch = log.torch or str(metrics.get("pytorch_version") or "")[:80]
    log.triton = log.triton or str(metrics.get("triton_version") or "")[:80]
    log.python = log.python or str(metrics.get("python_version") or "").partition(" ")[0][:80]
    for prefix, field_name, names in (
        ("", "inductor_config", WATCHED),
        ("dynamo.", "dynamo_config", WATCHED_OF_DYNAMO),
    ):
        try:
            options = msgspec.json.decode(metrics.get(field_name) or "{}")
        except (msgspec.DecodeError, TypeError, RecursionError):
            continue
        if isinstance(options, dict):
            plain = (bool, int, float, str, type(None))
            log.settings |= {
                prefix + name: options[name]
                for name in names
                if name in options and isinstance(options[name], plain)
            }
