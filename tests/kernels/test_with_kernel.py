"""Hand-written kernels beside Inductor's, compiled for real: passes and bytes counted by hand."""

from __future__ import annotations

import pytest

from perfcli.handwritten.compiling import launch_facts
from perfcli.handwritten.describing import describe
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Problem
from perfcli.model.kernel_work import DescribeRequest

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("family", "problem", "variant", "passes"),
    [
        ("softmax", Problem("softmax", 64, 50257), "three-pass", 3),
        ("softmax", Problem("softmax", 64, 50257), "online", 2),
        ("softmax", Problem("softmax", 64, 50257), "peeled", 2),
        ("softmax", Problem("softmax", 64, 2048), "cached", 1),
        ("softmax", Problem("cross-entropy", 64, 50257), "peeled", 1),
        ("softmax", Problem("softmax-backward", 64, 2048), "cached", 1),
        ("rmsnorm", Problem("rmsnorm", 64, 8192), "two-read", 2),
        ("rmsnorm", Problem("rmsnorm", 64, 9000), "two-read", 2),
        ("rmsnorm", Problem("rmsnorm", 64, 8192), "full-tile", 1),
        ("rmsnorm", Problem("rmsnorm", 64, 50257), "peeled", 1),
        ("rmsnorm", Problem("rmsnorm", 64, 262144), "cooperative", 1),
        ("rmsnorm", Problem("rmsnorm-backward", 64, 8192), "fused", 1),
        ("rmsnorm", Problem("rmsnorm-residual", 64, 50257), "cooperative", 1),
        ("layernorm", Problem("layernorm", 64, 8192), "register-tiled", 1),
        ("layernorm", Problem("layernorm-residual", 64, 14337), "peeled", 1),
        ("layernorm", Problem("layernorm-backward", 64, 4096), "fused", 1),
    ],
)
def test_passes_over_the_input(family: str, problem: Problem, variant: str, passes: int) -> None:
    """The sum over all launches; nothing is allocated, nothing runs."""
    plan = registry.family(family).plan(problem, targets.get("h200"), variant)
    assert plan.variant == variant
    seen = 0
    for launch, told in zip(
        plan.launches, describe(DescribeRequest(family, problem, plan)), strict=True
    ):
        _, facts = launch_facts(told.source, launch.function, launch.constants)
        first = {"softmax-backward": "dy"}.get(problem.operation, "x")
        whole = [o for o in told.operands if o.name == first]
        assert all(o.bytes == problem.elements * 2 and o.is_input for o in whole)
        seen += sum(facts.passes.get(o.argument, 0) for o in whole)
    assert seen == passes


def test_a_split_row_is_read_by_two_launches() -> None:
    problem = Problem("softmax", 4, 1 << 20)
    plan = registry.family("softmax").plan(problem, targets.get("h200"), "split")
    told = describe(DescribeRequest("softmax", problem, plan))
    names = [{operand.name for operand in each.operands} for each in told]
    assert "x" in names[0] & names[-1]
    shared = (names[0] & names[-1]) - {"x"}
    assert shared and all(name.startswith("buf") for name in shared)


@pytest.mark.parametrize(
    ("family", "problem", "variant", "is_gluon"),
    [
        ("softmax", Problem("softmax", 64, 50257), "cluster", True),
        ("softmax", Problem("cross-entropy", 64, 50257), "cluster", True),
        ("softmax", Problem("log-softmax-backward", 64, 50257), "cluster", True),
        ("rmsnorm", Problem("rmsnorm-backward", 64, 50257), "ring", True),
        ("rmsnorm", Problem("rmsnorm", 64, 131072), "cluster", True),
        ("layernorm", Problem("layernorm-residual", 2092, 64161), "cluster", True),
        ("layernorm", Problem("layernorm-residual-backward", 64, 50257), "ring", True),
        ("layernorm", Problem("layernorm-backward", 4096, 6056), "cluster", True),
        ("rmsnorm", Problem("rmsnorm-backward", 32768, 4096), "fused", False),
        ("linear-cross-entropy", Problem("linear-cross-entropy", 64, 1024), "fused", False),
        ("softmax", Problem("softmax", 64, 2048), "tiled", False),
    ],
)
def test_kernels_that_may_load_by_assembly_are_told(
    family: str, problem: Problem, variant: str, is_gluon: bool
) -> None:
    """And the text of each is one module, with no two functions of a name."""
    plan = registry.family(family).plan(problem, targets.get("h200"), variant)
    assert plan.variant == variant
    told = describe(DescribeRequest(family, problem, plan))
    longest = max(told, key=lambda each: len(each.source))
    assert longest.is_gluon is is_gluon
