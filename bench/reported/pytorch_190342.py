from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#190342",
    kind="peak memory",
    title="chunks written into an empty tensor one after the other are copied as often as there "
    "are chunks",
    said="a peak-memory regression of a chunked loss, as each slice_scatter on a fresh base makes "
    "a new tensor; 2026-07",
    rebuilt="pattern",
    seen="copies of the whole result between the chunks, or a buffer more; the good twin joins the "
    "chunks once",
    bad=Side("chunks", params={"joined": False}),
    good=Side("chunks", params={"joined": True}),
    codes=frozenset({"PC301", "PC302", "PC503"}),
    cause=(r"cop(y|ies)", r"slice_scatter", r"at once"),
    cure=(r"\bcat\b", r"once", r"in place", r"realize_acc_reads"),
    metric="peak memory",
)


def chunks(rows: int = 16384, columns: int = 8192, count: int = 8, joined: bool = False) -> Any:
    import torch

    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        parts = [torch.relu(part @ weight) for part in x.chunk(count)]
        if joined:
            return torch.cat(parts)
        result = torch.empty(rows, columns, device=x.device, dtype=x.dtype)
        for number, part in enumerate(parts):
            result[number * rows // count : (number + 1) * rows // count] = part
        return result

    x = torch.randn(rows, 1024, dtype=torch.bfloat16)
    return model, (x, torch.randn(1024, columns, dtype=torch.bfloat16))
