"""One worker at a time uses the device: who leaves it while code is generated, and who waits."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from perfcli.measure.turnstile import Turnstile


def make(path: Path, events: list[str] | None = None) -> Turnstile:
    told = [] if events is None else events
    return Turnstile(str(path), lambda: told.append("waited for the device"))


def is_free(path: Path) -> bool:
    """Whether another process could enter."""
    opened = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(opened)
    return True


def test_a_second_one_waits_until_the_first_has_left(tmp_path: Path) -> None:
    path, events = tmp_path / "device", list[str]()
    first, second = make(path, events), make(path)
    first.enter()
    first.enter()

    def wait() -> None:
        second.enter()
        events.append("entered")

    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(0.05)
    assert events == []
    first.leave()
    waiting.join(10)
    assert sorted(events) == ["entered", "waited for the device"]
    assert events[0] == "waited for the device"
    assert second.waited >= 0.05 > first.waited
    assert not is_free(path)
    second.leave()
    assert is_free(path)


def test_the_device_is_left_while_code_is_generated_and_held_for_what_is_timed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "device"
    turnstile = make(path)
    turnstile.enter()
    with turnstile._outside():
        assert is_free(path)
        with turnstile._inside():
            assert not is_free(path)
        assert is_free(path)
        with turnstile._outside():
            assert is_free(path)
        assert is_free(path)
    assert not is_free(path)
    with turnstile._inside():
        assert not is_free(path)
    assert not is_free(path)


def test_a_failure_while_generating_comes_out_with_the_device_held(tmp_path: Path) -> None:
    turnstile = make(tmp_path / "device")
    with pytest.raises(ValueError, match="no code"), turnstile._outside():
        raise ValueError("no code")
    assert not is_free(tmp_path / "device")


def test_without_a_file_nobody_waits() -> None:
    first = Turnstile("", lambda: None)
    second = Turnstile("", lambda: None)
    first.enter()
    second.enter()
    with second.generating():
        pass
    second.leave()
    assert (first.waited, second.waited) == (0.0, 0.0)


@pytest.mark.torch
def test_inductor_generates_outside_and_its_code_runs_inside(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch._functorch import config as functorch
    from torch._inductor import compile_fx, config, graph, select_algorithm

    path, seen = tmp_path / "device", list[tuple[str, bool]]()
    turnstile = make(path)
    originals = compile_fx.compile_fx, select_algorithm.AlgorithmSelectorCache.__call__
    lowering = graph.GraphLowering.run

    def run(*args: object) -> object:
        seen.append(("generating", is_free(path)))
        return lowering(*args)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def look(x: object) -> object:
        seen.append(("running", is_free(path)))
        return x

    weight = torch.ones(4, requires_grad=True)
    compiled = torch.compile(lambda x: look((x * weight).sin()).cos().sum())
    graph.GraphLowering.run = run
    try:
        torch._dynamo.reset()
        uncached = functorch.patch(enable_autograd_cache=False)
        with config.patch(fx_graph_cache=False), uncached, turnstile.generating():
            compiled(torch.ones(4)).backward()
            seen.append(("done", is_free(path)))
    finally:
        graph.GraphLowering.run = lowering
        torch._dynamo.reset()
    assert set(seen) == {("generating", True), ("running", False), ("done", False)}
    assert len([kind for kind, _ in seen if kind == "generating"]) >= 4  # two of each direction
    assert originals == (compile_fx.compile_fx, select_algorithm.AlgorithmSelectorCache.__call__)
