"""Measures the variants of a sweep: each in turns with the first one that computes the same, its
control, in one session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.console.notes import Notes
from perfcli.console.tally import Tally
from perfcli.diff.compare import gather_evidence
from perfcli.errors import Interrupted, PerfcliError
from perfcli.model import Comparison, DeviceClock, Measured, Measurement, RoundKind, SideName
from perfcli.stats import paired, series
from perfcli.storing import timings
from perfcli.sweep.devices import Devices
from perfcli.worker.roles import Progress
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.obtain import Obtained
from perfcli.workflow.pair import add_times, has_same_code
from perfcli.workflow.setting import Setting


@dataclass(frozen=True, slots=True)
class _Variant:
    number: int
    job: Job
    made: Obtained


@dataclass(frozen=True, slots=True)
class _Session:
    """Holds what was measured of both sides: neither where they have the same code. Where measuring
    failed, the head says why."""

    base: Measured | None = None
    head: Measured | None = None


class Sessions:
    """Takes the measurements of a sweep while its variants arrive; a context manager.

    ``groups`` are the numbers of the variants that compute the same, in order: the first one that
    compiles is the control of the others, and alone it is measured against itself. Where nothing
    may be compiled beside them, sessions begin when all has arrived.
    """

    def __init__(self, devices: Devices, groups: Sequence[Sequence[int]], notes: Notes) -> None:
        self._groups = groups
        self._devices = devices
        self._setting = devices.setting
        self._notes = notes
        self._arrived: dict[int, _Variant | None] = {}
        self._known: dict[int, _Session] = {}
        """By the number of the variant that is held against its control."""
        self._begun: dict[int, Comparison] = {}
        self._elsewhere: Counter[str] = Counter()
        """How many stored measurements are of another device, by its name."""

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        self._devices.close()

    def take(self, number: int, job: Job, made: Obtained | PerfcliError) -> None:
        """Take a variant that is compiled, or has failed."""
        known = None if isinstance(made, PerfcliError) else _Variant(number, job, made)
        self._arrived[number] = known
        if self._devices.beside:
            self._open(next(group for group in self._groups if number in group))

    def finish(self) -> dict[int, Measured]:
        """Return what was measured of each variant that compiled, or why nothing was. Raises
        Interrupted on Ctrl-C."""
        for group in self._groups:
            self._open(group)
        self._say_where()
        self._wait()
        for group in self._groups:
            control = self._find_control(group)
            if control is not None and not self._list_bases(group):
                self._submit(control, control)
        self._wait()
        found = {number: each for group in self._groups for number, each in self._read(group)}
        if len(kinds := dict.fromkeys(each.device for each in found.values() if each.device)) > 1:
            self._notes.warn(
                f"measured on {' and '.join(kinds)}: compare variants by their ratios, as each had "
                "its control beside it; their times do not go together"
            )
        return found

    def _wait(self) -> None:
        """Wait for all that is being measured."""
        if not self._begun:
            return
        self._notes.say(
            f"measuring {units.plural(len(self._begun), 'variant')} on {self._devices.title}, each "
            f"in turns with its control for up to {self._setting.budget:g} s"
        )
        try:
            with Tally([""] * len(self._begun), self._notes, "measured") as tell:
                for place, (number, made) in enumerate(self._devices.finish()):
                    self._known[number] = self._judge(self._begun[number], made)
                    tell(Progress(place, "done"))
        except KeyboardInterrupt as error:
            raise Interrupted(
                "interrupted; all runs are stored, and so are the measurements that had ended"
            ) from error
        self._begun.clear()

    def _judge(self, compared: Comparison, made: Measurement | PerfcliError) -> _Session:
        try:
            if isinstance(made, PerfcliError):
                raise made
            return _describe(compared, made, self._setting)
        except PerfcliError as error:
            return _Session(head=Measured(why=str(error)))

    def _open(self, group: Sequence[int]) -> None:
        """Begin the sessions of the variants that have arrived, once their control is known: the
        first that compiles."""
        if (control := self._find_control(group)) is None:
            return
        for number in group:
            variant = self._arrived.get(number)
            begun = number in self._known or number in self._begun
            if variant is not None and variant is not control and not begun:
                self._submit(control, variant)

    def _find_control(self, group: Sequence[int]) -> _Variant | None:
        for number in group:
            if number not in self._arrived or self._arrived[number] is not None:
                return self._arrived.get(number)
        return None

    def _submit(self, control: _Variant, variant: _Variant) -> None:
        base, head = control.made.run, variant.made.run
        try:
            compared = gather_evidence(base, head)
            if variant is not control and has_same_code(compared, self._setting):
                self._known[variant.number] = _Session()
            elif known := self._find_stored(base.id, head.id):
                self._known[variant.number] = _describe(compared, known, self._setting, True)
            else:
                self._begun[variant.number] = compared
                self._devices.begin(variant.number, compared, (control.job, variant.job))
        except PerfcliError as error:
            self._known[variant.number] = _Session(head=Measured(why=str(error)))

    def _find_stored(self, base: str, head: str) -> Measurement | None:
        """Return the newest stored measurement that can stand for a new one."""
        found = timings.find_measurement(base, head).measurement
        of_device = self._setting.asked.clocks == "device"
        if found is None or not found.ran_to_its_end or found.machine is None:
            return None
        if of_device and not all(each.device_clock for each in found.prepared):
            return None
        if found.machine.device != (self._devices.name or found.machine.device):
            self._elsewhere[found.machine.device] += 1
            return None
        return found

    def _list_bases(self, group: Sequence[int]) -> list[Measured]:
        """Return what the sessions of a group say of its control."""
        known = (self._known.get(number) for number in group)
        return [session.base for session in known if session and session.base]

    def _read(self, group: Sequence[int]) -> Iterator[tuple[int, Measured]]:
        """Yield what the sessions of a group say of its variants. One without a session has the
        code of its control."""
        if (control := self._find_control(group)) is None:
            return
        alone = self._known.get(control.number, _Session())
        (first, *_) = [*self._list_bases(group), alone.head or Measured()]
        for number in group:
            session = self._known.get(number, _Session())
            if number == control.number:
                yield number, first
            elif self._arrived[number] is not None:
                yield number, session.head or first

    def _say_where(self) -> None:
        """Say so where what was measured before is of another device."""
        for other, count in self._elsewhere.items():
            self._notes.warn(
                f"{units.plural(count, 'variant')} measured on {other} before: measured again on "
                f"{self._devices.name}, as times of both do not go together"
            )


def _describe(
    compared: Comparison, measured: Measurement, setting: Setting, reused: bool = False
) -> _Session:
    """Return both sides of a measurement. Raises PerfcliError where the clock that was asked for
    says nothing."""
    timing = add_times(compared, measured, setting.asked.clocks or "both").timing
    assert timing is not None
    if timing.clock != setting.asked.clocks:
        raise PerfcliError(
            f"the device's own time is not known ({timing.no_graph or 'no profile'}): --time step "
            "measures the step"
        )
    kinds: dict[DeviceClock, RoundKind] = {"graph": "device", "profiler": "kernels"}
    kind = "step" if timing.clock == "step" else kinds[timing.device_clock]
    rounds, change = series.clock_series(measured.rounds, kind), timing.deciding

    def describe(side: SideName, seconds: Sequence[float]) -> Measured:
        worker, middle = measured.of(side), paired.median(seconds)
        if middle is None or worker is None:
            raise PerfcliError("measured, and no round can be used")
        return Measured(
            *(middle.value, middle.low, middle.high),
            clock=timing.clock,
            device=worker.machine.device,
            memory_bytes=worker.memory.peak_allocated_bytes if worker.memory else None,
            measurement=measured.id,
            reused=reused,
        )

    base, head = describe("base", rounds.base), describe("head", rounds.head)
    return _Session(
        replace(base, ratio=1.0),
        replace(head, ratio=change.ratio, ratio_low=change.low, ratio_high=change.high),
    )
