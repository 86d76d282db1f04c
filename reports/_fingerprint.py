"""What a result is about, so that the same one is found again in another revision: neither names
or numbers of kernels nor lines take part, since they change with what stands around them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence

from perfcli.model import KernelFacts


def computed(kernels: Sequence[KernelFacts]) -> list[str]:
    """What kernels compute: operators and modules of the model. Without provenance, their names
    without the number."""
    nodes = {
        f"{o.op or o.node} in {o.module}" for kernel in kernels for o in kernel.origins if o.op
    }
    bare = {re.sub(r"_\d+$", "", k.name) for k in kernels if not any(o.op for o in k.origins)}
    graphs = {kernel.graph.split(" ")[0] for kernel in kernels}
    return sorted(nodes | bare) + sorted(graphs)


def fingerprint(identifier: str, check: str, subject: str, kernels: Sequence[KernelFacts]) -> str:
    """SHA-256 (hex, the first 32 digits)."""
    without_lines = re.sub(r":\d+\b", "", subject)
    parts = [identifier, check, without_lines, computed(kernels)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class Occurrences:
    """Numbers results of one fingerprint in their order: ``…:1``, ``…:2``."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def numbered(self, print_: str) -> str:
        self._seen[print_] += 1
        return f"{print_}:{self._seen[print_]}"
