"""Steps as CUDA graphs, with a torch that only notes what it is told."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.compile import tracing
from perfcli.measure import clocks, replay, room
from perfcli.model import MemoryUse

GIB = 1 << 30
USED = MemoryUse(3 * GIB, 4 * GIB, "caching allocator")


class Generator:
    """Draws random numbers: each replay advances it."""

    device = "cuda:0"

    def __init__(self, device: str = "") -> None:
        self.offset, self.state = 8, "the first"

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        self.offset = offset

    def initial_seed(self) -> int:
        return 7

    def manual_seed(self, seed: int) -> None:
        self.state = f"fresh, seed {seed}"

    def graphsafe_get_state(self) -> str:
        return self.state

    def graphsafe_set_state(self, state: str) -> None:
        self.state = state


class Event:
    def __init__(self, said: list[str]) -> None:
        self.said = said

    def record(self) -> None:
        self.said.append("event")

    def elapsed_time(self, end: Event) -> float:
        return 1.5


class Device:
    """``torch.cuda``, and what it was told in order."""

    def __init__(self, free: int) -> None:
        self.said: list[str] = []
        self.free, self.total = free, 140 * GIB
        self.default_generators = [Generator()]
        self.mode: Any = 0
        self.capturing = False

    def __getattr__(self, name: str) -> Any:
        def note(*given: Any) -> None:
            self.said.append(name)

        return note

    def Event(self, enable_timing: bool) -> Event:
        return Event(self.said)

    def Stream(self) -> Any:
        return SimpleNamespace(wait_stream=lambda other: None)

    def current_stream(self) -> Any:
        return self.Stream()

    def current_device(self) -> int:
        return 0

    def memory_allocated(self) -> int:
        return GIB

    def memory_reserved(self) -> int:
        return 4 * GIB

    def mem_get_info(self) -> tuple[int, int]:
        return self.free, self.total

    def get_sync_debug_mode(self) -> Any:
        return self.mode

    def set_sync_debug_mode(self, mode: Any) -> None:
        self.mode = mode

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        yield

    def CUDAGraph(self) -> Any:
        def again() -> None:
            self.said.append("replay")
            self.default_generators[0].offset += 4

        return SimpleNamespace(replay=again)

    @contextmanager
    def graph(self, graph: Any, stream: Any) -> Iterator[None]:
        self.capturing = True
        try:
            yield
        except RuntimeError:
            # As torch does: what ends the capture hides what went wrong in it.
            raise RuntimeError("CUDA error: operation failed due to a previous error") from None
        finally:
            self.capturing = False


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device(free=100 * GIB)
    fake = SimpleNamespace(
        __file__="/lib/torch/__init__.py",
        cuda=made,
        Generator=Generator,
        OutOfMemoryError=type("Full", (RuntimeError,), {}),
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(tracing, "replays_graphs", lambda: False)
    monkeypatch.setattr(room, "is_out_of_memory", lambda error: "out of memory" in str(error))
    monkeypatch.setattr(clocks, "cycles_of", lambda seconds: round(seconds * 1e9))
    return made


def a_step(device: Device, fails: Any = None, **more: Any) -> Any:
    def launch() -> str:
        device.said.append("captured" if device.capturing else "launched")
        if fails is not None:
            fails()
        return "outputs"

    request = SimpleNamespace(**{"flush_l2": False, "slow_down": 0.0, **more})
    return SimpleNamespace(launch=launch, request=request)


def test_a_step_is_captured_after_steps_on_the_same_stream(device: Device) -> None:
    found = replay.capture_step(a_step(device), USED)
    assert isinstance(found, replay.Replay)
    assert found.outputs == "outputs"
    ran = [said for said in device.said if said != "synchronize"]
    assert ran == ["launched", "launched", "launched", "captured", "replay"]
    assert device.mode == 0


def test_replays_draw_no_random_numbers_from_later_steps(device: Device) -> None:
    found = replay.capture_step(a_step(device), USED)
    assert isinstance(found, replay.Replay)
    before = device.default_generators[0].offset
    turn = replay.time_replays(found, 3)
    assert turn.seconds == (1.5e-3,) * 3
    assert device.said.count("replay") == 1 + 3
    assert device.default_generators[0].offset == before


def test_the_host_is_ahead_before_the_first_replay(device: Device) -> None:
    found = replay.capture_step(a_step(device), USED)
    assert isinstance(found, replay.Replay)
    device.said.clear()
    replay.time_replays(found, 2)
    assert device.said == ["_sleep", *("event", "replay", "event") * 2, "synchronize"]


def test_what_is_planted_is_a_share_of_the_devices_own_time(device: Device) -> None:
    found = replay.capture_step(a_step(device, slow_down=0.03), USED)
    assert isinstance(found, replay.Replay)
    assert found.warm() == 1.5e-3
    assert found.planted == round(1.5e-3 * 0.03 * 1e9)


def test_a_step_that_waits_for_the_device_is_not_captured(device: Device) -> None:
    def synchronizes() -> None:
        if device.mode == "error":
            raise RuntimeError("called a synchronizing CUDA operation")

    why = replay.capture_step(a_step(device, fails=synchronizes), USED)
    assert isinstance(why, str)
    assert re.fullmatch(r"it waits for the device at test_replay\.py:\d+", why)
    assert "captured" not in device.said
    assert device.mode == 0


def test_what_went_wrong_in_the_capture_is_said_and_cleaned_up(device: Device) -> None:
    def refuses() -> None:
        if device.capturing:
            raise RuntimeError("operation not permitted when stream is capturing\nand advice")

    why = replay.capture_step(a_step(device, fails=refuses), USED)
    assert why == "operation not permitted when stream is capturing"
    assert device.default_generators[0].state == "fresh, seed 7"
    assert "empty_cache" in device.said
    # torch leaves the capture's stream in place where ending the capture fails.
    assert device.said[device.said.index("captured") + 1] == "set_stream"


@pytest.mark.parametrize(
    ("others", "free", "taken"),
    [(0, 9, True), (0, 8, False), (6, 3, True), (6, 2, False), (4, 5, True), (4, 4, False)],
)
def test_a_graph_leaves_room_for_the_other_side(
    device: Device, others: int, free: int, taken: bool
) -> None:
    # The activations are 2 GiB, and 4 GiB are reserved: the other side needs 6, less what it has.
    device.free, device.total = free * GIB, (free + 4 + others) * GIB
    found = replay.capture_step(a_step(device), USED)
    assert isinstance(found, replay.Replay) == taken
    if not taken:
        assert "memory for its activations is missing" in str(found)


def test_graphs_of_inductors_own_are_not_captured_again(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "replays_graphs", lambda: True)
    assert replay.capture_step(a_step(device), USED) == (
        "Inductor replays CUDA graphs of its own (triton.cudagraphs)"
    )


def test_a_step_that_is_to_be_a_graph_is_one_or_says_why_not(device: Device) -> None:
    step = a_step(device)
    assert replay.take_graph(step, USED).startswith("each timed step replays one CUDA graph")
    step.graphed()
    assert device.said[-1] == "replay"
    device.free = 0
    other = a_step(device)
    assert "launched kernel by kernel" in replay.take_graph(other, USED)
    assert not hasattr(other, "graphed")
