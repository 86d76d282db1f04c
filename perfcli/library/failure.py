"""Renders the kernels that a failed test asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from textwrap import fill

from perfcli import units
from perfcli.console.output import render, screen
from perfcli.library.kernel import Kernel
from perfcli.library.kernels import Kernels
from perfcli.storing.store import keep_out_of_commits

MOST_LINES = 60
"""Of a kernel's source, from its signature on."""
COLUMNS = 110
FULL = "--perfcli-full shows all"
_FOLDER = Path(".perfcli") / "pytest"


def section(seen: Sequence[Kernels], full: bool = False) -> str:
    """Return each compilation's kernels, and the worst kernel of all with its facts and its source
    behind what each line became. Only so many lines, and none that is wider, unless it is to be
    ``full``: then every kernel has its own."""
    if full:
        return "\n".join(_of_one(kernels) for kernels in seen)
    lines = [render(screen().run(kernels.run), COLUMNS) for kernels in seen]
    every = [kernel for kernels in reversed(seen) for kernel in kernels]
    lines += [_of_kernel(kernel) for kernel in sorted(every, key=_weight)[:1]]
    if left := len(every) - 1:
        lines.append(f"… and {units.plural(left, 'kernel')} more; {FULL}\n")
    return "\n".join(lines)


def _of_one(kernels: Kernels) -> str:
    shown = [kernel.report(COLUMNS) for kernel in sorted(kernels, key=_weight)]
    return "\n".join((render(screen().run(kernels.run), COLUMNS), *shown))


def write_report(seen: Sequence[Kernels], root: Path, test: str) -> str:
    """Write the full section of a test into a folder beside the stored runs; return its place below
    ``root``, empty where it can't be written."""
    name = re.sub(r"[^\w.\[\]-]+", "-", test)[-120:].strip("-")
    path = _FOLDER / f"{name}.txt"
    try:
        (root / _FOLDER).mkdir(parents=True, exist_ok=True)
        (root / path).write_text(section(seen, full=True), encoding="utf-8")
    except OSError:
        return ""
    keep_out_of_commits(root / _FOLDER.parent)
    return str(path)


def _weight(kernel: Kernel) -> tuple[int, int, int, int]:
    """Return the weight of a kernel: what spills most comes first, then what moves most in a step;
    never launched ones come last."""
    moved = (kernel.bytes_moved or 0) * kernel.launches
    return (not kernel.launches, -(kernel.spilled_words or 0), -moved, kernel.number)


def _of_kernel(kernel: Kernel) -> str:
    facts = render(screen().kernel(kernel.number, kernel.facts, None), COLUMNS)
    said = (units.printable(f"{f.code} {f.severity}: {f.headline}") for f in kernel.findings)
    findings = "".join(f"{fill(line, COLUMNS, subsequent_indent='  ')}\n" for line in said)
    return f"{facts}\n{findings}{_cut(kernel)}"


def _cut(kernel: Kernel) -> str:
    """Return its source without what stands before the kernel itself."""
    head, *lines = kernel.source.splitlines()
    start = next((n for n, line in enumerate(lines) if " def " in line), 0)
    kept = list(islice(lines, start, start + MOST_LINES))
    cut = [line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…" for line in (head, *kept)]
    left = len(lines) - start - len(kept)
    return "\n".join(cut) + (f"\n… {units.plural(left, 'line')} more; {FULL}\n" if left else "\n")
