from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="vllm-project/vllm#37960",
    kind="lost fusion",
    title="an opaque quantisation operator keeps RMSNorm and float8 cast in kernels of their own",
    said="a round trip of the normed activations through memory in each layer of DeepSeek-R1; "
    "2026-03",
    rebuilt="pattern",
    seen="the norm's kernel writes bfloat16 for a custom operator; the good twin's quantisation is "
    "written in torch and is part of the norm's kernel",
    bad=Side("quantise", params={"opaque": True}),
    good=Side("quantise", params={"opaque": False}),
    codes=frozenset({"PC501"}),
    cause=(r"custom op", r"opaque", r"reported::"),
    cure=(r"native", r"in torch", r"decompos", r"triton_op", r"write it"),
)


def quantise(rows: int = 8192, columns: int = 7168, opaque: bool = True) -> Any:
    import torch
    from torch.nn import functional

    def native(x: torch.Tensor) -> torch.Tensor:
        row = x.float()
        scale = row.abs().amax(-1, keepdim=True) / 448
        return (row / scale).to(torch.float8_e4m3fn)

    def shape(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x, dtype=torch.float8_e4m3fn)

    if opaque:
        operator = torch.library.custom_op(
            "reported::quantise", native, mutates_args=(), schema="(Tensor x) -> Tensor"
        )
        operator.register_fake(shape)
    weight = torch.nn.Parameter(torch.ones(columns, dtype=torch.bfloat16))

    def model(x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        summed = x + residual
        normed = functional.rms_norm(summed, (columns,), weight, 1e-6)
        quantised = torch.ops.reported.quantise(normed) if opaque else native(normed)
        return quantised, summed

    return model, tuple(torch.randn(rows, columns, dtype=torch.bfloat16) for _ in range(2))
