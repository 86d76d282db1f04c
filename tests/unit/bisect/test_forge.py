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
from perfcli.blobs import pack, unpack
from perfcli.errors import CompileFailed, PerfcliError, UserCodeFailed
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
    # What several classes have is compiled once, and nothing is asked for again.
    texts = {text for settings in wanted for text in texts_of(settings)}
    assert generator.asked == [(len(texts), False)]


class Renumbering(Compiling):
    """Generates, with an option, one kernel more, as torch does: the names of the others shift."""

    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        for number, made in super().generate(requests, base):
            assert isinstance(made, Generated)
            run, blobs = made.bundle.run, dict(made.bundle.blobs)
            more = bool(requests[number].variant.options)
            kernels = [*run.kernels, *run.kernels[:1]] if more else run.kernels
            named = []
            for place, kernel in enumerate(kernels):
                name = f"triton_{place + more}"
                text = unpack(blobs[kernel.source]).replace(kernel.name, name)
                text += "# one more" if place == len(run.kernels) else ""
                blobs[f"{name} {more}"] = pack(text)
                self._candidates[f"{name} {more}"] = self._candidates[kernel.source]
                named.append(replace(kernel, name=name, source=f"{name} {more}"))
            bundle = Bundle(replace(run, kernels=tuple(named)), blobs)
            yield number, replace(made, code=f"code {more}", bundle=bundle)


def test_a_kernel_with_another_number_is_the_same_kernel() -> None:
    generator = Renumbering()
    made = Forge(generator, REQUEST, Space((), {}, {}), METRICS["spills"], Knowledge())
    for settings in (DEFAULTS, {"triton.mix_order_reduction_max_reads": 5}):
        (code,) = made.codes([settings])
        assert code.name is not None
        made.value(settings, code.name)
    first, then = (asked for asked, _ in generator.asked)
    assert (first, then) == (len(texts_of(DEFAULTS)), 1)


class Refusing(Compiling):
    """Refuses one kernel: Triton can't compile it."""

    def __init__(self, refused: str) -> None:
        super().__init__()
        self.refused = refused

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        if any(text.source.replace(text.name, "kernel") == self.refused for _, text in kernels):
            raise CompileFailed("Triton could not compile it")
        return super().with_binaries(kernels, request, weighs)


def test_a_kernel_that_is_refused_costs_no_other_variant_its_value() -> None:
    wanted = [DEFAULTS, {"triton.mix_order_reduction_max_reads": 1000}]
    ours, theirs = (texts_of(settings) for settings in wanted)
    refused = min(theirs - ours)
    made = Forge(*(Refusing(refused), REQUEST, Space((), {}, {}), METRICS["spills"], Knowledge()))
    good, bad = made.codes(wanted)
    assert good.name is not None
    assert bad.name is not None
    assert made.value(DEFAULTS, good.name) == 0
    with pytest.raises(CompileFailed, match="could not compile"):
        made.value(wanted[1], bad.name)


def test_what_its_code_tells_needs_no_binaries() -> None:
    generator = Compiling()
    made = Forge(generator, REQUEST, Space((), {}, {}), METRICS["spills"], Knowledge())
    made.skim = lambda settings, run: {"spills": 7.0}
    (code,) = made.codes([DEFAULTS])
    assert code.name is not None
    assert made.value(DEFAULTS, code.name) == 7.0
    assert generator.asked == []


def texts_of(settings: dict[str, Any]) -> set[str]:
    request = replace(REQUEST, variant=Variant("", settings))
    ((_, made),) = FakeGenerator().generate([request])
    assert isinstance(made, Generated)
    blobs, kernels = made.bundle.blobs, made.bundle.run.kernels
    return {unpack(blobs[kernel.source]).replace(kernel.name, "kernel") for kernel in kernels}


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


class Raising(Compiling):
    """Generates nothing: the user's code raises."""

    def __init__(self) -> None:
        super().__init__()
        self.tried = 0

    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        for number in range(len(requests)):
            self.tried += 1
            yield number, UserCodeFailed("model.py does not import")


def test_what_raised_is_not_compiled_again_in_the_same_search() -> None:
    generator, known = Raising(), Knowledge()
    for metric in ("spills", "kernels"):
        made = Forge(generator, REQUEST, Space((), {}, {}), METRICS[metric], known)
        for _ in range(2):
            (code,) = made.codes([DEFAULTS])
            assert (code.name, code.failure) == (None, "model.py does not import")
    assert generator.tried == 1
    assert known.codes == {}
