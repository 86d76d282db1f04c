"""Renders the kernels that a failed test asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from textwrap import fill

from perfcli import units
from perfcli.console.output import render, screen
from perfcli.library.kernel import Kernel
from perfcli.library.kernels import Kernels

MOST_KERNELS = 3
MOST_LINES = 60
"""Of a kernel's source, from its signature on."""
COLUMNS = 110
FULL = "--perfcli-full shows all"


def section(seen: Sequence[Kernels], full: bool = False) -> str:
    """Return each compilation's kernels with their facts, the worst first, and their source behind
    what each line became. Only so many, and no line that is wider, unless it is to be ``full``."""
    return "\n".join(_of_one(kernels, full) for kernels in seen)


def _of_one(kernels: Kernels, full: bool) -> str:
    lines = [render(screen().run(kernels.run), COLUMNS)]
    worst = sorted(kernels, key=_weight)
    shown = worst if full else worst[:MOST_KERNELS]
    lines += [_of_kernel(kernel, full) for kernel in shown]
    if left := len(worst) - len(shown):
        lines.append(f"… and {units.plural(left, 'kernel')} more; {FULL}\n")
    return "\n".join(lines)


def _weight(kernel: Kernel) -> tuple[int, int, int, int]:
    """Return the weight of a kernel: what spills most comes first, then what moves most in a step;
    never launched ones come last."""
    moved = (kernel.bytes_moved or 0) * kernel.launches
    return (not kernel.launches, -(kernel.spilled_words or 0), -moved, kernel.number)


def _of_kernel(kernel: Kernel, full: bool) -> str:
    if full:
        return kernel.report(COLUMNS)
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
