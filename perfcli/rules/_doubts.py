"""What PC901 is made of: kernels whose numbers are not all known, and how a doubt is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfcli.model import Finding, KernelFacts, Severity

CODE = "PC901"
NAMED = 4
CODE_METRICS = ("spilled_words",)
BYTE_METRICS = ("bytes_moved", "bytes_swept", "lower_bound_seconds")


@dataclass(frozen=True, slots=True)
class KernelDoubt:
    """A reason to doubt some kernels' numbers."""

    subject: str
    says: str
    applies: Callable[[KernelFacts], bool]
    advice: str
    metrics: tuple[str, ...]
    """Those of a verdict that the kernels are missing from."""


def _without_code(kernel: KernelFacts) -> bool:
    return kernel.language == "triton" and kernel.best is None


def _partly_failed(kernel: KernelFacts) -> bool:
    return kernel.best is not None and any(c.error for c in kernel.candidates)


def _without_bytes(kernel: KernelFacts) -> bool:
    return kernel.bytes_moved is None


KERNEL_DOUBTS = (
    KernelDoubt(
        "no machine code",
        "without machine code: registers, spills and occupancy leave them out",
        _without_code,
        "inspect-kernel shows why they did not compile",
        CODE_METRICS,
    ),
    KernelDoubt(
        "failed configurations",
        "with launch configurations that did not compile and are left out",
        _partly_failed,
        "inspect-kernel shows why; only those that compile are compared",
        CODE_METRICS,
    ),
    KernelDoubt(
        "bytes not known",
        "without known bytes: left out of bytes moved and lower-bound time",
        _without_bytes,
        "count the kernel's loads and stores with inspect-kernel",
        BYTE_METRICS,
    ),
)


def doubt(
    subject: str,
    headline: str,
    evidence: tuple[str, ...] = (),
    advice: str = "",
    amount: int | None = None,
    severity: Severity = "info",
    code: str = CODE,
) -> Finding:
    """One finding for each kind: told apart by its subject, its kernels named in the evidence."""
    return Finding(
        code=code,
        severity=severity,
        headline=headline,
        evidence=evidence,
        advice=advice,
        amount=amount,
        subject=subject,
        doubt=True,
    )


def named(kernels: Sequence[KernelFacts]) -> str:
    """The first few by name, the others by number."""
    more = f" and {len(kernels) - NAMED} more" if len(kernels) > NAMED else ""
    return ", ".join(kernel.name for kernel in kernels[:NAMED]) + more
