"""What may make measured times say less than they seem to.

What it sees: in a comparison that was measured, throttling on one side alone; clocks that differ
by more than the noise floor; other work on the GPU or the cores (from 10 %); memory laid out at
random (CPU); other autotuned configurations for kernels of equal source; fewer than 10 rounds; a
step of which kernels take less than 70 %; a change of which kernels do not explain half; at most 3
launches that move less than three times L2; launches of generated kernels that belong to no known
kernel; a CUDA graph that could not be taken; outputs that could not be held against a reference;
and a side of whose kernel time over 90 % is not in generated code. A warning where the times of
the two sides may differ for this alone.

Why it costs: nothing. The verdict stands as it was measured, but what caused it may be another.
Two processes of the same code on one core differ by 1 to 4 % where addresses are random (seen on a
2-core AMD EPYC, 2026-11-21).

What to try: each finding says how to make sure: a longer `--budget`, another `--seed`,
`--cuda-graph`, or `perfcli noise`, which measures what can be told apart on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli.model import Comparison, Finding, Rule
from perfcli.rules import _machine_doubts, _timing_doubts


def check(comparison: Comparison) -> Iterator[Finding]:
    timing = comparison.timing
    if timing is not None:
        for part in (*_machine_doubts.PARTS, *_timing_doubts.PARTS):
            yield from part(comparison, timing)


RULE = Rule(_machine_doubts.CODE, "doubts about the measurement", __doc__, of_comparison=check)
