"""Estimates how long a collective takes, from what a rank sends and the speed of its link.

Speeds are those of the data sheets, one direction: H100 and H200 have 18 links of NVLink 4 with
25 GB/s each, A100 12, B200 18 of twice the speed; MI300X has 7 of Infinity Fabric with 64 GB/s.
Between machines each GPU is taken to have a network port of 400 Gbit/s.

Within a machine, four constants were fitted to what two H200s measured: a start, two shares of the
link's speed, and a bend between small and large messages. With s = bytes sent ÷ (link · share), a
call of two ranks takes start + s + 2 · √(bend · s). The form is that of a message which is sent
over two stages in k pieces, each with a cost c of its own: (k + 1) · (c + s ÷ k) is least, with
c + s + 2 · √(c · s), at k = √(s ÷ c). NCCL cuts messages otherwise; the form was chosen because a
line (start + s) is up to 42 % off, even with a share for each kind.

Measured: torch 2.11.0, NCCL 2.28.9, bfloat16, calls back to back on the device, 2026-11-28
(``bench/distributed.py device``). What is here of more ranks, of other GPUs and between machines
was not measured.
"""

from __future__ import annotations

import math

from perfcli.model import RANKS_PER_MACHINE, OperatorWork, Target, TimeEstimate

_LINKS = {"h100": 450e9, "h200": 450e9, "a100": 300e9, "b200": 900e9, "mi300x": 448e9}
"""Bytes per second."""
_PORT = 50e9
"""Bytes per second of a GPU's network port."""
_SENDS, _RING = 0.79, 0.67
_SHARES = {
    "all_reduce": _SENDS,
    "all_to_all": _SENDS,
    "all_gather": _RING,
    "reduce_scatter": _RING,
    # Not measured: a ring that sends each byte once, and sends between pairs of ranks.
    "broadcast": _RING,
    "reduce": _RING,
    "gather": _SENDS,
    "scatter": _SENDS,
}
"""The share of a link's speed that a large collective reaches."""
_START = 7.8e-6
"""Seconds that the smallest collective of two ranks takes, one call after the other."""
_BEND = 4.3e-6
"""Seconds; see above."""
_FAR_START = 12e-6
"""Seconds that the smallest collective between machines takes: an assumption."""
_STEP = 1.5e-6
"""Seconds for each rank that a message has to pass on its way: an assumption."""

_MEASURED_GPU = "h200"
_MEASURED_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_MEASURED_BYTES = (64 * 1024, 1 << 30)
"""Of the larger of input and output."""
_MEASURED_WIDTH = math.log(1.5)
"""Half of the interval, as a logarithm, where calls were measured: it holds all 32 medians, which
are 13 % off at most, and the 10th and 90th percentiles of all 32. It is wider than these ask for,
because they are of one pair of GPUs, and no kernels ran beside them."""
_WIDTH = 0.7
"""The same for everything else: a factor of two either way."""


def estimate_collective(work: OperatorWork, target: Target) -> TimeEstimate | None:
    """Return the estimate of one call, in seconds; None for a device whose links are not known."""
    if work.variant == "wait":  # the time is that of what it waits for
        return TimeEstimate(0.0, 0.0, 0.0)
    gpu = _name_gpu(target)
    if gpu is None:
        return None
    ranks = work.sizes["ranks"]
    # Runs of an earlier perfcli do not say on how many machines the ranks are.
    far = work.sizes.get("machines", ranks / RANKS_PER_MACHINE) > 1
    reached = _LINKS[gpu] * _SHARES.get(work.variant, _RING)
    passed = max((ranks - 2) * (2 if work.variant == "all_reduce" else 1), 0)
    if far:
        seconds = _FAR_START + passed * _STEP + work.sizes["sent"] / min(reached, _PORT)
    else:
        sending = work.sizes["sent"] / reached
        seconds = _START + passed * _STEP + sending + 2 * math.sqrt(_BEND * sending)
    width = _MEASURED_WIDTH if not far and _was_measured(work, gpu) else _WIDTH
    doubt = "between machines, 400 Gbit/s for each GPU are assumed" if far else ""
    return TimeEstimate(
        seconds,
        seconds * math.exp(-width),
        seconds * math.exp(width),
        doubts=(doubt,) if doubt else (),
    )


def _was_measured(work: OperatorWork, gpu: str) -> bool:
    """Return whether such calls were measured between two GPUs of a machine."""
    least, most = _MEASURED_BYTES
    return (
        gpu == _MEASURED_GPU
        and work.sizes["ranks"] == 2
        and work.variant in _MEASURED_KINDS
        and least <= max(work.read, work.written) <= most
    )


def _name_gpu(target: Target) -> str | None:
    """Return which of the known GPUs a target is; a device that was asked itself may have a longer
    name."""
    name = f"{target.name} {target.description}".lower()
    if target.name in _LINKS:
        return target.name
    return next((known for known in _LINKS if known in name), None)
