"""Defines plain values, and the words that fields choose from."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

Scalar: TypeAlias = bool | int | float | str | None
OptionValue: TypeAlias = Scalar | list[Any] | dict[str, Any]
BlobId: TypeAlias = str
"""SHA-256 (hex) of a text kept beside the run: a source, an intermediate form, a listing."""

Mode = Literal["forward", "training", "step"]
"""What a step is: the call alone, the call and a backward from what it returns, or a call that runs
its own backward, or an optimizer, with gradients enabled."""
Device = Literal["cuda", "cpu"]
KernelKind = Literal[
    "pointwise",
    "reduction",
    "persistent-reduction",
    "mix-order-reduction",
    "template",
    "combo",
    "user",
    "cpp",
    "other",
]
Relation = Literal["same", "changed", "split", "fused", "regrouped", "new", "gone"]
Outcome = Literal["better", "worse", "same", "unknown"]
Severity = Literal["error", "warning", "info"]
