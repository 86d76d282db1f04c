"""What is said of two sides of a step whose kernels differ."""

from __future__ import annotations

import pytest
from architectures_on_device import Compared, explain

BODIES = (("triton_poi_fused_addmm_1", "a", ""),)


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        # bench/scripts/lightning_module.py on an H200
        (
            (
                "operator on the device only: aten.addmm.out bfloat16[16] , bfloat16[64, 64] , "
                "bfloat16[64, 16] ×1",
                "operator offline only: aten.addmm.out bfloat16[10] , bfloat16[64, 64] , "
                "bfloat16[64, 10] ×1",
            ),
            "padding of a matrix product, timed on the device",
        ),
        (
            (
                "operator on the device only: aten.mm.out float32[8, 2708] , float32[2708, 64] ×2",
                "operator offline only: aten.mm.out float32[7, 2708] , float32[2708, 64] ×1",
            ),
            "1 bodies; 2 facts",
        ),
        (("operator offline only: aten.mm.out bfloat16[4, 8] , bfloat16[8, 8] ×1",),
         "1 bodies; 1 facts"),
    ],
)  # fmt: skip
def test_padding_is_told_from_other_differences(differs: tuple[str, ...], said: str) -> None:
    assert explain(Compared("net", "step", differs=differs, bodies=BODIES)) == said
