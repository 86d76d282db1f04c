"""Claims about sums of many terms, all of which fusion keeps in memory at the same time."""

from __future__ import annotations

from perfcli.model import Scalar
from perfcli.reproduce.claim import Blame, Claim, Setup, Source, TwoVariants, Way

_SOURCE = Source("PR #157563", "https://github.com/pytorch/pytorch/pull/157563", seed=1)
_TERM = 8192 * 8192 * 4
_SMALL_TERM = 512 * 512 * 4
_PATCH = "patch.accumulated_reads_size"
_OPTION = "realize_acc_reads_size_threshold"
_FEW_BUFFERS = ("max_fusion_unique_io_buffers=4", "realize_acc_reads_threshold=2")
_SUSPECTS = ("triton.coalesce_tiling_analysis=false", "loop_ordering_after_fusion=false")
_MANY = "side.peak_tensors >= 9"
"""More than the eight that Inductor itself allows one expression to read."""

_ORIGINS: dict[str, tuple[str, tuple[str, ...]]] = {
    "products": ("products of matrices", ()),
    "random": ("`torch.rand` in the loop", ("fallback_random=true",)),
}


def _params(terms: str) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    full: dict[str, Scalar] = {"terms": terms, "repeats": 20}
    return full, {**full, "size": 512}


def _limit(option: str, origin: tuple[str, ...]) -> Way:
    """Return the default beside a limit of two terms' bytes."""
    full, small = (f"{option}={2 * term}" for term in (_TERM, _SMALL_TERM))
    return Way(Setup((*origin, full), smoke_options=(*origin, small)), Setup(origin))


def _accumulated(terms: str) -> Claim:
    what, options = _ORIGINS[terms]
    full, smoke = _params(terms)
    return Claim(
        name=f"accumulated-{terms}",
        says=f"fusing `total = total + x` keeps all r terms in memory, where two at a time would "
        f"do: {what}, r = 20",
        source=_SOURCE,
        holds="torch 2.8 to 2.15",
        shown_by=TwoVariants(
            "accumulate",
            (_limit(_PATCH, options), Way(Setup((*options, *_FEW_BUFFERS)), Setup(options))),
            params=full,
            smoke=smoke,
            finding="PC301",
            blame=Blame("peak-memory", _SUSPECTS),
            cures=(_FEW_BUFFERS, _FEW_BUFFERS[:1]),
        ),
        symptom=_MANY,
        expects=("bad.peak_tensors >= 18", "good.peak_tensors <= 5"),
        shows=("good.peak_bytes", "bad.peak_bytes"),
        is_about_memory=True,
    )


def _threshold(terms: str) -> Claim:
    what, options = _ORIGINS[terms]
    full, smoke = _params(terms)
    return Claim(
        name=f"size-threshold-{terms}",
        says=f"`{_OPTION}` of two terms keeps the peak down: {what}, r = 20",
        source=_SOURCE,
        holds="torch 2.9",
        shown_by=TwoVariants(
            "accumulate",
            (_limit(_OPTION, options),),
            params=full,
            smoke=smoke,
            finding="PC301",
            blame=Blame("peak-memory", _SUSPECTS),
        ),
        symptom=_MANY,
        expects=("bad.peak_tensors >= 18", "good.peak_tensors <= 5"),
        shows=("good.peak_bytes", "bad.peak_bytes"),
        is_about_memory=True,
    )


CLAIMS = (
    _accumulated("products"),
    _accumulated("random"),
    _threshold("products"),
    _threshold("random"),
)
