"""Defines what is derived of raw values when they are read: times of both sides, and the verdict.

Seconds, bytes, and bytes per second everywhere. ``None`` is "not known".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcli.model.measurement import Clocks, DeviceClock, DeviceState, Prepared, SideName
from perfcli.model.values import Outcome

TimeVerdict = Literal["slower", "faster", "same", "unsure"]
OUTCOME_OF: Mapping[TimeVerdict, Outcome] = {
    "slower": "worse", "faster": "better", "same": "same", "unsure": "unknown",
}  # fmt: skip
"""What a time's verdict means for a comparison."""


@dataclass(frozen=True, slots=True)
class TimeChange:
    """Holds the times of both sides, paired by round. ``ratio`` is head over base, with its 95 %
    interval."""

    base: float | None
    """Seconds per step: the median over rounds, so moved that head / base is the ratio."""
    head: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    """The p value of the signed-rank test that the ratio is 1."""
    verdict: TimeVerdict = "unsure"
    rounds: int = 0
    why: str = ""
    """Why it is UNSURE, in a clause."""

    @property
    def delta(self) -> float | None:
        """Return seconds per step that head takes more, as the ratio says."""
        if self.base is None or self.ratio is None:
            return None
        return self.base * (self.ratio - 1)


@dataclass(frozen=True, slots=True)
class Floor:
    """Holds the relative change below which nothing is told apart from noise."""

    relative: float
    """The floor as a part: 0.01 is one percent."""
    source: str
    """``12 identical kernels on both sides, today``, ``perfcli noise, 2026-11-21``, ``assumed``."""
    kernel: float = 0.0
    """The floor for one kernel's time."""
    margin: float | None = None
    """SAME asks for an interval within this, whatever the floor; None: within the floor."""

    @property
    def inside(self) -> float:
        """Return what an interval has to lie within to be SAME, and so what it has to be narrow
        for."""
        return self.relative if self.margin is None else self.margin


WAITS = 0.1
"""Share of a step in which the device waits for the host, from which the step counts as one that
waits: what launching adds between kernels, beside a replayed graph, is less."""


def choose_clock(
    device: TimeChange | None, step: TimeChange, clocks: Clocks, *, waits: bool
) -> Literal["device", "step"]:
    """Return the clock that decides. Slower on either is slower. Else the device decides, which
    sees what kernels cost whatever the host does; the step where it waits for its host and is
    FASTER while the device is the SAME, and where the device can't tell and it does not wait."""
    if device is None or clocks == "step":
        return "step"
    if clocks == "device" or device.verdict == "slower":
        return "device"
    if step.verdict == "slower":
        return "step"
    if waits and (device.verdict, step.verdict) == ("same", "faster"):
        return "step"
    return "step" if device.verdict == "unsure" and not waits else "device"


@dataclass(frozen=True, slots=True)
class GroupTiming:
    """Holds the time of one ``KernelGroup``, or of extern operators of one name (``group`` is
    None)."""

    group: int | None
    name: str
    change: TimeChange
    control: bool = False
    """Identical code on both sides."""
    share_of_step: float | None = None
    """Its share of the base's time on the device (of the head's where new)."""
    share_of_change: float | None = None
    """Its share of the step's change; None where the step's change is not told apart from none."""
    base_bandwidth: float | None = None
    """Achieved bytes per second: bytes moved over time."""
    head_bandwidth: float | None = None
    peak_share: float | None = None
    """Head's bandwidth over the target's."""
    copy_share: float | None = None
    """Head's bandwidth over that of a measured copy."""

    @property
    def delta(self) -> float | None:
        """Return seconds per step that head takes more; all of them where only one side has it."""
        base, head = self.change.base, self.change.head
        if self.change.delta is not None or (base is None and head is None):
            return self.change.delta
        return (head or 0.0) - (base or 0.0)


@dataclass(frozen=True, slots=True)
class Timing:
    """Holds what was measured of two runs, with the verdict."""

    step: TimeChange
    """The step without the profiler: on the device by events, on the CPU by the clock."""
    floor: Floor
    wall: TimeChange | None = None
    """GPU only: until the host was free again."""
    kernels_total: TimeChange | None = None
    """Sum of all kernels' times, from profiled rounds."""
    groups: tuple[GroupTiming, ...] = ()
    unexplained: float | None = None
    """Seconds of the step's change that no kernel's change explains."""
    prepared: tuple[Prepared, ...] = ()
    """The first worker of each side."""
    seconds: float = 0.0
    """Spent measuring."""
    seed: int = 0
    method: str = ""
    stopped: str = ""
    measurement: str = ""
    """Id of the measurement."""
    joined: tuple[int, int] = (0, 0)
    """Launches of generated kernels whose facts are known, and all of them."""
    states: Mapping[str, DeviceState] = field(default_factory=dict)
    """``base`` and ``head``: means over the turns, throttle reasons united."""
    notes: tuple[str, ...] = ()
    traced: Literal["", "step", "busy"] = ""
    """Set where the times are those of two profilers' traces, which nobody took in turns: whether
    ``step`` is the time from step to step, or that in which the device was busy. Then ``wall`` is
    the former."""
    device: TimeChange | None = None
    """GPU only: the device's own time for a step, whatever the host does."""
    device_floor: Floor | None = None
    device_clock: DeviceClock = ""
    """What told ``device``."""
    no_graph: str = ""
    """Why that is not a CUDA graph, in a clause."""
    clocks: Clocks = "both"
    """Whose time was asked to decide."""

    @property
    def clock(self) -> Literal["device", "step"]:
        """Return the clock that decides."""
        waits = (self.waiting or 0.0) >= WAITS
        return choose_clock(self.device, self.step, self.clocks, waits=waits)

    @property
    def deciding(self) -> TimeChange:
        """Return the change of the clock that decides: its verdict is that of the times."""
        return self.device if self.device is not None and self.clock == "device" else self.step

    @property
    def deciding_floor(self) -> Floor:
        if self.device_floor is not None and self.clock == "device":
            return self.device_floor
        return self.floor

    @property
    def waiting(self) -> float | None:
        """Return the share of the step in which the device waits for the host, of the side that
        waits more; None where the device's own time is not known."""
        if self.device is None:
            return None
        sides = ((self.device.base, self.step.base), (self.device.head, self.step.head))
        shares = [1 - busy / whole for busy, whole in sides if busy and whole]
        return max(0.0, *shares) if shares else None

    def of(self, side: SideName) -> Prepared | None:
        """Return the side's first worker."""
        return next((p for p in self.prepared if p.side == side), None)
