"""Reads Triton's cache: kernels as they were compiled, each in a folder with its binary, its
intermediate forms and the launch configuration. Facts come from the binary; nothing is compiled.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import msgspec

from perfcli import units
from perfcli.blobs import blob_id, pack
from perfcli.compile.binaries.candidate import name_texts, nvidia_candidate
from perfcli.compile.capture.definition import strip_name
from perfcli.errors import PerfcliError
from perfcli.facts.binary.cubin import BinaryFacts, read_cubins
from perfcli.importing.sources.leftovers import (
    CachedBinary,
    Leftovers,
    list_files,
    read_bytes,
    read_text,
)
from perfcli.model import Candidate, KernelFacts, Target

MOST_BINARIES = 5000
_MOST_METADATA = 1 << 20
_ELF = b"\x7fELF"
_PLACE = re.compile(r'^#loc = loc\("([^"\n]{1,4000})":', re.MULTILINE)
_FOREIGN = re.compile(r'"[^"\n]*/([^"/\n]+\.py)"')


def find_cubins(folder: Path) -> Iterator[Path]:
    """Yield the binaries of a folder that have Triton's description beside them."""
    for path in list_files(folder):
        if path.suffix == ".cubin" and path.with_suffix(".json").is_file():
            yield path


def read_triton_cache(folder: Path) -> Leftovers:
    """Return all kernels of a Triton cache."""
    found: list[CachedBinary] = []
    unread = 0
    for path in find_cubins(folder):
        if len(found) >= MOST_BINARIES:
            break
        binary = _read(path, path.relative_to(folder).as_posix())
        unread += binary is None
        found += [binary] if binary is not None else []
    notes = ["nothing tells what a step launches: each kernel is counted as launched once"]
    if unread:
        notes.append(f"{units.plural(unread, 'binary', 'binaries')} can't be read")
    if len(found) >= MOST_BINARIES:
        notes.append(f"only the first {units.count(MOST_BINARIES)} binaries were read")
    versions = {str(each.metadata.get("triton_version") or "") for each in found} - {""}
    return Leftovers(
        binaries=tuple(found), triton=", ".join(sorted(versions))[:80], notes=tuple(notes)
    )


def _read(path: Path, place: str) -> CachedBinary | None:
    cubin = read_bytes(path)
    described = read_bytes(path.with_suffix(".json"), _MOST_METADATA)
    if cubin is None or described is None or not cubin.startswith(_ELF):
        return None
    try:
        metadata = msgspec.json.decode(described)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(metadata, dict) or _capability(metadata) is None:
        return None
    texts = [read_text(path.with_suffix(end)) or "" for end in (".ptx", ".ttgir", ".ttir")]
    name = metadata.get("name")
    return CachedBinary(
        name if isinstance(name, str) and name else path.stem, place, metadata, cubin, *texts
    )


def _capability(metadata: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the compute capability that a kernel was compiled for; None for other devices."""
    target = metadata.get("target")
    arch = target.get("arch") if isinstance(target, dict) else None
    numbers = (metadata.get("num_warps"), metadata.get("shared"), arch)
    if not all(type(each) is int and 0 <= each < 1 << 20 for each in numbers):
        return None
    return divmod(int(str(arch)), 10)


def list_devices(binaries: Sequence[CachedBinary]) -> list[dict[str, Any]]:
    """Return the device of each binary as kernels name theirs."""
    found = [_capability(each.metadata) for each in binaries]
    return [{"type": "cuda", "cc": 10 * c[0] + c[1]} for c in found if c is not None]


@dataclass(frozen=True, slots=True)
class _Metadata:
    shared: int


@dataclass(frozen=True, slots=True)
class _Compiled:
    """Looks like Triton's compiled kernel, as far as facts are taken from one."""

    metadata: _Metadata
    asm: Mapping[str, str]


def describe_binaries(
    binaries: Sequence[CachedBinary], graph: str, target: Target, tools: Path
) -> tuple[list[KernelFacts], dict[str, str], list[str]]:
    """Return the kernels of a cache, the texts that they name, and what is to be said. Several
    launch configurations of one source are one kernel."""
    blobs: dict[str, str] = {}
    notes: list[str] = []
    fitting = [each for each in binaries if _capability(each.metadata) == target.capability]
    if others := len(binaries) - len(fitting):
        notes.append(
            f"{units.plural(others, 'binary', 'binaries')} for another GPU than {target.name} "
            "left out"
        )
    groups: dict[tuple[str, str], list[CachedBinary]] = {}
    for each in fitting:
        place = _PLACE.search(each.ttir or each.ttgir)
        groups.setdefault((each.name, place[1] if place else each.place), []).append(each)
    found: list[KernelFacts] = []
    for (name, file), group in groups.items():
        candidates = list(_candidates(group, PurePath(file).name, target, tools, blobs, notes))
        text = _strip_folders(group[0].ttir or group[0].ttgir or group[0].ptx)
        blobs[blob_id(text)] = pack(text)
        found.append(
            KernelFacts(
                name=name,
                kind="other",
                language="triton",
                graph=graph,
                launches=1,
                origins=(),
                source=blob_id(text),
                source_hash=hashlib.sha256(strip_name(text, name).encode()).hexdigest(),
                source_facts=None,
                candidates=tuple(candidates),
                notes=("from Triton's cache, which has no source: its text is Triton's own form",),
            )
        )
    return found, blobs, notes


def _candidates(
    group: Sequence[CachedBinary],
    file: str,
    target: Target,
    tools: Path,
    blobs: dict[str, str],
    notes: list[str],
) -> Iterator[Candidate]:
    for each, facts in zip(group, _facts(group, file, tools, notes), strict=True):
        if facts is None:
            continue
        warps, stages = (each.metadata.get(key) for key in ("num_warps", "num_stages"))
        shared = each.metadata["shared"]
        assert isinstance(warps, int)
        assert isinstance(shared, int)
        compiled = _Compiled(_Metadata(shared), {"ptx": each.ptx})
        number = stages if isinstance(stages, int) else 0
        candidate = nvidia_candidate(compiled, facts, target, {}, warps, number)
        texts = {"ttgir": _strip_folders(each.ttgir), "ptx": _strip_folders(each.ptx)}
        texts["sass"] = facts.sass
        yield name_texts(replace(candidate, lines=dict(facts.lines)), texts, blobs)


def _facts(
    group: Sequence[CachedBinary], file: str, tools: Path, notes: list[str]
) -> list[BinaryFacts | None]:
    """Return what stands in each binary; where one of them can't be read, the others alone."""
    binaries = [(each.cubin, file, each.ptx or None) for each in group]
    try:
        return list(read_cubins(binaries, tools))
    except PerfcliError as error:
        if len(group) == 1:
            notes.append(f"{group[0].place}: {error}")
            return [None]
    return [facts for each in group for facts in _facts([each], file, tools, notes)]


def _strip_folders(text: str) -> str:
    """Return a text without the folders of the machine that wrote it."""
    return _FOREIGN.sub(r'"\1"', text)
