"""Finds the files that constants come from, and says which GPU's constants stand for a target.

A worker asks this, too: standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from perfcli.model import Target

FORMAT = 1
"""The format of a calibration file."""
_SHIPPED = Path(str(resources.files("perfcli") / "data" / "calibrations"))

VARIABLE = "PERFCLI_CALIBRATION"
"""Names the calibration file to use instead of all others; ``--calibration`` sets it."""

DERIVED_SPREAD = 1.6
"""How much wider the intervals of a GPU that was not measured are."""

Sheet = tuple[str, int, float]
"""What says how alike two GPUs are: vendor, major number of the compute capability, and bandwidth
in bytes/s."""


def own_folder() -> Path:
    """Return where the user's own calibrations are, ``TARGET.json`` each:
    ``$PERFCLI_CONFIG_DIR/calibrations``, else ``$XDG_CONFIG_HOME/perfcli/calibrations``, else
    ``~/.config/perfcli/calibrations``."""
    if own := os.environ.get("PERFCLI_CONFIG_DIR"):
        return Path(own).expanduser() / "calibrations"
    xdg = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".config"
    return base / "perfcli" / "calibrations"


def _list_shipped() -> list[Path]:
    """Return the files that come with perfcli."""
    return sorted(_SHIPPED.glob("*.json"))


def _list_own() -> list[Path]:
    """Return the user's own files."""
    return sorted(own_folder().glob("*.json"))


def _last_change(path: Path) -> int:
    """Return when a file was changed last, in nanoseconds; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _choose_gpu(target: Target, known: Mapping[str, Sheet]) -> str | None:
    """Return the name of the GPU whose constants stand for a target: its own where they are known,
    else those of the GPU that is most like it, first by architecture, then by bandwidth. None where
    no GPU of its vendor is known, or where its own data sheet is not, by which others are
    scaled."""
    if target.name in known:
        return target.name
    near = [name for name, (vendor, *_) in known.items() if vendor == target.vendor]
    if not near or not (target.bandwidth > 0 and target.sm_count > 0 and target.l2_bytes > 0):
        return None

    def distance(name: str) -> tuple[int, float]:
        _, capability, bandwidth = known[name]
        return abs(capability - target.capability[0]), abs(bandwidth - target.bandwidth)

    return min(near, key=distance)


def _sheet_of(gpu: Target | Mapping[str, Any]) -> Sheet:
    """Return what is compared of a GPU, given as such or as in a file."""
    if isinstance(gpu, Target):
        return gpu.vendor, gpu.capability[0], gpu.bandwidth
    return gpu["vendor"], gpu["capability"][0], gpu["bandwidth"]
