from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="vllm-project/vllm#27699",
    kind="lost fusion",
    title="pointwise work around a collective operator is no longer one kernel",
    said="quantisation that was part of a neighbour's kernel is several; sequence parallelism, "
    "2025-10",
    rebuilt="pattern",
    seen="an operator that Inductor does not see into stands between two pointwise parts; the good "
    "twin does it after both",
    bad=Side("layer", params={"between": True}),
    good=Side("layer", params={"between": False}),
    codes=frozenset({"PC501"}),
    cause=(r"custom op", r"opaque", r"reported::"),
    cure=(r"move", r"native", r"order", r"after", r"before"),
)


def layer(rows: int = 16384, columns: int = 4096, between: bool = True) -> Any:
    import torch

    def gathered(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    operator = torch.library.custom_op(
        "reported::gather", gathered, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    operator.register_fake(torch.empty_like)
    gather = torch.ops.reported.gather

    def model(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.silu(x) * gate
        y = gather(y) if between else y
        y = (y.float() * 0.5).clamp(-448, 448).to(torch.bfloat16)
        return y if between else gather(y)

    return model, tuple(torch.randn(rows, columns, dtype=torch.bfloat16) for _ in range(2))
