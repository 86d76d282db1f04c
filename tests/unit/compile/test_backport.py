"""The read limit of mix-order kernels: on made-up nodes, and against torch 2.13's own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.compile import backport
from perfcli.errors import CompileFailed
from perfcli.model import Run

Compile = Callable[..., Run]
HAS_TORCH = importlib.util.find_spec("torch") is not None
RELEASE = (
    tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) if HAS_TORCH else (0, 0)
)
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="messages name torch's version")
BY_HAND = Path(__file__).parents[2] / "fixtures" / "read_limit.py"


class Memory:
    def __init__(self, name: str) -> None:
        self.name = name


class Order(Memory):
    """A dependency that reads nothing: in torch no MemoryDep either."""


class Read(Memory):
    pass


class Node:
    """What the scheduler's nodes have: parts, and what each part reads."""

    def __init__(self, *parts: str, order: str = "") -> None:
        self.parts = [
            SimpleNamespace(
                read_writes=SimpleNamespace(
                    reads=[*map(Read, part.split()), *map(Order, order.split())]
                )
            )
            for part in parts
        ]

    def get_nodes(self) -> list[SimpleNamespace]:
        return self.parts


@pytest.fixture
def inductor() -> tuple[SimpleNamespace, SimpleNamespace]:
    """A scheduler that would fuse all, and metrics."""

    class FusedMixOrderReductions(Node):
        def can_fuse_with(self, other: Node) -> bool:
            return other is not self

    def reset() -> None:
        metrics.kernels = 0

    metrics = SimpleNamespace(__name__="metrics", kernels=3, reset=reset)
    scheduler = SimpleNamespace(
        __name__="scheduler", FusedMixOrderReductions=FusedMixOrderReductions, MemoryDep=Read
    )
    return scheduler, metrics


@pytest.mark.parametrize(
    ("mix_order", "other", "reads"),
    [
        (("a b", "c"), ("d",), 4),
        (("a b", "b c"), ("c a",), 3),  # a buffer counts once
        (("a", "a"), ("a",), 1),
        (("a b c d e f",), ("g h i j k",), 11),
    ],
)
def test_distinct_buffers_of_both_nodes_count(
    inductor: Any, mix_order: tuple[str, ...], other: tuple[str, ...], reads: int
) -> None:
    scheduler, metrics = inductor
    assert backport._buffers_read((Node(*mix_order), Node(*other)), Read) == reads
    backport._limit_reads(scheduler, metrics, reads)
    kernel = scheduler.FusedMixOrderReductions(*mix_order)
    assert kernel.can_fuse_with(Node(*other)) is True  # as many as allowed
    assert metrics.rejected_mix_order_reduction_fusion == 0
    assert kernel.can_fuse_with(Node(*other, "one_more")) is False
    assert metrics.rejected_mix_order_reduction_fusion == 1


def test_dependencies_of_order_do_not_count(inductor: Any) -> None:
    scheduler, metrics = inductor
    backport._limit_reads(scheduler, metrics, 2)
    assert scheduler.FusedMixOrderReductions("a").can_fuse_with(Node("b", order="c d e"))


def test_below_the_limit_the_scheduler_decides(inductor: Any) -> None:
    scheduler, metrics = inductor
    backport._limit_reads(scheduler, metrics, 10)
    kernel = scheduler.FusedMixOrderReductions("a")
    assert kernel.can_fuse_with(kernel) is False
    assert metrics.rejected_mix_order_reduction_fusion == 0


def test_resetting_the_metrics_resets_the_counter(inductor: Any) -> None:
    scheduler, metrics = inductor
    backport._limit_reads(scheduler, metrics, 1)
    scheduler.FusedMixOrderReductions("a b").can_fuse_with(Node("c"))
    assert metrics.rejected_mix_order_reduction_fusion == 1
    metrics.reset()
    assert (metrics.rejected_mix_order_reduction_fusion, metrics.kernels) == (0, 0)


