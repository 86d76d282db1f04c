from __future__ import annotations

from typing import Any

from handmade import candidate, kernel, run

from perfcli.model import Finding, LineCounts
from perfcli.rules.spills_in_loop import RULE


def found(stack: int, stores: int | None, loads: int | None, **more: Any) -> list[Finding]:
    one = candidate(
        2,
        registers=255,
        stack_bytes=stack,
        local_stores=50,
        local_loads=92,
        local_stores_in_loops=stores,
        local_loads_in_loops=loads,
        **more,
    )
    return list(RULE.of_run(run([kernel("triton_red_0", candidates=(one,))])))


def test_each_iteration_pays() -> None:
    lines = {"20": LineCounts(local_loads=72, text="tmp5 = tmp3 + tmp4")}
    (finding,) = found(368, 20, 72, lines=lines)
    assert finding.headline == "triton_red_0 touches spilled registers 92 times in its loop"
    assert finding.evidence == (
        "in loops 20 STL and 72 LDL, of 50 and 92",
        "92 spilled words per thread",
    )
    assert finding.severity == "warning"
    assert (finding.metric, finding.amount) == ("local_accesses_in_loops", 92)
    assert finding.source_lines == {"20": "tmp5 = tmp3 + tmp4"}


def test_a_few_words_do_not_matter() -> None:
    assert found(64, 9, 9) == []
    assert len(found(72, 9, 9)) == 1


def test_outside_loops_is_another_rule() -> None:
    assert found(368, 0, 0) == []
    assert found(368, None, None) == []


def test_arrays_of_the_program_are_not_spills() -> None:
    assert found(96, 4, 4, local_array_bytes=96) == []
