"""The kernels of a variant as texts of their own, to be compiled to binaries."""

from __future__ import annotations

from perfcli.blobs import unpack
from perfcli.model import Bundle, KernelFacts, KernelText


def texts_of(bundle: Bundle) -> list[tuple[KernelFacts, KernelText]]:
    """All of a variant."""
    return [(kernel, _text(kernel, bundle)) for kernel in bundle.run.kernels]


def _text(kernel: KernelFacts, bundle: Bundle) -> KernelText:
    source = unpack(bundle.blobs[kernel.source])
    return KernelText(_own_name(kernel.name, source), kernel.language, source, kernel.kind)


def _own_name(name: str, source: str) -> str:
    """In its text, where Inductor may have shortened it: the last function at the top."""
    if f"def {name}(" in source:
        return name
    tops = [line for line in source.splitlines() if line.startswith("def ")]
    return tops[-1].removeprefix("def ").partition("(")[0] if tops else name
