"""Notes how long each phase takes in which a worker gets ready, and of what comes in pieces how
long all of it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from perfcli.compile.processor import processor_seconds
from perfcli.compile.stand_in.device import replace_for_block
from perfcli.model import SideName, StartPhase

PIECES = {
    "precompile": "loading or compiling Triton kernels",
    "benchmark_all_configs": "timing launch configurations",
}
"""Methods of Inductor's ``CachingAutotuner``, and what they do."""
_NESTED = (
    ("Dynamo", "_compile.compile_inner"),
    ("AOTAutograd", "OutputGraph.call_user_compiler"),
    ("Inductor", "compile_fx_inner"),
)
"""What generates code, and the name of torch's own clock that runs meanwhile: each calls the next
(torch 2.11 to 2.13)."""


class Phases:
    """Notes the phases of one side, each of which lasts until the next one begins. ``report`` is
    told of it then."""

    def __init__(self, side: SideName, report: Callable[[str], None]) -> None:
        self._side = side
        self._report = report
        self._began: list[tuple[str, float, float]] = []
        self._pieces: dict[str, float] = {}

    def begin(self, name: str) -> None:
        self._began.append((name, time.monotonic(), processor_seconds()))
        self._report(name)

    def add(self, name: str, seconds: float) -> None:
        """Note a piece of something that comes again and again."""
        self._pieces[name] = self._pieces.get(name, 0.0) + seconds

    @contextmanager
    def timing_kernels(self) -> Iterator[None]:
        """Note what Inductor does with Triton kernels in the block."""
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner

        known = vars(CachingAutotuner)
        timed = {n: self._timed(piece, known[n]) for n, piece in PIECES.items() if n in known}
        with replace_for_block(CachingAutotuner, **timed):
            yield

    def _timed(self, name: str, original: Callable[..., object]) -> Callable[..., object]:
        def timed(*args: object, **kwargs: object) -> object:
            began = time.monotonic()
            try:
                return original(*args, **kwargs)
            finally:
                self.add(name, time.monotonic() - began)

        return timed

    def add_compilation(self) -> None:
        """Note how long each of Dynamo, AOTAutograd and Inductor took so far, without the next."""
        from torch._dynamo.utils import compilation_time_metrics as clocks

        taken = [sum(clocks.get(clock, ())) for _, clock in _NESTED]
        for (name, _), whole, inner in zip(_NESTED, taken, [*taken[1:], 0.0], strict=True):
            self.add(name, max(whole - inner, 0.0))

    def finish(self) -> tuple[StartPhase, ...]:
        """Return all phases, of which there is one at least; the last one ends now."""
        ends = [*self._began[1:], ("", time.monotonic(), processor_seconds())]
        phases = [
            StartPhase(self._side, name, at, round(then - at, 3), round(later - used, 3))
            for (name, at, used), (_, then, later) in zip(self._began, ends, strict=True)
        ]
        pieces = self._pieces.items()
        phases += [StartPhase(self._side, name, None, round(took, 3)) for name, took in pieces]
        return tuple(phases)
