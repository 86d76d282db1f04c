from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#180930",
    kind="overfusion",
    title="cat of eight tensors inlined into the layer norm that reads it",
    said="1,149 µs fused, 412 µs with the cat in a kernel of its own, 2.8×; MI350X, 2026-04",
    rebuilt="published",
    seen="a reduction over 21,568 columns with eight masked loads and seven selects per element "
    "and loop; the good twin copies the parts into one row first",
    bad=Side("norm_of_parts"),
    good=Side(
        "norm_of_parts",
        options={"max_complex_pointwise_cat_inputs": 4, "max_pointwise_cat_inputs": 4},
    ),
    codes=frozenset({"PC209"}),
    cause=(r"\bcat\b", r"masked loads", r"selects?"),
    cure=(r"materiali[sz]e", r"pointwise_cat_inputs", r"kernel of its own", r"before"),
)

WIDTHS = (4096, 4096, 4096, 2048, 2048, 2048, 2048, 1088)


def norm_of_parts(rows: int = 4096) -> Any:
    import torch
    from torch.nn import functional

    columns = sum(WIDTHS)
    weight = torch.nn.Parameter(torch.ones(columns, dtype=torch.bfloat16))

    def norm(*parts: torch.Tensor) -> torch.Tensor:
        row = torch.cat([part * 2 for part in parts], dim=-1)
        return functional.layer_norm(row, (columns,), weight)

    return norm, tuple(torch.randn(rows, width, dtype=torch.bfloat16) for width in WIDTHS)
