"""What pyperf runs, in the tools' environment: see accuracy_tools.py."""

from __future__ import annotations

import pyperf  # type: ignore[import-not-found,unused-ignore]  # in the tools' environment
from accuracy_ask import ask

if __name__ == "__main__":
    # The worker's own clock: a call's way there and back is no part of a step.
    pyperf.Runner().bench_time_func("step", ask)
