"""Makes bench/search_simulation.py importable, after everything else."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "bench"))
