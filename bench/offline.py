"""Compiles every architecture of architectures.py for an H100, forward and training, without a
GPU and with an empty cache: ``make architectures``. Ends with 1 where one fails or yields no
kernel. It is not the fidelity check: nothing is held against a real device here.
"""

from __future__ import annotations

import argparse
import re
import runpy
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.machine import targets
from perfcli.model import Run, Target, Variant
from perfcli.worker.process import compile_in_process
from perfcli.workflow.request import build_request

ARCHITECTURES = Path(__file__).with_name("architectures.py")
MODES = ("forward", "training")
TIMEOUT_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Outcome:
    """One architecture in one mode: its run, or the first line of the error."""

    name: str
    mode: str
    seconds: float
    run: Run | None = None
    error: str = ""

    @property
    def failed(self) -> bool:
        return self.run is None or not self.run.kernels


def outcomes(target: Target, only: str, jobs: int, cache: str) -> Iterator[Outcome]:
    for name in runpy.run_path(str(ARCHITECTURES))["ARCHITECTURES"]:
        for mode in MODES:
            if only in f"{name} {mode}":
                yield compiled(name, mode, target, jobs, cache)


def compiled(name: str, mode: str, target: Target, jobs: int, cache: str) -> Outcome:
    request = build_request(
        f"{ARCHITECTURES}:{name}",
        Variant("offline"),
        params={"mode": mode},
        target=target,
        jobs=jobs,
        cache_dir=cache,
    )
    started = time.monotonic()
    try:
        run = compile_in_process(request, 0, lambda _: None, TIMEOUT_SECONDS).run
    except PerfcliError as error:
        return Outcome(name, mode, time.monotonic() - started, error=str(error).splitlines()[0])
    return Outcome(name, mode, time.monotonic() - started, run)


def notes(run: Run) -> list[str]:
    return [*run.notes, *(note for kernel in run.kernels for note in kernel.notes)]


def breaks(run: Run) -> int:
    """How often a graph broke; the run lists ``reason (×count)``."""
    counts = (re.search(r"\(×(\d+)\)$", reason) for reason in run.graph_breaks)
    return sum(int(found[1]) if found else 1 for found in counts)


def kinds(found: Sequence[Outcome]) -> Counter[str]:
    """Notes without their numbers, and in how many of the runs each stands."""
    runs = [outcome.run for outcome in found if outcome.run is not None]
    return Counter(kind for run in runs for kind in {_kind(note) for note in notes(run)})


def _kind(note: str) -> str:
    return re.sub(r"\b\d+\b", "N", note)


def cells(outcome: Outcome) -> tuple[str, ...]:
    if outcome.run is None:
        return (outcome.name, outcome.mode, "", "", "", "", f"failed: {outcome.error}")
    run = outcome.run
    counts = (len(run.graphs), len(run.kernels), breaks(run), len(notes(run)))
    return (outcome.name, outcome.mode, *map(str, counts), f"{outcome.seconds:.0f}")


HEADER = ("architecture", "mode", "graphs", "kernels", "graph breaks", "notes", "seconds")
WIDTHS = (13, 10, 8, 9, 14, 7, 0)


def line(outcome: Outcome) -> str:
    return _aligned(cells(outcome))


def _aligned(texts: Sequence[str]) -> str:
    return "".join(text.ljust(width) for text, width in zip(texts, WIDTHS, strict=True))


def page(found: Sequence[Outcome], target: Target) -> str:
    """The table as docs/architectures.md has it."""
    done = [outcome.run for outcome in found if outcome.run is not None]
    lines = ["# Ten architectures without a GPU", ""]
    if done:
        made = done[0].environment
        lines += [
            f"`make architectures` on {datetime.now(UTC):%Y-%m-%d}, no GPU; for "
            f"{target.description}; torch {made.torch}, triton {made.triton}, Python "
            f"{made.python}. Architectures of a public model library with random weights and few "
            "layers: [bench/architectures.py](../bench/architectures.py).",
            "",
        ]
    good = sum(not outcome.failed for outcome in found)
    lines += [
        f"{good} of {len(found)} compile. Whether the kernels are those of a real GPU is another "
        "question: [fidelity](fidelity.md).",
        "",
        "| " + " | ".join(HEADER) + " |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += ["| " + " | ".join(map(_escaped, cells(outcome))) + " |" for outcome in found]
    lines += [
        "",
        "*Graph breaks* are counted by reason and occurrence. *Seconds* are one worker's, from "
        "its start to its result; the cache was empty before the first; the machine had other "
        "users.",
        "",
        "## Notes",
        "",
        "What a run assumed, or left to run as it is; N is a number.",
        "",
    ]
    found_kinds = kinds(found).most_common()
    lines += [f"* {kind} ({count} of {len(done)} runs)" for kind, count in found_kinds] or ["None."]
    return "\n".join(lines) + "\n"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="write the table as Markdown")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--target", default="h100")
    parser.add_argument("--jobs", type=int, default=2, help="kernels compiled at a time")
    options = parser.parse_args()
    target = targets.get(options.target)
    found: list[Outcome] = []
    print(_aligned(HEADER))
    with tempfile.TemporaryDirectory() as cache:
        for outcome in outcomes(target, options.only, options.jobs, cache):
            found.append(outcome)
            print(line(outcome), flush=True)
    for kind, count in kinds(found).most_common():
        print(f"note in {count}: {kind}")
    if options.page is not None:
        options.page.write_text(page(found, target))
    good = sum(not outcome.failed for outcome in found)
    print(f"{good} of {len(found)} compile")
    return 0 if found and good == len(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
