"""Holds all kernels of one function, module or scenario, as the library returns them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from perfcli import diagnosis, units
from perfcli.console.output import check_writable, render, screen
from perfcli.errors import PerfcliError
from perfcli.frames.kernels import KERNELS
from perfcli.library.compared import Compared, compare_runs
from perfcli.library.kernel import Kernel, NotKnown, Total, counted, line, listed, meant, total
from perfcli.library.speaking import in_python
from perfcli.model import Finding, Run, Severity
from perfcli.storing import runfile
from perfcli.workflow.obtain import Obtained


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Kernels(Sequence[Kernel]):
    """The generated kernels of one compilation, in the order of its graphs.

    Totals are static sums over the kernels that a step launches, each counted once however often
    it is launched; ``launches``, ``bytes_moved``, ``bytes_swept`` and ``lower_bound_seconds`` are
    those of one step; ``registers`` and ``shared_bytes`` those of the worst kernel. A total that
    is not known raises NotKnown.
    """

    run: Run
    """Everything that is known, as it is stored."""
    findings: tuple[Finding, ...]
    """What the rules say, the gravest first."""
    obtained: Obtained = field(repr=False)
    items: tuple[Kernel, ...] = field(repr=False)

    @overload
    def __getitem__(self, index: int) -> Kernel: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Kernel, ...]: ...
    def __getitem__(self, index: int | slice) -> Kernel | tuple[Kernel, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self.items)

    @property
    def loads(self) -> Total:
        """Load instructions in the kernels' sources."""
        return counted(self.run, "loads")

    @property
    def loads_in_loops(self) -> Total:
        """Return how many of the loads are inside loops."""
        return counted(self.run, "loads_in_loops")

    @property
    def stores(self) -> Total:
        """Store instructions in the kernels' sources."""
        return counted(self.run, "stores")

    @property
    def spilled_words(self) -> Total:
        """Return the 32-bit words per thread that registers were spilled into."""
        return counted(self.run, "spilled_words")

    @property
    def registers(self) -> Total:
        """Return the registers of a thread, in the kernel that has most."""
        return counted(self.run, "registers")

    @property
    def shared_bytes(self) -> Total:
        """Return the shared memory of a block, in the kernel that has most."""
        return counted(self.run, "shared_bytes")

    @property
    def bytes_moved(self) -> Total:
        """Read and written by one step, each buffer once for each launch."""
        return counted(self.run, "bytes_moved")

    @property
    def bytes_swept(self) -> Total:
        """Return the same, if every sweep over a buffer goes to memory again."""
        return counted(self.run, "bytes_swept")

    @property
    def launches(self) -> Total:
        """Return how many launches of generated kernels a step has."""
        return counted(self.run, "launches")

    @property
    def lower_bound_seconds(self) -> float:
        """Return the lower bound for one step: bytes moved over the target's bandwidth."""
        return total(self.run, "lower_bound_seconds")

    @property
    def estimated_seconds(self) -> float:
        """Return how long the generated kernels of one step are estimated to take on the target,
        without running them."""
        launched = [kernel for kernel in self.run.kernels if kernel.launches]
        missing = sum(not k.estimate or k.estimate.is_rough for k in launched)
        if missing:
            raise NotKnown(
                f"estimated_seconds of {self.run.scenario} is not known: {missing} of its "
                f"{len(launched)} kernels have no estimate, or one from their bytes alone"
            )
        return sum(k.estimate.of_step * k.launches for k in launched if k.estimate)

    @property
    def extern_calls(self) -> int:
        """Return the calls in one step of operators that Inductor generates no code for."""
        return self.run.count_externs().total()

    @property
    def graph_breaks(self) -> int:
        """Return how often Dynamo gave up on a part of the function; why: ``run.graph_breaks``."""
        return sum(self.run.graph_breaks.values())

    @property
    def peak_memory_bytes(self) -> int:
        """Return Inductor's estimate for the worst graph.

        Raises NotKnown where torch gives none.
        """
        if self.run.peak_memory_bytes is None:
            raise NotKnown(f"peak_memory_bytes of {self.run.scenario} is not known")
        return self.run.peak_memory_bytes

    def to_frame(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per kernel; docs/frames.md has the
        columns."""
        return KERNELS.to_frame(self.items)

    def compare(self, base: Kernels | str | Path, allow: Sequence[str] = ()) -> Compared:
        """Return what got worse since ``base``: other kernels, or a file that ``save`` wrote.

        Raises NotComparable where target, device, mode or shapes differ in kind (``allow`` names
        what may: ``target``, ``device``, ``mode``, ``dynamic``).
        """
        with in_python():
            if not isinstance(base, Kernels):
                from perfcli.workflow.obtain import load_stored

                base = kernels_of(load_stored(str(base)))
            return compare_runs(base.run, self.run, (allow,) if isinstance(allow, str) else allow)

    def assert_no_findings(self, *codes: str, severity: Severity = "info") -> None:
        """Raise AssertionError that lists them where a rule has something to say.

        Args:
            codes: beginnings of rules' codes (``PC1``, ``PC203``); none: every rule.
            severity: the least that counts.

        Raises:
            PerfcliError: no rule's code begins so.
        """
        __tracebackhide__ = True  # of pytest: a test's own lines are what is wrong
        found = meant(self.findings, codes, severity)
        if found:
            raise AssertionError(listed(found, self.run.scenario))

    def report(self, columns: int = 100) -> str:
        """Return what ``perfcli run`` shows, then the findings."""
        shown = render(screen().run(self.run), columns)
        return shown + "".join(f"{line(f)}\n" for f in self.findings)

    def save(self, path: str | Path) -> Path:
        """Writes a stored run, which perfcli's commands, ``compare`` and ``inspect`` read.

        Raises PerfcliError where it can't be written; no folder is made.
        """
        target = Path(path)
        check_writable(target)
        if self.obtained.bundle is not None:
            runfile.write(self.obtained.bundle, target)
        elif self.obtained.path is not None:
            try:
                shutil.copyfile(self.obtained.path, target)
            except OSError as error:
                raise PerfcliError(runfile.cannot_write(target, error)) from error
        return target

    def __repr__(self) -> str:
        kernels = units.plural(len(self), "kernel")
        return f"<Kernels of {self.run.scenario} for {self.run.place}: {kernels}>"

    def __rich__(self) -> Any:
        return screen().run(self.run)


def kernels_of(obtained: Obtained) -> Kernels:
    """Return the kernels of a run. Raises RuleFailed where a rule of perfcli's fails."""
    run, findings = diagnosis.examine(obtained.run)
    items = tuple(
        Kernel(
            number,
            facts,
            tuple(f for f in findings if number in f.kernels),
            lambda blob=facts.source: obtained.text(blob),  # type: ignore[misc]
        )
        for number, facts in enumerate(run.kernels)
    )
    return Kernels(run, findings, obtained, items)
