"""Compiles the public-style scripts of bench/scripts/ as they are, and holds their kernels against
a real GPU's.

    python bench/scripts.py [--names NAME …] [--target h100] [--json FILE]
    python bench/scripts.py --on-device --gpus 2 --json FILE

Each script is run as a whole, without a GPU; with ``--on-device`` also on one, with nothing stood
in for, in another process. Kernel bodies are compared text for text, names apart; registers,
spilled words and shared memory of every launch configuration; operators and their sizes.
Exits with 1 where a script fails or anything differs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from architectures_on_device import Compared, compare, describe, explain, summarize  # noqa: E402

from perfcli.errors import PerfcliError  # noqa: E402
from perfcli.machine import targets  # noqa: E402
from perfcli.model import ScriptCommand, Target, Variant  # noqa: E402
from perfcli.worker import process  # noqa: E402
from perfcli.workflow.request import build_request  # noqa: E402

FOLDER = Path(__file__).with_name("scripts")
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))
WORLDS = {"ddp_gpt": 8, "fsdp2_llama": 8}
"""Scripts of several ranks. On a device each runs as the only one: its graphs are the same."""
_ONE_RANK = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
}
_MODE = "step"


@dataclass(frozen=True, slots=True)
class Task:
    """Says which script one process runs, and where."""

    name: str
    side: str
    cache: str
    target: Target
    python: str | None
    gpus: int
    steps: int
    deadline: float


def run_task(task: Task) -> dict[str, Any]:
    """Run the script, and return what is compared of it."""
    # Estimates are not compared, and take as long as the rest.
    process.weigh = lambda bundle, _: bundle  # type: ignore[attr-defined, assignment]
    on_device = task.side == "device"
    slot = (multiprocessing.current_process()._identity or (0,))[0]
    path = str(FOLDER / f"{task.name}.py")
    env = {"CUDA_VISIBLE_DEVICES": str(slot % task.gpus)} if on_device else {}
    if on_device and task.name in WORLDS:
        env |= {**_ONE_RANK, "MASTER_PORT": str(29500 + slot)}
    request = build_request(
        path,
        Variant(
            task.side,
            env=env,
            python=task.python,
        ),
        target=task.target,
        jobs=1,
        on_device=on_device,
        cache_dir=task.cache,
        script=ScriptCommand(path, steps=task.steps),
        world=1 if on_device else WORLDS.get(task.name, 1),
    )
    started = time.monotonic()
    result: dict[str, Any] = {"name": task.name, "side": task.side}
    try:
        left = max(task.deadline - started, 1)
        bundle = process.compile_in_process(request, timeout_seconds=left)
        result |= describe(bundle)
        result["compiled"] = [asdict(call) for call in bundle.run.compiled]
        result["launches"] = len(bundle.run.launches)
    except PerfcliError as error:
        result |= {"error": str(error), "detail": error.detail or ""}
    result["seconds"] = round(time.monotonic() - started, 1)
    return result


def run_all(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the results of each script's sides."""
    target = targets.get(options.target) if options.target else targets.this_gpu()
    sides = ("device", "offline") if options.on_device else ("offline",)
    deadline = time.monotonic() + options.seconds
    found: dict[str, dict[str, Any]] = {name: {} for name in options.names}
    with tempfile.TemporaryDirectory() as cache, ProcessPoolExecutor(options.parallel) as pool:
        own = (cache, target, options.python, options.gpus, options.steps, deadline)
        tasks = [Task(name, side, *own) for name in options.names for side in sides]
        running = [pool.submit(run_task, task) for task in tasks]
        for future in as_completed(running):
            result = future.result()
            found[result["name"]][result["side"]] = result
            said = result["error"].splitlines()[0] if "error" in result else ""
            kernels = f"{len(result.get('kernels', ())):4d} kernels"
            print(
                f"{result['name']:24s} {result['side']:8s}{kernels} {result['seconds']:6.1f} s  "
                f"{said[:200]}",
                flush=True,
            )
    return found


def compare_all(found: dict[str, dict[str, Any]]) -> list[Compared]:
    """Compare the sides of each script, print a table, and return the comparisons."""
    compared = [compare(name, _MODE, sides) for name, sides in found.items()]
    print(f"\n{'script':24s} {'bodies':>11s} {'configurations':>15s}  differs")
    for each in compared:
        bodies = f"{each.equal}/{each.kernels}"
        configurations = f"{each.equal_configurations}/{each.configurations}"
        print(f"{each.name:24s} {bodies:>11s} {configurations:>15s}  {explain(each)[:160]}")
        for text in each.differs[:3]:
            print(f"    {text[:240]}")
    print("\n".join(summarize(compared)))
    return compared


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="+", default=SCRIPTS, help="only these scripts")
    parser.add_argument("--on-device", action="store_true", help="on this machine's GPU as well")
    parser.add_argument("--target", help="a GPU that is not here; left out: the one that is")
    parser.add_argument("--python", help="an interpreter with another torch")
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--gpus", type=int, default=1, help="shared out among processes")
    parser.add_argument("--steps", type=int, default=2, help="of each script")
    parser.add_argument("--seconds", type=float, default=3600, help="in all")
    parser.add_argument("--json", type=Path, help="all results in one file")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(SCRIPTS)):
        parser.error(f"no such script: {', '.join(unknown)}")
    found = run_all(options)
    failed = [name for name, sides in found.items() if any("error" in s for s in sides.values())]
    print(f"{len(found) - len(failed)} of {len(found)} scripts run")
    compared = compare_all(found) if options.on_device else []
    if options.json is not None:
        document = {"scripts": found, "compared": [asdict(each) for each in compared]}
        options.json.write_text(json.dumps(document))
    return 1 if failed or any(each.bodies or each.differs for each in compared) else 0


if __name__ == "__main__":
    raise SystemExit(main())