def test_undone_nothing_is_left(inductor: Any) -> None:
    before = [dict(vars(part)) for part in (*inductor, inductor[0].FusedMixOrderReductions)]
    undo = backport._limit_reads(inductor[0], inductor[1], 1)
    assert dict(vars(inductor[1])) != before[1]
    undo()
    assert before == [dict(vars(p)) for p in (*inductor, inductor[0].FusedMixOrderReductions)]


@needs_torch
@pytest.mark.parametrize(
    ("owner", "name", "told"),
    [
        (0, "FusedMixOrderReductions", "scheduler.FusedMixOrderReductions"),
        (0, "MemoryDep", "scheduler.MemoryDep"),
        (1, "reset", "metrics.reset"),
    ],
)
def test_what_is_missing_is_named_and_nothing_changed(
    inductor: Any, owner: int, name: str, told: str
) -> None:
    delattr(inductor[owner], name)
    before = [dict(vars(part)) for part in inductor]
    with pytest.raises(CompileFailed, match=f"has no {told}, which .*max_reads is built on"):
        backport._limit_reads(inductor[0], inductor[1], 10)
    assert [vars(part) for part in inductor] == before


@needs_torch
def test_a_question_asked_otherwise_is_not_answered(inductor: Any) -> None:
    scheduler, metrics = inductor

    def can_fuse_with(self: Node, other: Node, can_reorder: bool) -> bool:
        return True

    scheduler.FusedMixOrderReductions.can_fuse_with = can_fuse_with
    with pytest.raises(CompileFailed, match=r"can_fuse_with\(self, other\), which"):
        backport._limit_reads(scheduler, metrics, 10)


@pytest.mark.parametrize("value", [None, 0, -1])
def test_no_limit_changes_nothing(value: int | None) -> None:
    backport.install(value)
    assert backport.settings() == {}
    assert backport.notes() == ()


@pytest.mark.parametrize("value", [True, "10", 1.5])
def test_a_limit_is_a_whole_number(value: Any) -> None:
    with pytest.raises(CompileFailed, match=r"needs a whole number or none"):
        backport.install(value)


# --- against torch ---------------------------------------------------------------------------


def compile_by_hand(cache: Path, *asked: str) -> list[Any]:
    """Return kernels and refusals of each, under a limit that torch 2.13 or we keep, in a process
    of its own."""
    done = subprocess.run(
        [sys.executable, str(BY_HAND), str(cache), *asked],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()[-len(asked) :]]


@pytest.mark.torch
@pytest.mark.skipif(RELEASE < (2, 13), reason="torch has its own limit since 2.13")
def test_it_decides_as_torch_does(cache_of_the_run: Path) -> None:
    theirs, ours = compile_by_hand(cache_of_the_run, "theirs=5", "ours=5")
    assert ours == theirs
    assert ours["refused"] > 0


@pytest.mark.torch
@pytest.mark.skipif(not (2, 10) <= RELEASE <= (2, 12), reason="torch has the option by itself")
def test_a_torch_without_the_option_gets_it(compile_run: Compile) -> None:
    params = (("layers", 1), ("batch", 40), ("sequence", 2048), ("learned", True))
    limit = ((backport.MAX_READS, 5),)
    without = compile_run("gqa-transformer", preset="smoke", params=params)
    limited = compile_run("gqa-transformer", preset="smoke", params=params, options=limit)
    assert (without.notes, without.settings.get(backport.MAX_READS)) == ((), None)
    assert limited.settings[backport.MAX_READS] == 5
    assert limited.counters[backport.COUNTER] > 0
    assert any(note.startswith(f"{backport.MAX_READS}=5 is perfcli's") for note in limited.notes)
    assert most_loads(limited) < most_loads(without)


def most_loads(run: Run) -> int:
    return max(
        kernel.source_facts.loads
        for kernel in run.kernels
        if kernel.kind == "mix-order-reduction" and kernel.source_facts
    )
