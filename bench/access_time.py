"""Times what looking at accesses adds to counting the work of stored runs, and what rules take.

    python bench/access_time.py RUN.json…

Processor time of one core. Ends with 1 where both together take more than 2 s for 300 kernels.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from perfcli import diagnosis
from perfcli.facts.work import launch_work
from perfcli.facts.work.memory_accesses import MemoryAccesses
from perfcli.model import Bundle, Run
from perfcli.predict.step import estimate_run
from perfcli.storing import runfile
from perfcli.worker.weighing import weigh

ALLOWED_SECONDS, OF_KERNELS = 2.0, 300
_spent: dict[str, float] = defaultdict(float)


@contextmanager
def _timing(name: str) -> Iterator[None]:
    started = time.process_time()
    try:
        yield
    finally:
        _spent[name] += time.process_time() - started


def _time(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        with _timing(name):
            return function(*arguments)

    return timed


def _count(path: Path) -> Run:
    """Return a run whose work is counted anew, with the analysis of accesses timed apart."""
    bundle = Bundle(runfile.read(path), runfile.read_blobs(path))
    patches = [
        mock.patch.object(MemoryAccesses, name, _time("accesses", getattr(MemoryAccesses, name)))
        for name in ("add", "sum_up")
    ]
    patches += [
        mock.patch.object(launch_work, name, _time("accesses", getattr(launch_work, name)))
        for name in ("find_divisions", "find_parts")
    ]
    with tempfile.TemporaryDirectory() as empty, _timing("counting"):
        for patch in patches:
            patch.start()
        try:
            return weigh(bundle, Path(empty)).run
        finally:
            for patch in patches:
                patch.stop()


def main() -> int:
    runs = [_count(Path(name)) for name in sys.argv[1:]]
    with _timing("estimates"):
        runs = [estimate_run(run) for run in runs]
    for run in runs:
        for rule in diagnosis.rules():
            with _timing("rules"):
                list(rule.of_run(run))
    kernels = sum(len(run.kernels) for run in runs)
    configurations = sum(len(kernel.candidates) for run in runs for kernel in run.kernels)
    print(f"{kernels} kernels, {configurations} launch configurations; seconds:")
    for name, seconds in _spent.items():
        print(f"  {name:10} {seconds:6.2f}")
    both = (_spent["accesses"] + _spent["rules"]) * OF_KERNELS / max(kernels, 1)
    print(f"accesses and rules, {OF_KERNELS} kernels: {both:.2f} s")
    return 0 if both <= ALLOWED_SECONDS else 1


if __name__ == "__main__":
    raise SystemExit(main())
