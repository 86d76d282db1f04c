"""How long a history of many runs takes: to list it, to draw one series, to check it, to write its
pages.

Entries are made up, with the points of a model of twenty kernels: half of them measured with 1 %
noise. One history has one subject, the other twenty.

    python bench/history_speed.py [--entries 10000] [--folder DIR]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from perfcli.history.entry import Commit, Entry, Point, Subject, encode_points
from perfcli.history.history import History
from perfcli.history.homes import FolderHome
from perfcli.history.series import make_series

KERNELS = 20
METRICS = {
    "kernels": 20, "launches": 40, "loads": 200, "stores": 60, "spilled_words": 0,
    "registers": 128, "bytes_moved": 8e9, "peak_memory_bytes": 4e9, "graphs": 2,
    "graph_breaks": 0, "extern_calls": 36, "shared_bytes": 65536,
}  # fmt: skip


def make_entries(count: int, subjects: int) -> Iterator[Entry]:
    random = np.random.default_rng(0)
    for number in range(count):
        moment = number // subjects
        step = 1.03 if moment > count // subjects // 2 else 1.0
        points = [Point("static", "", name, value) for name, value in METRICS.items()]
        points += [Point("estimated", "", "estimated_seconds", 1e-3 * step, "h100")]
        ratio = step * float(np.exp(0.01 * random.standard_normal()))
        points += [Point("measured", "", "device_time", ratio, "main", ratio * 0.99, ratio * 1.01)]
        for kernel in range(KERNELS):
            name = f"forward 0 triton_red_fused_add_mul_{kernel}_sum"
            points += [
                Point("static", name, "bytes_moved", 1e8 + kernel),
                Point("static", name, "spilled_words", 0),
                Point("estimated", name, "estimated_seconds", 1e-5 * step, "h100"),
                Point("measured", name, "kernel_time", ratio, "main"),
            ]
        yield Entry(
            Subject("model.py:block", {"rows": number % subjects}, target="h100"),
            Commit(
                f"{moment:040x}",
                f"Change number {moment} of the model's forward pass",
                depth=moment + 1,
                repository="0" * 40,
                branch="main",
            ),
            f"2026-01-01T00:00:00.{number:06d}Z",
            {"torch": "2.13.0", "triton": "3.7.1", "python": "3.11.9"},
            points=tuple(each for each in points if not each.kernel),
            kernels=encode_points([each for each in points if each.kernel]),
        )


def fill(folder: Path, count: int, subjects: int) -> None:
    began = time.monotonic()
    History(FolderHome(folder)).add_all(
        [(entry, None) for entry in make_entries(count, subjects)], {}
    )
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{count} entries, {subjects} subjects, {size / 1e6:.0f} MB: "
          f"written in {time.monotonic() - began:.0f} s")  # fmt: skip


def run(*words: str) -> None:
    """Print how long a command takes, from its start to its end, and its processor time."""
    began, before = time.monotonic(), os.times()
    command = [sys.executable, "-m", "perfcli", "history", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    assert done.returncode in (0, 1), done.stderr
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    print(f"  {seconds:5.2f} s, processor {spent:5.2f} s  perfcli history {' '.join(words)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        above = asked.folder or Path(made)
        for subjects in (1, 20):
            place = above / f"history-{subjects}"
            if not place.exists():
                fill(place, asked.entries, subjects)
            os.environ["PERFCLI_HISTORY"] = str(place)
            began = time.monotonic()
            entries = History(FolderHome(place)).entries()
            series = make_series(entries[:: max(subjects, 1)])
            print(f"  {time.monotonic() - began:5.2f} s  read, {len(series)} series made of one")
            run("show")
            run("show", "model.py", "--metric", "estimated_seconds")
            page = place / "plot.html"
            run("plot", "model.py:block", "--metric", "device_time", "--html", str(page))
            run("check")
            if subjects > 1:
                run("site", str(place / "site"), "-q")
                sizes = [path.stat().st_size for path in (place / "site").iterdir()]
                print(f"  {len(sizes)} pages, the largest {max(sizes) / 1e6:.2f} MB")
            else:
                print(f"  a page of {page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
