"""Makes Triton's interpreter round float32 to bfloat16 as a GPU does.

Its own conversion cuts the lower bits off: every output is up to a whole unit of its last place too
small, twice of what a kernel's tolerance allows. Rounded to the nearest, ties to even, a case has
the same tolerance everywhere. ``_convert_float`` of triton 3.6 and 3.7.
"""

from __future__ import annotations

import importlib
from typing import Any

from perfcli.errors import PerfcliError

_CORNER = "_convert_float"


def round_to_nearest() -> None:
    """Replace the interpreter's conversion, for good, in this process, which has
    ``TRITON_INTERPRET`` set.

    Raises:
        PerfcliError: this triton's interpreter has no such function.
    """
    import triton

    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    cut_off = getattr(interpreter, _CORNER, None)
    if cut_off is None:
        raise PerfcliError(
            f"triton {triton.__version__} has no runtime.interpreter.{_CORNER}, through which "
            "bfloat16 is rounded (tested: triton 3.6 and 3.7): check on a GPU, or with another "
            "triton (--python)"
        )
    if getattr(cut_off, "rounds", False):
        return

    def rounding(values: Any, source: Any, target: Any, mode: Any) -> Any:
        if getattr(mode, "name", "") != "RTZ":
            converted = _convert(values, str(source), str(target))
            if converted is not None:
                return converted
        return cut_off(values, source, target, mode)

    rounding.rounds = True  # type: ignore[attr-defined]
    setattr(interpreter, _CORNER, rounding)


def _convert(values: Any, source: str, target: str) -> Any:
    """Return a NumPy array between ``fp32`` and ``bf16``, which is held as its bits in uint16; None
    of other pairs."""
    import torch

    if (source, target) == ("fp32", "bf16"):
        floats = torch.from_numpy(values.copy())
        return floats.to(torch.bfloat16).view(torch.int16).numpy().view("uint16")
    if (source, target) == ("bf16", "fp32"):
        bits = torch.from_numpy(values.copy().view("int16"))
        return bits.view(torch.bfloat16).float().numpy()
    return None
