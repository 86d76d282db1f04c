"""Inductor's kernels beside hand-written ones, for programs."""

from __future__ import annotations

from typing import Any

from perfcli.model import Beside, Comparison, Totals


def beside_document(comparison: Comparison, beside: Beside) -> dict[str, Any]:
    """``explained_by`` are codes; the findings themselves are the comparison's."""
    found = [comparison.findings[number].code for number in beside.explained]
    return {
        "kernels": list(beside.kernels),
        "why": list(beside.why),
        "inductor": _totals(beside.inductor),
        "hand_written": _totals(beside.ours),
        "explained_by": list(dict.fromkeys(found)),
        "left_out": list(beside.left_out),
        "times": [
            {
                "problem": race.problem,
                "inductor": race.inductor,
                "hand_written": race.ours,
                "copy": race.copy,
                "rounds": race.rounds,
            }
            for race in beside.raced
        ],
        "untimed": beside.untimed or None,
    }


def _totals(totals: Totals) -> dict[str, Any]:
    return {
        "launches": totals.launches,
        "bytes_moved": totals.bytes_moved,
        "bytes_swept": totals.bytes_swept,
        "passes": totals.passes,
        "wide_share": totals.wide_share,
        "registers": totals.registers,
        "spilled_words": totals.spilled_words,
        "shared_bytes": totals.shared_bytes,
        "occupancy": totals.occupancy,
    }
