"""What hand-written kernels are asked to compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfcli.model.values import Scalar


@dataclass(frozen=True, slots=True)
class Problem:
    """What a family is asked to compute: ``operation`` over ``rows`` × ``columns`` elements."""

    operation: str
    rows: int
    columns: int
    dtype: str = "bfloat16"
    row_stride: int | None = None
    """Elements from one row to the next; None: as many as columns."""
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    """What only this family knows: a residual, how many inputs, how many reads."""

    @property
    def stride(self) -> int:
        return self.columns if self.row_stride is None else self.row_stride

    @property
    def elements(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True, slots=True)
class ScenarioProblem:
    """A problem whose answer is what one direction of a scenario computes."""

    family: str
    problem: Problem
    backward: bool = False
    left_out: str = ""
    """What the scenario computes besides, ``the mean of the losses``; empty: nothing."""
