"""Sweeps 200 variants on local Ray clusters of one and of two nodes, kills a node half-way, and
counts what is complete, lost or there twice: ``python bench/sweep_cluster.py [--real] DIR``.

A node is a raylet with processes of its own. Without ``--real`` a compilation is made up and takes
one second without using a core (``PERFCLI_FAKE=takes:1``): that measures the executor, not the
machine. With ``--real`` 32 variants are compiled on nodes of one core, which have a cache each; how
much faster two nodes are says something only on cores that nobody else uses, so the load is
printed, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfcli.storing import store

ROWS = ",".join(str(1024 * n) for n in range(1, 11))
COLUMNS = ",".join(str(512 * n) for n in range(1, 11))
FAKE = ("sweep", "softmax", "rmsnorm", "-p", f"rows={ROWS}", "-p", f"columns={COLUMNS}")
REAL: tuple[str, ...] = ("sweep", "softmax", "rmsnorm", "--preset", "smoke")
REAL += ("-p", "columns=512,1024,2048,4096")
REAL += ("-o", "split_reductions=unset,false", "-o", "triton.multi_kernel=0,1")
CACHE = "PERFCLI_CACHE_DIR"
SLOTS = 2
"""Compilations at a time on a node, of which each takes a second; with ``--real`` one."""


class Sweep:
    """Runs the command in a folder of its own against a cluster."""

    def __init__(self, folder: Path, address: str, real: bool) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        typed = (*(REAL if real else FAKE), "--executor", "ray", "--address", address)
        self.command = [sys.executable, "-m", "perfcli", *typed, "--json", "sweep.json", "-q"]
        own = {} if real else {"PERFCLI_FAKE": "takes:1"}
        self.environment = {**os.environ, **own, CACHE: str(folder / "cache")}

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command, cwd=self.folder, env=self.environment)

    def count(self) -> int:
        return len(list(self.folder.glob(".perfcli/runs/*.json")))

    def wait_for(self, count: int, process: subprocess.Popen[bytes]) -> float:
        """Wait until so many runs are stored; return when that was."""
        while self.count() < count:
            assert process.poll() is None, "the sweep ended early"
            time.sleep(0.02)
        return time.monotonic()

    def judge(self) -> dict[str, Any]:
        """Return what is there: rows, failures, runs, and those that are there twice."""
        rows = json.loads((self.folder / "sweep.json").read_text())["variants"]
        runs = store.runs(self.folder / store.FOLDER)
        marks = Counter(stored.header.fingerprint for stored in runs)
        return {
            "rows": len(rows),
            "failed": sum(bool(row["error"]) for row in rows),
            "runs": sum(marks.values()),
            "twice": sum(times - 1 for times in marks.values()),
            "lost": sum(not row["run"] for row in rows),
            "stored_before": sum(row["reused"] for row in rows),
        }


def measure(folder: Path, nodes: int, real: bool) -> float:
    """Return the variants per second between the first and the last stored one: neither torch's
    import on a cold machine nor the start of Ray counts."""
    with_nodes = _Nodes(folder, nodes, 1 if real else SLOTS)
    try:
        sweep = Sweep(folder, with_nodes.address, real)
        process = sweep.start()
        began = sweep.wait_for(1, process)
        assert process.wait() == 0
        seconds = time.monotonic() - began
        judged = sweep.judge()
        said = {"nodes": nodes, "seconds": round(seconds, 1), "load": round(os.getloadavg()[0], 1)}
        print(json.dumps({**said, **judged}), flush=True)
        rows: int = judged["rows"]
        return (rows - 1) / seconds
    finally:
        with_nodes.close()


def kill(folder: Path, real: bool, what: Callable[[_Nodes, subprocess.Popen[bytes]], bool]) -> None:
    """Kill a node, or the sweep itself, when half of all is stored."""
    with_nodes = _Nodes(folder, 2, 1 if real else SLOTS)
    try:
        sweep = Sweep(folder, with_nodes.address, real)
        process = sweep.start()
        sweep.wait_for(16 if real else 100, process)
        again = what(with_nodes, process)
        code = process.wait()
        if again:
            code = sweep.start().wait()
        print(json.dumps({"killed": what.__name__, "code": code, **sweep.judge()}), flush=True)
    finally:
        with_nodes.close()


def one_node(nodes: _Nodes, process: subprocess.Popen[bytes]) -> bool:
    nodes.cluster.remove_node(nodes.workers[0], allow_graceful=False)
    return False


def the_sweep(nodes: _Nodes, process: subprocess.Popen[bytes]) -> bool:
    process.kill()
    return True


class _Nodes:
    """Starts a head without cores, and so many nodes with some and a cache each."""

    def __init__(self, folder: Path, count: int, cores: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.workers = []
        for number in range(count):
            os.environ[CACHE] = str(folder / f"cache-{number}")
            self.workers.append(self.cluster.add_node(num_cpus=cores))
        self.cluster.wait_for_nodes()
        self.address = str(self.cluster.address)

    def close(self) -> None:
        self.cluster.shutdown()


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("folder", type=Path)
    asked.add_argument("--real", action="store_true")
    typed = asked.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # wherever a process is started
    folder, real = typed.folder.absolute(), typed.real
    kill(folder / "killed-node", real, one_node)
    kill(folder / "killed-sweep", real, the_sweep)
    one, two = (measure(folder / f"{n}-nodes", n, real) for n in (1, 2))
    print(json.dumps({"two nodes over one": round(two / one, 3)}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
