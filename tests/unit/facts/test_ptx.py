"""Local arrays as they stand in PTX that triton 3.7 writes."""

from __future__ import annotations

from perfcli.facts.binary.sass import local_array_bytes
from perfcli.model import Candidate

SIN = """
.visible .entry kernel(
{
\t.local .align 4 .b8 \t__local_depot0[28];
\t.reg .b64 \t%SPL;
\tmov.b64 \t%SPL, __local_depot0;
\tst.local.b32 \t[%r118], %r88;
"""


def test_the_array_of_a_sine() -> None:
    assert local_array_bytes(SIN) == 28
    assert local_array_bytes(SIN.replace(".b8", ".b32")) == 4 * 28
    assert local_array_bytes(SIN.replace(".local .align", ".shared .align")) == 0


def test_an_array_is_no_spill() -> None:
    sine = Candidate({}, 4, 1, registers=16, stack_bytes=32, local_array_bytes=28)
    assert sine.spilled_words == 0
    # Seen on an H200: a kernel with a sine for which the driver reports 10 words.
    both = Candidate({}, 2, 1, registers=168, stack_bytes=40, local_array_bytes=28)
    assert both.spilled_words == 2
    spilling = Candidate({}, 2, 1, registers=255, stack_bytes=368, local_array_bytes=0)
    assert spilling.spilled_words == 92
