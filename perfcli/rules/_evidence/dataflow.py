"""Finds what kernels hand on to each other through memory, and through which operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from perfcli.model import Buffer, KernelFacts, OperatorCall, Run

_Name = tuple[str, str]
"""A graph, and the name of a buffer in it."""


@dataclass(frozen=True, slots=True)
class Passing:
    """Says that one kernel reads what another has written."""

    writer: int
    reader: int
    """Indices into ``Run.kernels``."""
    written: tuple[Buffer, ...]
    """The writer's buffers; several where it writes parts of a ``cat``."""
    read: Buffer
    alone: bool
    """Whether nothing else needs it: fused, it would not be written."""

    @property
    def parts(self) -> int:
        return len(self.written) if self.written[0].part_of else 0


@dataclass(frozen=True, slots=True)
class Called:
    """Names one call of a library operator, with Inductor's names of its tensors."""

    graph: str
    op: str
    call: OperatorCall
    operands: tuple[str, ...]

    def pairs(self, written: bool) -> Iterator[tuple[_Name, Buffer]]:
        for name, buffer in zip(self.operands, self.call.buffers, strict=True):
            if buffer.is_written if written else buffer.is_read:
                yield (self.graph, name), buffer


class Dataflow:
    """Holds who writes and who reads each buffer of a run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.writers: dict[_Name, dict[int, list[Buffer]]] = defaultdict(dict)
        self.readers: dict[_Name, set[int]] = defaultdict(set)
        self.calls: list[Called] = []
        self.calling: dict[_Name, list[Called]] = defaultdict(list)
        """The operators that read a buffer."""
        self._steps: dict[str, list[tuple[int | None, frozenset[str], frozenset[str]]]]
        self._steps = defaultdict(list)
        """The launches of each graph: the kernel, what is read and what is written."""
        for number, kernel in enumerate(run.kernels):
            if kernel.launches:
                self._add(number, kernel)
        self._walk()

    def _add(self, number: int, kernel: KernelFacts) -> None:
        for buffer in kernel.buffers:
            if buffer.is_read:
                self.readers[kernel.graph, buffer.name].add(number)
            if buffer.is_written:
                whole = (kernel.graph, buffer.part_of or buffer.name)
                self.writers[whole].setdefault(number, []).append(buffer)

    def _walk(self) -> None:
        kernels = {(kernel.graph, kernel.name): n for n, kernel in enumerate(self.run.kernels)}
        externs = {(extern.graph, extern.op): extern.calls for extern in self.run.externs}
        seen: set[tuple[str, str, tuple[str, ...]]] = set()
        for launch in self.run.launches:
            number = kernels.get((launch.graph, launch.name))
            if not launch.extern and number is not None:
                buffers = self.run.kernels[number].buffers
                read = frozenset(b.name for b in buffers if b.is_read)
                written = frozenset(b.part_of or b.name for b in buffers if b.is_written)
                self._steps[launch.graph].append((number, read, written))
                continue
            names = frozenset(launch.operands)
            self._steps[launch.graph].append((None, names, names))
            key = (launch.graph, launch.name, launch.operands)
            if launch.call is None or key in seen:
                continue
            seen.add(key)
            call = externs[launch.graph, launch.name][launch.call]
            called = Called(launch.graph, launch.name, call, launch.operands)
            self.calls.append(called)
            for name, _ in called.pairs(written=False):
                self.calling[name].append(called)

    def list_passings(self) -> Iterator[Passing]:
        """Yield what a kernel reads of what another one wrote alone, launched as often."""
        for name, numbers in self.readers.items():
            writers = self.writers.get(name, {})
            for reader in sorted(numbers - set(writers)):
                (writer, *others) = writers or (None,)
                if writer is None or others:
                    continue
                two = self.run.kernels[reader], self.run.kernels[writer]
                if two[0].launches != two[1].launches:
                    continue
                read = next(b for b in two[0].buffers if b.name == name[1] and b.is_read)
                written = tuple(writers[writer])
                returned = any(b.graph_output is not False for b in (*written, read))
                alone = len(numbers) == 1 and not self.calling.get(name) and not returned
                yield Passing(writer, reader, written, read, alone)

    def has_between(self, writer: int, reader: int) -> bool:
        """Return whether something else needs the writer and is needed by the reader, so that the
        two can't be one kernel; also where an operator is called on nobody knows what."""
        steps = self._steps[self.run.kernels[writer].graph]
        places = {number: place for place, (number, *_) in reversed(list(enumerate(steps)))}
        if writer not in places or places.get(reader, -1) <= places[writer]:
            return True
        made = steps[places[writer]][2]
        through: set[str] = set()
        for number, read, written in steps[places[writer] + 1 : places[reader]]:
            if number is None and not read:
                return True
            if not read.isdisjoint(made) or not read.isdisjoint(through):
                through |= written - made
        return not steps[places[reader]][1].isdisjoint(through)
