"""What a measurement is told to while it runs: its file, and people."""

from __future__ import annotations

from perfcli.commands._progress import Notes, Reporter
from perfcli.errors import PerfcliError
from perfcli.interleave import record
from perfcli.model import Measurement, Prepared, Round, SideName
from perfcli.worker.executor import Phase, Progress

_SIDES: tuple[SideName, ...] = ("base", "head")


class Watch:
    """Writes each round at once, and shows how far it is; a ``pair.Sink``. What can't be written
    is said once, and measured all the same."""

    def __init__(self, measurement: Measurement, progress: Reporter, notes: Notes) -> None:
        self.rounds = 0
        self._budget = measurement.budget_seconds
        self._at_once = measurement.device == "cpu"
        self._progress = progress
        self._notes = notes
        self._recorder: record.Recorder | None = None
        try:
            self._recorder = record.Recorder(measurement)
        except PerfcliError as error:
            self._complain(str(error))

    @property
    def kept(self) -> str:
        """``12 rounds are kept in .perfcli/timings/….jsonl``; empty where nothing is."""
        if self._recorder is None or not self.rounds or self._recorder.failure:
            return ""
        number = "1 round is" if self.rounds == 1 else f"{self.rounds} rounds are"
        return f"{number} kept in {self._recorder.path}"

    def told(self, side: SideName, phase: Phase) -> None:
        """On the CPU both get ready at once, and the head's phases are heard of after the base's
        last: the base's stand for both."""
        if not self._at_once:
            self._progress(Progress(_SIDES.index(side), phase))
        elif side == "base":
            self._progress(Progress(len(_SIDES), phase))

    def prepared(self, prepared: Prepared) -> None:
        if self._recorder is not None:
            self._recorder.prepared(prepared)
            self._look()

    def round(self, measured: Round, elapsed: float) -> None:
        self.rounds += 1
        if self._recorder is not None:
            self._recorder.round(measured)
            self._look()
        text = f"measuring for up to {self._budget:g} s"
        done, total = min(int(elapsed), int(self._budget)), int(self._budget)
        self._progress(Progress(len(_SIDES), "done", done, total, text))

    def end(self, stopped: str, method: str = "", notes: tuple[str, ...] = ()) -> None:
        """A measurement without a round leaves no file: it would hide an older one."""
        if self._recorder is not None:
            self._recorder.end(stopped, method, notes)

    def _look(self) -> None:
        if self._recorder is not None and self._recorder.failure:
            self._complain(self._recorder.failure)
            self._recorder = None

    def _complain(self, reason: str) -> None:
        self._notes.warn(f"{reason}; the measurement is not stored, the report follows")
