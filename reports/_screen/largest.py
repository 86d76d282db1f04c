"""The kernels that move most bytes: what is left to look at where no rule found anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from perfcli import units
from perfcli.model import Run

from .._rows.names import shorten
from .tables import start_table

MOST = 3
LEAST_NAME = 20
_NUMBERS_WIDTH = 26


def _find_largest(run: Run) -> list[int]:
    """Return the kernels that move most bytes in a step; the first ones where bytes are not
    known."""
    launched = [number for number, kernel in enumerate(run.kernels) if kernel.launches]
    return sorted(launched, key=lambda number: -(_moved(run, number) or 0))[:MOST]


def _moved(run: Run, number: int) -> int | None:
    kernel = run.kernels[number]
    return None if kernel.bytes_moved is None else kernel.bytes_moved * kernel.launches


@dataclass(frozen=True)
class _Largest:
    """Launches, bytes and lower-bound time of a step, and the kernels with most of the bytes."""

    run: Run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"generated kernels: {', '.join(self._step())}")
        moved = {number: _moved(self.run, number) for number in _find_largest(self.run)}
        every = sum(self._known())
        if not every:
            return
        table = start_table()
        table.add_column("", justify="right")
        table.add_column("kernels that move most bytes", no_wrap=True)
        for title in ("bytes", "share"):
            table.add_column(title, justify="right", no_wrap=True)
        room = max(options.max_width - _NUMBERS_WIDTH, LEAST_NAME)
        for number, size in moved.items():
            name = shorten(units.printable(self.run.kernels[number].name), room)
            share = units.percent(None if size is None else size / every)
            table.add_row(str(number), name, units.size(size), share)
        yield Text("")
        yield table

    def _known(self) -> Sequence[int]:
        every = (_moved(self.run, number) for number in range(len(self.run.kernels)))
        return [moved for moved in every if moved is not None]

    def _step(self) -> Iterator[str]:
        kernels = self.run.kernels
        launches = sum(kernel.launches for kernel in kernels)
        yield f"{units.plural(launches, 'launch', 'launches')} per step"
        if self._known():
            yield f"{units.size(sum(self._known()))} moved"
        bounds = [k.lower_bound_seconds * k.launches for k in kernels if k.lower_bound_seconds]
        if bounds:
            yield f"lower-bound time {units.seconds(sum(bounds))}"
