"""Is the loss over a vocabulary taken without writing its probabilities?

Rows of logits are as long as a vocabulary; the loss needs their maximum, sum of exponentials and
one element. The full size has GPT-2's odd 50257 columns: rows do not start at multiples of
16 bytes, so that loads are not vectorised (compare ``-p columns=50304``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.model import Expectation, Scenario, ScenarioProblem, Workload

from ._rows import PRESETS, TOLERANCE, matrix, parameters, row_problems


def build(params: Mapping[str, Any]) -> Workload:
    import torch
    import torch.nn.functional as F

    def cross_entropy(logits: Any, labels: Any) -> Any:
        return F.cross_entropy(logits, labels)

    labels = torch.randint(0, params["columns"], (params["rows"],))
    return Workload(
        cross_entropy, (matrix(params), labels), mode=params["mode"], reference=reference
    )


def reference(logits: Any, labels: Any) -> Any:
    chosen = logits.gather(-1, labels[:, None]).squeeze(-1)
    return (logits.logsumexp(-1) - chosen).mean()


def handwritten(params: Mapping[str, Any]) -> tuple[ScenarioProblem, ...]:
    return row_problems(params, "softmax", "cross-entropy", left_out="the mean of the losses")


SCENARIO = Scenario(
    name="cross-entropy",
    question="Are the logits read once per reduction, and in wide loads?",
    parameters=parameters(rows=32768, columns=50257),
    presets=PRESETS,
    build=build,
    toggles=("online_softmax", "split_reductions", "triton.multi_kernel=1"),
    expects=(
        Expectation(("PC204",)),
        Expectation(("PC204",), params={"mode": "training"}),
        Expectation((), params={"columns": 50304}),
        Expectation((), preset="smoke"),
    ),
    tolerance=TOLERANCE,
    origin="https://github.com/pytorch/pytorch/issues/148402",
    handwritten=handwritten,
)
