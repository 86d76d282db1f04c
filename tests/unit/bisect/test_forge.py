"""What is kept of variants that were compiled, and what of those without an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from perfcli.bisect.forge import Forge
from perfcli.bisect.knowledge import Knowledge
from perfcli.bisect.metrics import METRICS
from perfcli.bisect.space import Space
from perfcli.errors import PerfcliError
from perfcli.fake.executor import FakeGenerator
from perfcli.machine import targets
from perfcli.model import (
    Bundle,
    CompileRequest,
    Generated,
    KernelFacts,
    KernelText,
    ScriptCommand,
    Variant,
)
from perfcli.worker.roles import Made

REQUEST = CompileRequest("x", {"layers": 1}, None, Variant(""), "cuda", targets.get("h100"))
DEFAULTS: dict[str, Any] = {}


class WithoutPeaks(FakeGenerator):
    """Generates code whose peak memory nobody knows."""

    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        for number, made in super().generate(requests, base):
            assert isinstance(made, Generated)
            run = made.bundle.run
            graphs = tuple(replace(graph, peak_memory_bytes=None) for graph in run.graphs)
            bundle = Bundle(replace(run, graphs=graphs), made.bundle.blobs)
            yield number, replace(made, bundle=bundle)


def forge(metric: str, known: Knowledge, generator: FakeGenerator) -> Forge:
    return Forge(generator, REQUEST, Space((), {}, {}), METRICS[metric], known)


def test_a_value_that_is_not_known_is_no_failure_to_compile() -> None:
    known = Knowledge()
    first = forge("peak-memory", known, WithoutPeaks())
    (code,) = first.codes([DEFAULTS])
    assert code.name is not None
    with pytest.raises(PerfcliError, match="peak-memory is not known"):
        first.value(DEFAULTS, code.name)
    assert first.compiled == 1
    # A search of another metric goes on with what is known.
    then = forge("loads", known, FakeGenerator())
    (code,) = then.codes([DEFAULTS])
    assert code.name is not None
    assert then.value(DEFAULTS, code.name) > 0


class Watched(FakeGenerator):
    """Notes what it is asked to compile once for all."""

    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        self.base = base
        return super().generate(requests, base)


class Compiling(FakeGenerator):
    """Notes of how many kernels binaries are asked for, and whether the work is."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, bool]] = []

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        self.asked.append((len(kernels), weighs))
        return super().with_binaries(kernels, request, weighs)


def test_kernels_of_all_classes_are_compiled_at_one_go() -> None:
    generator = Compiling()
    reads = [{"triton.mix_order_reduction_max_reads": n} for n in (5, 1000)]
    wanted = [DEFAULTS, *reads]
    made = Forge(generator, REQUEST, Space((), {}, {}), METRICS["spills"], Knowledge())
    codes = made.codes(wanted)
    assert len({code.name for code in codes}) > 1
    for settings, code in zip(wanted, codes, strict=True):
        assert code.name is not None
        made.value(settings, code.name)
    (first, *later) = generator.asked
    # What several classes have is compiled once.
    texts = {k.source_hash for s in wanted for k in kernels_of(generator, s)}
    assert first == (len(texts), False)
    assert len(later) == len({code.name for code in codes})


def kernels_of(generator: FakeGenerator, settings: dict[str, Any]) -> tuple[KernelFacts, ...]:
    request = replace(REQUEST, variant=Variant("", settings))
    ((_, made),) = generator.generate([request])
    assert isinstance(made, Generated)
    return made.bundle.run.kernels


def test_a_script_is_run_from_its_start_for_each_variant() -> None:
    """What it does besides compiling, a fork in its midst would do twice."""
    wanted = [{"triton.multi_kernel": n} for n in range(3)]
    generator, known = Watched(), Knowledge()
    space = Space((), {}, {})
    Forge(generator, REQUEST, space, METRICS["kernels"], known).codes(wanted)
    assert generator.base is not None
    request = replace(REQUEST, script=ScriptCommand("train.py"))
    Forge(generator, request, space, METRICS["kernels"], Knowledge()).codes(wanted)
    assert generator.base is None
