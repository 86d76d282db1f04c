"""Defines what a mode that times implementations of an operator (``max_autotune``) chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcli.model.estimate import TimeEstimate
from perfcli.model.kernel import Candidate
from perfcli.model.values import Scalar


@dataclass(frozen=True, slots=True)
class Implementation:
    """Describes one way to compute an operator, among those that Inductor times on a device."""

    name: str
    """Inductor's, without a number: ``triton_mm``, ``mm``, ``decompose_k_mm_8_split``."""
    kind: Literal["template", "operator", "graph"]
    """A kernel made of a template, a library operator, or a graph of several."""
    config: Mapping[str, Scalar] = field(default_factory=dict)
    """What a template is filled in with: ``BLOCK_M``, ``num_stages`` …"""
    candidate: Candidate | None = None
    """The template's kernel compiled; None for what is none, and where it did not compile."""
    estimate: TimeEstimate | None = None
    """How long it is estimated to take; None where nothing was estimated."""
    host_seconds: float = 0.0
    """What the host takes to call it: where Inductor times shorter ones, it measures that."""
    measured_seconds: float | None = None
    """What Inductor measured, on a device."""
    left_out: str = ""
    """Why it can't win: ``needs more shared memory than a block can have``."""

    @property
    def seconds(self) -> float | None:
        """Return its time as Inductor measured it, or else as it is expected to."""
        if self.measured_seconds is not None:
            return self.measured_seconds
        return max(self.estimate.seconds, self.host_seconds) if self.estimate else None


@dataclass(frozen=True, slots=True)
class SelectionUse:
    """Says what was chosen at one place, where other operations may be fused into the kernel."""

    graph: str
    chosen: int
    """Index into ``Selection.implementations``."""
    kernel: str = ""
    """The generated kernel that it became; empty for a library operator."""
    estimate: TimeEstimate | None = None
    """That of the kernel with what is fused into it; None where nothing is."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Holds the implementations of one operator on operands of certain shapes, and what was chosen
    wherever these occur."""

    operator: str
    """Inductor's name of the list: ``mm``, ``convolution``, ``flex_attention``."""
    operands: tuple[str, ...]
    """``bfloat16 [2048, 1024]`` each, with strides where they are not contiguous."""
    implementations: tuple[Implementation, ...]
    uses: tuple[SelectionUse, ...] = ()

    @property
    def within(self) -> int:
        """Return how many implementations may be the fastest as far as the estimate knows: their
        intervals begin below the end of the expected winner's."""
        known = [(e, each.host_seconds) for each in self.implementations if (e := each.estimate)]
        if not known:
            return 0
        best, host = min(
            known, key=lambda found: (max(found[0].seconds, found[1]), found[0].seconds)
        )
        end = max(best.high, host)
        return sum(max(each.low, host) <= end for each, host in known)
