"""How long the rules take for a run of many kernels: ``python bench/rules_speed.py RUN.json…``.

The kernels of stored runs are repeated, each with a name of its own, until there are 300. Prints
the seconds that each rule takes, those of the estimates before it, and all of them together; the
exit code is 1 where that is more than 2 s.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

KERNELS = 300
MOST_SECONDS = 2.0
SHOWN = 8


def repeat(runs: list[Any], kernels: int) -> Any:
    """Return the first run with as many kernels, of all runs in turn, and their launches."""
    found, launches = [], []
    pool = [(number, run, kernel) for number, run in enumerate(runs) for kernel in run.kernels]
    for place in range(kernels):
        number, run, kernel = pool[place % len(pool)]
        graph = f"{kernel.graph} of {number} {place // len(pool)}"
        found.append(replace(kernel, graph=graph))
        same = (launch for launch in run.launches if launch.name == kernel.name)
        launches += [replace(each, graph=graph) for each in same if not each.extern]
    return replace(runs[0], kernels=tuple(found), launches=tuple(launches), externs=())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--kernels", type=int, default=KERNELS)
    asked = parser.parse_args()
    from perfcli import diagnosis
    from perfcli.predict.step import estimate_run
    from perfcli.storing import runfile

    run = repeat([runfile.read(path) for path in asked.runs], asked.kernels)
    began = time.perf_counter()
    run = estimate_run(run)
    taken = {"estimates": time.perf_counter() - began}
    findings = 0
    for rule in diagnosis.rules():
        began = time.perf_counter()
        findings += len(list(rule.of_run(run)))
        taken[f"{rule.code} {rule.title}"] = time.perf_counter() - began
    for name, seconds in sorted(taken.items(), key=lambda item: -item[1])[:SHOWN]:
        print(f"{seconds * 1e3:8.1f} ms  {name}")
    total = sum(taken.values())
    print(f"{total:8.3f} s   {len(run.kernels)} kernels, {findings} findings")
    return int(total > MOST_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
