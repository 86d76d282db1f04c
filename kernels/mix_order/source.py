"""Writes the source of the fused inner and outer reduction with a chosen number of full-size reads.

The shape is that of Inductor's mix-order kernels: one block walks over ``rows_per_block`` rows,
``BLOCK`` whole rows at a time; all loads stand at the top of the loop; inner reductions (over a
row) finish within it, outer ones (over rows) go on in one fp32 accumulator per column, which the
block writes to ``partial`` at the end.

What it computes is the backward of up to three RMSNorms in a row, with residual gradients joining
in between, as in seed 4's transformer:

    d = grad;  for each norm s:  h = x_s · rstd_s
        dw_s = Σ_rows d · h
        d = rstd_s · (d · w_s − h · mean_columns(d · w_s · h)) + the residuals of s
    dx = d
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_NORMS = 3
MOST_READS = 32


@dataclass(frozen=True, slots=True)
class _Reads:
    """Names the full-size inputs of a kernel, by what they are."""

    norms: tuple[str, ...]
    """The activation of each norm: ``x0`` …"""
    residuals: tuple[tuple[str, ...], ...]
    """The gradients that join after each norm: ``residual0`` …"""

    @property
    def names(self) -> tuple[str, ...]:
        return ("grad", *self.norms, *(name for names in self.residuals for name in names))


def _reads_of(count: int) -> _Reads:
    """Return ``count`` full-size reads, at least 2: the gradient, one activation per norm,
    residuals. An odd count up to 7 has one residual per norm; beyond, three norms share all further
    ones."""
    norms = min(max((count - 1) // 2, 1), MOST_NORMS)
    residuals = range(count - 1 - norms)
    shares = tuple(
        tuple(f"residual{k}" for k in residuals if k % norms == norm) for norm in range(norms)
    )
    return _Reads(tuple(f"x{norm}" for norm in range(norms)), shares)


def _mix_order_source(count: int) -> str:
    """Write ``mix_order_<count>``."""
    reads = _reads_of(count)
    norms = range(len(reads.norms))
    small = [f"weight{s}" for s in norms] + [f"rstd{s}" for s in norms]
    body = [
        "column = tl.arange(0, COLUMNS)",
        "inside = column < columns",
        "line = tl.arange(0, BLOCK)",
        "first = tl.program_id(0) * rows_per_block",
        "last = tl.minimum(first + rows_per_block, rows)",
        *(f"accumulated{s} = tl.zeros([COLUMNS], tl.float32)" for s in norms),
        "for start in tl.range(first, last, BLOCK, num_stages=STAGES):",
        *(f"    {text}" for text in _loop(reads)),
        f"place = partial + tl.program_id(0).to(tl.int64) * columns * {len(norms)} + column",
        *(f"tl.store(place + {s} * columns, accumulated{s}, mask=inside)" for s in norms),
    ]
    full = [f"{name}_ptr" for name in reads.names]
    parameters = [*full, *small, "dx", "partial", "rows", "columns", "rows_per_block"]
    return "\n".join(
        [
            "import triton",
            "import triton.language as tl",
            "",
            "",
            "@triton.jit",
            f"def mix_order_{count}(",
            *(f"    {name}," for name in parameters),
            *(f"    {name}: tl.constexpr," for name in ("COLUMNS", "BLOCK", "STAGES")),
            "):",
            *(f"    {text}" for text in body),
            "",
        ]
    )


def _loop(reads: _Reads) -> list[str]:
    norms = range(len(reads.norms))
    text = [
        "row = start + line",
        "present = row < last",
        "mask = present[:, None] & inside[None, :]",
        "offset = row.to(tl.int64)[:, None] * columns + column[None, :]",
        *(
            f"{name} = tl.load({name}_ptr + offset, mask=mask, other=0.0).to(tl.float32)"
            for name in reads.names
        ),
        *(f"r{s} = tl.load(rstd{s} + row, mask=present, other=0.0)[:, None]" for s in norms),
        *(f"w{s} = tl.load(weight{s} + column, mask=inside, other=0.0)[None, :]" for s in norms),
        "d = grad",
    ]
    for s in norms:
        text += [
            f"h{s} = x{s} * r{s}",
            f"accumulated{s} += tl.sum(d * h{s}, 0)",
            f"d = d * w{s}",
            f"mean{s} = tl.sum(d * h{s}, 1)[:, None] / columns",
            f"d = r{s} * (d - h{s} * mean{s})",
            *(f"d += {name}" for name in reads.residuals[s]),
        ]
    return [*text, "tl.store(dx + offset, d.to(dx.dtype.element_ty), mask=mask)"]
