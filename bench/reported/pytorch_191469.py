from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#191469",
    kind="recomputation",
    title="what is written into one slice is computed again for every element of the tensor",
    said="1,040,000 evaluations instead of 40,000, about 11 % slower on an A40; RTX 40, torch "
    "2.13, 2026-07",
    rebuilt="published",
    seen="one pointwise kernel over 26 × 200 × 200 elements that loads all inputs of the slice and "
    "selects; the good twin has a kernel for the slice and a copy",
    bad=Side("update"),
    good=Side("update", options={"realize_opcount_threshold": 8}),
    codes=frozenset({"PC502"}),
    cause=(r"comput(ed|es) (it )?(again|anew)", r"recomput", r"every element"),
    cure=(r"realize_", r"reali[sz]e", r"in place", r"copy_"),
    true_of_good={"PC503": "it copies 26 slices to change one, which in place it would not"},
)


def update(levels: int = 26, side: int = 1000) -> Any:
    import torch

    def advance(*inputs: torch.Tensor) -> torch.Tensor:
        field, first, second, third, fourth, fifth, sixth = inputs
        flux = torch.exp(first * second) + torch.exp(third * fourth) + torch.sin(fifth * sixth)
        flux = torch.tanh(flux * first) + torch.tanh(flux * third) + torch.cos(flux)
        return torch.select_scatter(field, flux, 2, 0)

    parts = tuple(torch.randn(side, side) for _ in range(6))
    return advance, (torch.randn(side, side, levels), *parts)
