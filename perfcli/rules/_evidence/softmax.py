"""Finds softmaxes in a run: the kernels that take one's maximum and sum, and their sweeps over
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli.model import Buffer, KernelFacts, Run
from perfcli.rules._evidence.whole_reads import whole_reads

_OPERATOR = "prims.prepare_softmax_online"
"""Inductor's own, for a maximum and a sum of exponentials of the same values. It is in the graph
wherever ``online_softmax`` is on, and stays an origin where its lowering takes them apart."""


SPLIT_ONLINE_SINCE = (2, 13)
"""The torch that can split an online softmax (PR #184069)."""


@dataclass(frozen=True, slots=True)
class Softmax:
    """Names one such operator, and the kernels that it became, as indices into ``Run.kernels``."""

    kernels: tuple[int, ...]
    sweeping: tuple[int, ...]
    """The kernels that read the whole input in loops."""
    inputs: tuple[Buffer, ...]
    """The buffers that they all read whole."""
    dynamic: bool
    """Whether the length of what is reduced is a symbol."""


def find_taken_apart(run: Run) -> Iterator[Softmax]:
    """Yield softmaxes whose maximum and sum are known to be taken in sweeps of their own. Kernels
    that two softmaxes share come with the first."""
    reported: set[int] = set()
    for softmax in _softmaxes(run):
        facts = [run.kernels[n].source_facts for n in softmax.kernels]
        apart = all(f is not None and f.online_softmax is False for f in facts)
        if apart and softmax.inputs and reported.isdisjoint(softmax.sweeping):
            reported.update(softmax.sweeping)
            yield softmax


def _softmaxes(run: Run) -> Iterator[Softmax]:
    found: dict[tuple[str, str], list[int]] = {}
    for number, kernel in enumerate(run.kernels):
        for origin in kernel.origins:
            if origin.op.startswith(_OPERATOR):
                found.setdefault((kernel.graph, origin.node), []).append(number)
    for numbers in found.values():
        sweeping = [n for n in numbers if whole_reads(run.kernels[n])]
        if sweeping:
            kernels = [run.kernels[n] for n in sweeping]
            dynamic = any(size.startswith("r") for k in kernels for size in k.dynamic_sizes)
            yield Softmax(tuple(numbers), tuple(sweeping), _read_by_all(kernels), dynamic)


def _read_by_all(kernels: Sequence[KernelFacts]) -> tuple[Buffer, ...]:
    names = set.intersection(*({b.name for b in whole_reads(k)} for k in kernels))
    return tuple(b for b in whole_reads(kernels[0]) if b.name in names)
