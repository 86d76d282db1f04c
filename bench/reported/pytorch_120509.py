from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#120509",
    kind="copies",
    title="a custom operator that changes its argument makes Inductor copy the argument first",
    said="a copy of the whole tensor before each call, slower than eager; 2024-02",
    rebuilt="pattern",
    seen="a clone of the cache before the operator, as the old value is returned as well; the good "
    "twin's operator returns a new row",
    bad=Side("append", params={"mutates": True}),
    good=Side("append", params={"mutates": False}),
    codes=frozenset({"PC503"}),
    cause=(r"cop(y|ies)", r"clone"),
    cure=(r"in place", r"mutat", r"functional", r"return"),
)


def append(rows: int = 65536, columns: int = 1024, mutates: bool = True) -> Any:
    import torch

    def write(cache: torch.Tensor, row: torch.Tensor) -> None:
        cache[0].copy_(row)

    def make(row: torch.Tensor) -> torch.Tensor:
        return row.clone()

    if mutates:
        torch.library.custom_op(
            "reported::write",
            write,
            mutates_args=("cache",),
            schema="(Tensor(a!) cache, Tensor row) -> ()",
        )
    else:
        operator = torch.library.custom_op(
            "reported::make", make, mutates_args=(), schema="(Tensor row) -> Tensor"
        )
        operator.register_fake(torch.empty_like)

    def model(cache: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        doubled = row * 2
        if mutates:
            changed = cache.clone()
            torch.ops.reported.write(changed, doubled)
            return changed, cache.sum(1)
        return torch.ops.reported.make(doubled), cache.sum(1)

    cache = torch.randn(rows, columns, dtype=torch.bfloat16)
    return model, (cache, torch.randn(columns, dtype=torch.bfloat16))
