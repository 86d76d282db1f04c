from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#120509",
    kind="copies",
    title="a custom operator that changes its argument makes Inductor copy the argument first",
    said="a copy of each mutated tensor before the call, slower than eager; 2024-02. Since torch "
    "2.5 that is mended (auto_functionalized_v2), switched off here",
    rebuilt="pattern",
    seen="clones of the two views of the cache before the operator and copies back after it; the "
    "good twin calls the operator on the cache itself",
    bad=Side("append", options={"enable_auto_functionalized_v2": False}),
    good=Side("append"),
    codes=frozenset({"PC503"}),
    cause=(r"cop(y|ies)", r"clone"),
    cure=(r"auto_functionalized", r"in place", r"mutat", r"functional", r"return"),
)


def append(rows: int = 65536, columns: int = 1024) -> Any:
    import torch

    def write(keys: torch.Tensor, values: torch.Tensor, row: torch.Tensor) -> None:
        keys[0].copy_(row)
        values[0].copy_(row)

    torch.library.custom_op(
        "reported::write",
        write,
        mutates_args=("keys", "values"),
        schema="(Tensor(a!) keys, Tensor(b!) values, Tensor row) -> ()",
    )

    def model(cache: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        doubled = row * 2
        torch.ops.reported.write(cache[0], cache[1], doubled)
        return cache.sum(-1)

    cache = torch.randn(2, rows, columns, dtype=torch.bfloat16)
    return model, (cache, torch.randn(columns, dtype=torch.bfloat16))
