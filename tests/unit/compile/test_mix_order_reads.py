"""The read limit of mix-order kernels: on made-up nodes, and against torch 2.13's own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warm import WarmProcess

from perfcli.compile.patches import mix_order_reads
from perfcli.compile.patches.patching import Patching
from perfcli.errors import CompileFailed
from perfcli.machine import targets
from perfcli.model import CompileRequest, Run, Variant
from perfcli.options.patches import PATCHES
from perfcli.worker import protocol

Compile = Callable[..., Run]
HAS_TORCH = importlib.util.find_spec("torch") is not None
RELEASE = (
    tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) if HAS_TORCH else (0, 0)
)
MAX_READS = "triton.mix_order_reduction_max_reads"
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="messages name torch's version")
READ_LIMIT = Path(__file__).parents[2] / "fixtures" / "read_limit.py"


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


class Scheduler:
    """A scheduler that would fuse all."""

    __name__ = "scheduler"

    def __init__(self) -> None:
        class FusedMixOrderReductions(Node):
            def can_fuse_with(self, other: Node) -> bool:
                return other is not self

        self.FusedMixOrderReductions = FusedMixOrderReductions
        self.MemoryDep = Read

    def limit(self, reads: int) -> Patching:
        patching = Patching(PATCHES[MAX_READS])
        mix_order_reads._limit_reads(patching, self, reads)
        return patching


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
    mix_order: tuple[str, ...], other: tuple[str, ...], reads: int
) -> None:
    assert mix_order_reads._buffers_read((Node(*mix_order), Node(*other)), Read) == reads
    scheduler = Scheduler()
    patching = scheduler.limit(reads)
    kernel = scheduler.FusedMixOrderReductions(*mix_order)
    assert kernel.can_fuse_with(Node(*other)) is True  # as many as allowed
    assert patching.acted == 0
    assert kernel.can_fuse_with(Node(*other, "one_more")) is False
    assert patching.acted == 1


def test_dependencies_of_order_do_not_count() -> None:
    scheduler = Scheduler()
    scheduler.limit(2)
    assert scheduler.FusedMixOrderReductions("a").can_fuse_with(Node("b", order="c d e"))


def test_below_the_limit_the_scheduler_decides() -> None:
    scheduler = Scheduler()
    patching = scheduler.limit(10)
    kernel = scheduler.FusedMixOrderReductions("a")
    assert kernel.can_fuse_with(kernel) is False
    assert patching.acted == 0


def test_undone_nothing_is_left() -> None:
    scheduler = Scheduler()
    before = [dict(vars(part)) for part in (scheduler, scheduler.FusedMixOrderReductions)]
    patching = scheduler.limit(1)
    assert dict(vars(scheduler.FusedMixOrderReductions)) != before[1]
    patching.undo()
    assert before == [dict(vars(part)) for part in (scheduler, scheduler.FusedMixOrderReductions)]


@needs_torch
@pytest.mark.parametrize("missing", ["FusedMixOrderReductions", "MemoryDep"])
def test_what_is_missing_is_named_and_nothing_changed(missing: str) -> None:
    scheduler = Scheduler()
    delattr(scheduler, missing)
    before = dict(vars(scheduler))
    with pytest.raises(
        CompileFailed, match=f"has no scheduler.{missing}, which .*max_reads is built on"
    ):
        scheduler.limit(10)
    assert vars(scheduler) == before


@needs_torch
def test_a_question_asked_otherwise_is_not_answered() -> None:
    scheduler = Scheduler()

    def can_fuse_with(self: Node, other: Node, can_reorder: bool) -> bool:
        return True

    scheduler.FusedMixOrderReductions.can_fuse_with = can_fuse_with  # type: ignore[method-assign,assignment]
    with pytest.raises(CompileFailed, match=r"can_fuse_with\(self, other\), which"):
        scheduler.limit(10)


# --- against torch ---------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.skipif(RELEASE < (2, 13), reason="torch has its own limit since 2.13")
def test_it_decides_as_torch_does(cache_of_the_run: Path, warm_process: WarmProcess) -> None:
    """Of a kernel that reads five buffers with one more and without: between these limits they
    count otherwise, and without one all is fused."""

    def compile_limited(whose: str, limit: int) -> Any:
        request = CompileRequest(
            scenario="mix-order",
            params={},
            preset=None,
            variant=Variant("", {MAX_READS: 0 if whose == "ours" else limit}),
            device="cuda",
            target=targets.get("h100"),
            jobs=2,
            cache_dir=str(cache_of_the_run),
        )
        asked = json.loads(protocol.encode(protocol.plain(request)))
        return warm_process.call(request, READ_LIMIT, asked, whose, limit)

    found = {limit: compile_limited("theirs", limit) for limit in (4, 5, 1000)}
    assert {limit: compile_limited("ours", limit) for limit in found} == found
    assert found[4]["refused"] > found[5]["refused"] > found[1000]["refused"] == 0
    assert len(found[5]["kernels"]) == 2
    assert len(found[1000]["kernels"]) == 1


@pytest.mark.torch
@pytest.mark.skipif(not (2, 10) <= RELEASE <= (2, 12), reason="torch has the option by itself")
def test_a_torch_without_the_option_gets_it(compile_run: Compile) -> None:
    params = (("layers", 1), ("batch", 40), ("sequence", 2048), ("learned", True))
    limit = ((MAX_READS, 5),)
    without = compile_run("gqa-transformer", preset="smoke", params=params)
    limited = compile_run("gqa-transformer", preset="smoke", params=params, options=limit)
    assert (without.notes, without.settings.get(MAX_READS)) == ((), None)
    assert limited.settings[MAX_READS] == 5
    assert limited.counters[PATCHES[MAX_READS].counter] > 0
    assert any(note.startswith(f"{MAX_READS}=5 refused ") for note in limited.patch_notes)
    assert most_loads(limited) < most_loads(without)


def most_loads(run: Run) -> int:
    return max(
        kernel.source_facts.loads
        for kernel in run.kernels
        if kernel.kind == "mix-order-reduction" and kernel.source_facts
    )
