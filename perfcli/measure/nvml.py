"""Asks NVIDIA's management library what times depend on, by its C interface.

``nvidia-smi`` asks the same library in 50 ms and more; a question here takes microseconds.
Whatever can't be told is None.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from perfcli.model import DeviceState

_SM, _MEMORY = 1, 2
_THROTTLE: Mapping[int, str] = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal",
    0x40: "thermal",
    0x80: "power brake",
}
_USE_SAMPLES = 4096
"""The driver keeps several for each process and refuses an array that is too small for all."""


class _ProcessUse(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("time_us", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


class Nvml:
    """Asks about one GPU, by its UUID (``GPU-…``). Raises OSError where the library or the GPU is
    not to be had."""

    def __init__(self, uuid: str) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        if self._library.nvmlInit_v2() != 0 or self._library.nvmlDeviceGetHandleByUUID(
            uuid.encode(), ctypes.byref(self._device)
        ):
            raise OSError(f"NVML has no device {uuid}")

    def driver(self) -> str | None:
        text = ctypes.create_string_buffer(96)
        failed = self._library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96))
        return None if failed else text.value.decode()

    def facts(self) -> dict[str, int | float | bool]:
        """Return what is set, and decides times: compared between two sides."""
        limit = self._number("nvmlDeviceGetEnforcedPowerLimit")
        persistence = self._number("nvmlDeviceGetPersistenceMode")
        found = {
            "max_sm_clock_mhz": self._number("nvmlDeviceGetMaxClockInfo", _SM),
            "max_memory_clock_mhz": self._number("nvmlDeviceGetMaxClockInfo", _MEMORY),
            "power_limit_watts": None if limit is None else limit / 1000,
            "ecc": self._switch("nvmlDeviceGetEccMode"),
            "mig": self._switch("nvmlDeviceGetMigMode"),
            "persistence": None if persistence is None else bool(persistence),
        }
        return {name: value for name, value in found.items() if value is not None}

    def state(self, ours: frozenset[int]) -> DeviceState:
        """Return the GPU's state at this moment. ``ours``: processes that belong to the
        measurement."""
        power = self._number("nvmlDeviceGetPowerUsage")
        return DeviceState(
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", _SM),
            memory_clock_mhz=self._number("nvmlDeviceGetClockInfo", _MEMORY),
            power_watts=None if power is None else power / 1000,
            temperature_celsius=self._number("nvmlDeviceGetTemperature", 0),
            throttle=self._throttle(),
            others_utilisation=self._others(ours),
        )

    def _throttle(self) -> tuple[str, ...]:
        reasons = ctypes.c_ulonglong()
        if self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.byref(reasons)):
            return ()
        return _throttle_reasons(reasons.value)

    def _others(self, ours: frozenset[int]) -> float | None:
        """Return share of the multiprocessors' time that others took, over the driver's last
        samples (a second or less). None where our own processes are not among those it counts: then
        it counts them under other numbers, as in a container."""
        samples = (_ProcessUse * _USE_SAMPLES)()
        count = ctypes.c_uint(_USE_SAMPLES)
        failed = self._ask(
            "nvmlDeviceGetProcessUtilization", samples, ctypes.byref(count), ctypes.c_ulonglong(0)
        )
        if failed:
            return None
        return _others_share([(s.pid, s.time_us, s.sm) for s in samples[: count.value]], ours)

    def _ask(self, function: str, *arguments: Any) -> int:
        asked = getattr(self._library, function, None)
        return 1 if asked is None else int(asked(self._device, *arguments))

    def _number(self, function: str, *which: int) -> int | None:
        value = ctypes.c_uint()
        failed = self._ask(function, *(ctypes.c_uint(w) for w in which), ctypes.byref(value))
        return None if failed else value.value

    def _switch(self, function: str) -> bool | None:
        """Return what is set now, not what is set after the next reset."""
        now, pending = ctypes.c_uint(), ctypes.c_uint()
        failed = self._ask(function, ctypes.byref(now), ctypes.byref(pending))
        return None if failed else bool(now.value)


def _throttle_reasons(bits: int) -> tuple[str, ...]:
    """Return the reasons that slow the clock down; being idle, or a clock that was set, are
    none."""
    return tuple(dict.fromkeys(name for bit, name in _THROTTLE.items() if bits & bit))


def _others_share(samples: list[tuple[int, int, int]], ours: frozenset[int]) -> float | None:
    """Of samples (process, microseconds, percent): the percent of other processes' latest, as a
    share; None where no sample is ours."""
    latest: dict[int, tuple[int, int]] = {}
    for pid, at, percent in samples:
        latest[pid] = max(latest.get(pid, (0, 0)), (at, percent))
    if not ours & latest.keys():
        return None
    return min(sum(p for pid, (_, p) in latest.items() if pid not in ours) / 100, 1.0)
