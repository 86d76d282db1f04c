"""A run's total, as the number that it is."""

from __future__ import annotations

from typing import NamedTuple, Self

from perfcli.diff.metrics import KERNEL_METRICS, fold, launched
from perfcli.errors import PerfcliError
from perfcli.model import Run

METRICS = {metric.name: metric for metric in KERNEL_METRICS}


class NotKnown(PerfcliError):
    """A number that was asked for is not known of this run. Raised instead of returning None: a
    test that asks for ``not k.spilled_words`` must not pass because nobody knows."""


class Part(NamedTuple):
    """What one kernel adds to a total, or has of what is not added up."""

    number: int
    name: str
    value: int


class Total(int):
    """An ``int`` that remembers what it counts (``metric``) and what each kernel has of it
    (``parts``, most first). Calculating with it gives a plain ``int``."""

    metric: str
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, metric: str, value: float, parts: tuple[Part, ...]) -> Self:
        made = cls(value)
        made.metric = metric
        made.parts = parts
        return made

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


def total(run: Run, name: str) -> float:
    """A metric over the kernels that a step launches. Sums of no kernels are 0.

    Raises NotKnown where a kernel does not know its own, or there is no kernel to take the worst
    of.
    """
    metric = METRICS[name]
    folded = fold(metric, run.kernels)
    if folded.unknown:
        missing = sum(folded.unknown.values())
        raise NotKnown(
            f"{name} of {run.scenario} is not known: {missing} of its "
            f"{len(launched(run.kernels))} kernels can't tell (device {run.device})"
        )
    if folded.value is not None:
        return folded.value
    if metric.fold == "sum":
        return 0
    raise NotKnown(f"{name} of {run.scenario} is not known: no kernel was generated for it")


def counted(run: Run, name: str) -> Total:
    """The same as a whole number, with its parts."""
    metric = METRICS[name]
    values = [(n, k.name, metric.of(k)) for n, k in enumerate(run.kernels) if k.launches]
    parts = (Part(n, kernel, int(value)) for n, kernel, value in values if value)
    most = sorted(parts, key=lambda part: (-part.value, part.number))
    return Total.of(name, total(run, name), tuple(most))
