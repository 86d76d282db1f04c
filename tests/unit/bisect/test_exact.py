"""Searches of bisect-config over made-up variants: where an answer is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from handmade_estimate import weighed_kernel

from perfcli.bisect import exact
from perfcli.bisect.answer import Ends
from perfcli.bisect.exact import SearchLimits, _flips_of, _Halfway
from perfcli.bisect.forge import Forge
from perfcli.bisect.knowledge import Knowledge
from perfcli.bisect.metrics import METRICS
from perfcli.bisect.space import Settings, Space
from perfcli.blobs import pack
from perfcli.errors import CompileFailed
from perfcli.fake.executor import FakeGenerator
from perfcli.machine import targets
from perfcli.model import Bundle, CompileRequest, Generated, KernelFacts, KernelText, Variant
from perfcli.search.question import Answer, OptionChange
from perfcli.search.result import Culprits, CulpritSet
from perfcli.worker.roles import Made

REQUEST = CompileRequest("x", {"layers": 1}, None, Variant(""), "cuda", targets.get("h100"))


class Refused(FakeGenerator):
    """Triton compiles none of its kernels."""

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        raise CompileFailed("Triton could not compile it")


def forge(generator: FakeGenerator) -> Forge:
    return Forge(generator, REQUEST, Space((), {}, {}), METRICS["spills"], Knowledge())


def test_a_variant_that_triton_refuses_has_no_answer_and_says_why() -> None:
    made = forge(Refused())

    def answer(settings: Settings, code: str, fresh: bool) -> Answer:
        return _Halfway(0, 1).judge(made.value(settings, code))

    tests: exact.Tests[int] = exact.Tests(made, lambda number: {"max_fusion_size": number}, answer)
    ((_, code),) = tests.compile([3])
    assert code.name is not None
    found = tests.judge(3, code.name, False)
    assert (found.outcome, found.reason) == ("unresolved", "Triton could not compile it")
    assert made.failures == {'{"max_fusion_size": 3}': "Triton could not compile it"}


@pytest.mark.parametrize("bad", [float("inf"), float("nan"), "all", True])
def test_what_has_no_middle_has_no_flip(bad: object) -> None:
    option = OptionChange("threshold", 1.0, bad)
    culprit = CulpritSet((option,), Answer("bad", 9.0), Answer("good", 0.0), (), (), True)
    culprits = Culprits("explained", (culprit,))
    limits = SearchLimits(1, (), lambda question, answer: None)
    assert _flips_of(forge(FakeGenerator()), culprits, Ends(0, 9), limits) == []


class Weighed(FakeGenerator):
    """One kernel, of so many blocks where an option is set."""

    def __init__(self, changed: int) -> None:
        super().__init__()
        self.changed = changed
        self.asked: list[str] = []

    def _made(self, request: CompileRequest) -> Made:
        made = super()._made(request)
        assert isinstance(made, Generated)
        kernel = self._kernel(self.changed if request.variant.options else 4096)
        run = replace(made.bundle.run, kernels=(replace(kernel, candidates=()),))
        bundle = Bundle(run, {kernel.source: pack(f"a {kernel.sizes['x']}")})
        return Generated(f"{made.code} {kernel.sizes['x']}", bundle)

    def _kernel(self, blocks: int) -> KernelFacts:
        return weighed_kernel("a", "add", text=f"a {blocks}", blocks=blocks)

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        self.asked += [text.source for _, text in kernels if weighs]
        return tuple(self._kernel(facts.sizes["x"]) for facts, _ in kernels)


@pytest.mark.parametrize(
    ("blocks", "verdict"), [(4300, "unsure"), (8192, "slower"), (2048, "faster")]
)
def test_the_ends_of_an_estimate_have_the_interval_of_their_change(
    blocks: int, verdict: str
) -> None:
    request = replace(REQUEST, target=targets.get("h200"))
    option = OptionChange("triton.mix_order_reduction", True, False)
    space = Space((option,), {}, {option.key: {option.name: False}})
    generator = Weighed(blocks)
    made = Forge(generator, request, space, METRICS["estimated-time"], Knowledge())
    ends = exact._exact_ends(made)
    assert ends.estimated == verdict
    assert ends.ratio is not None
    assert ends.low is not None
    assert ends.high is not None
    assert ends.ratio == pytest.approx(ends.bad / ends.good)
    assert (ends.low < 1 < ends.high) == (verdict == "unsure")
    assert ends.is_worse == (verdict == "slower")
    # Each kernel's work is asked for once, however often it is there.
    assert generator.asked == ["a 4096", f"a {blocks}"]
