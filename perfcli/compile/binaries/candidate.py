"""Puts one compiled launch configuration together from Triton's metadata and the binary."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfcli.blobs import blob_id, pack
from perfcli.facts.binary.cubin import BinaryFacts
from perfcli.facts.binary.sass import local_array_bytes
from perfcli.facts.occupancy import occupancy
from perfcli.model import Candidate, LineCounts, Target

LINE_CHARACTERS = 160
"""The number of characters kept of a source line's text."""


def candidate_of(result: Any, fact: BinaryFacts, target: Target, source: str) -> Candidate:
    """Return a configuration that Inductor compiled (``CompileResult``), without its texts."""
    config = result.config
    launch = (_numbers(config), config.num_warps, config.num_stages)
    candidate = nvidia_candidate(result.kernel, fact, target, *launch)
    return replace(candidate, lines=_add_text(fact.lines, source))


def nvidia_candidate(
    kernel: Any,
    fact: BinaryFacts,
    target: Target,
    config: Mapping[str, int],
    num_warps: int,
    num_stages: int,
) -> Candidate:
    """Return what Triton's compiled ``kernel`` takes of the target, without texts and source
    lines."""
    shared = int(kernel.metadata.shared)
    resident = occupancy(target, fact.registers, shared, num_warps)
    return Candidate(
        config=config,
        num_warps=num_warps,
        num_stages=num_stages,
        registers=fact.registers,
        stack_bytes=fact.stack_bytes,
        local_array_bytes=local_array_bytes(kernel.asm["ptx"]),
        shared_bytes=shared,
        local_loads=fact.local_loads,
        local_stores=fact.local_stores,
        local_loads_in_loops=fact.local_loads_in_loops,
        local_stores_in_loops=fact.local_stores_in_loops,
        global_loads=dict(fact.global_loads),
        global_stores=dict(fact.global_stores),
        tma_loads=fact.tma_loads,
        tma_stores=fact.tma_stores,
        blocks_per_sm=resident.blocks_per_sm,
        occupancy=resident.fraction,
        occupancy_limit=resident.limit,
        binary_hash=fact.code_hash,
    )


def refused_candidate(config: Any, error: str) -> Candidate:
    lines = error.strip().splitlines()
    return Candidate(
        config=_numbers(config),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        error=(lines[0] if lines else "it did not compile")[:200],
    )


def _numbers(config: Any) -> dict[str, int]:
    return {k: int(v) for k, v in config.kwargs.items() if isinstance(v, int)}


def _add_text(lines: Mapping[str, LineCounts], source: str) -> dict[str, LineCounts]:
    """Add the text of the lines where registers are spilled or filled; all others are too many."""
    texts = source.splitlines()

    def text(number: int, counts: LineCounts) -> str:
        local = counts.local_loads or counts.local_stores
        known = 0 < number <= len(texts)
        return texts[number - 1].strip()[:LINE_CHARACTERS] if local and known else ""

    return {n: replace(counts, text=text(int(n), counts)) for n, counts in lines.items()}


def attach_texts(
    candidate: Candidate, asm: Any, sass: str, blobs: dict[str, str], folder: Path
) -> Candidate:
    """Return the candidate with the names of its texts, and pack the texts into ``blobs``."""
    texts = {
        "ttgir": _strip_folders(asm["ttgir"], folder),
        "ptx": _strip_folders(asm["ptx"], folder),
        "sass": sass,
    }
    return name_texts(candidate, texts, blobs)


def name_texts(candidate: Candidate, texts: Mapping[str, str], blobs: dict[str, str]) -> Candidate:
    """Return the candidate with the names of those texts that there are, and pack these into
    ``blobs``."""
    names = {kind: blob_id(text) for kind, text in texts.items() if text}
    blobs.update({names[kind]: pack(texts[kind]) for kind in names})
    ttgir, ptx, sass = (names.get(kind) for kind in ("ttgir", "ptx", "sass"))
    return replace(candidate, ttgir=ttgir, ptx=ptx, sass=sass)


def _strip_folders(text: str, folder: Path) -> str:
    """Return a text without the folders of this machine: the kernel's own, which changes with every
    run, and that of the installed packages."""
    import torch

    packages = Path(torch.__file__).parents[1]
    return text.replace(f"{folder}{os.sep}", "").replace(f"{packages}{os.sep}", "")
