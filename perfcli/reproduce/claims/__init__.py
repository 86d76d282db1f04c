"""Holds the claims as data, one file per subject.

Takes nothing and gives ``list_claims``: each claim says what is compiled in two ways and under
which conditions it counts as shown. A claim never holds a verdict. To add one, write it into the
file of its subject; ``tests/unit/reproduce/`` checks that its conditions can be evaluated.
"""

from __future__ import annotations

from perfcli.reproduce.claim import Claim
from perfcli.reproduce.claims import column_sum, controls, memory, mix_order, rows, softmax

_SUBJECTS = (softmax, memory, rows, column_sum, mix_order, controls)


def list_claims() -> tuple[Claim, ...]:
    """Return all claims, in the order in which they are carried out."""
    return tuple(claim for subject in _SUBJECTS for claim in subject.CLAIMS)
