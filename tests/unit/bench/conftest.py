"""Makes the programs of bench/ importable, after everything else: they have names of their own
choosing."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "bench"))
