"""Who uses the device while both workers get ready: who leaves it, shares it, has it alone."""

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


def test_a_second_one_waits_until_the_first_is_no_longer_alone(tmp_path: Path) -> None:
    path, events = tmp_path / "device", list[str]()
    first, second = make(path, events), make(path)

    def wait() -> None:
        second.share()
        events.append("shares")

    waiting = threading.Thread(target=wait)
    with first.alone(), first.alone():
        waiting.start()
        waiting.join(0.05)
        assert events == []
    waiting.join(10)
    assert events == ["waited for the device", "shares"]
    assert second.waited >= 0.05 > first.waited
    assert not is_free(path)
    second.leave()
    assert is_free(path)


def test_both_share_the_device_until_one_wants_it_alone(tmp_path: Path) -> None:
    path, events = tmp_path / "device", list[str]()
    first, second = make(path, events), make(path)
    first.share()
    second.share()

    def time_something() -> None:
        with second.alone():
            events.append("timed")

    timing = threading.Thread(target=time_something)
    timing.start()
    timing.join(0.05)
    assert events == []
    first.leave()
    timing.join(10)
    assert events == ["waited for the device", "timed"]
    assert not is_free(path)  # it is shared again
    second.leave()
    assert is_free(path)


def test_who_shares_it_gives_way_to_one_that_waits_to_have_it_alone(tmp_path: Path) -> None:
    path, events = tmp_path / "device", list[str]()
    first, second = make(path), make(path)
    first.share()

    def time_something() -> None:
        with second.alone():
            events.append("timed")
        second.leave()

    timing = threading.Thread(target=time_something)
    timing.start()
    while not _is_awaited(path):
        pass
    first.give_way()
    events.append("goes on")
    assert events == ["timed", "goes on"]
    assert not is_free(path)
    timing.join(10)
    first.leave()


def _is_awaited(path: Path) -> bool:
    return Path(f"{path}.queue").exists() and not is_free(Path(f"{path}.queue"))


def test_it_is_left_in_a_block_and_held_as_before(tmp_path: Path) -> None:
    path = tmp_path / "device"
    turnstile = make(path)
    with turnstile.outside():
        assert is_free(path)
    assert is_free(path)
    turnstile.share()
    with turnstile.outside():
        assert is_free(path)
    assert not is_free(path)
    with turnstile.alone():
        with turnstile.outside():
            assert is_free(path)
        assert not is_free(path)


def test_two_that_share_get_it_alone_one_after_the_other(tmp_path: Path) -> None:
    # With a lock that is kept while it is changed, both would wait for ever.
    path, alone = tmp_path / "device", list[int]()
    both = [make(path), make(path)]
    for each in both:
        each.share()

    def time_something(each: Turnstile) -> None:
        with each.alone():
            alone.append(1)
        each.leave()

    threads = [threading.Thread(target=time_something, args=(each,)) for each in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (alone, is_free(path)) == ([1, 1], True)


def test_the_device_is_left_while_code_is_generated_and_held_for_what_is_timed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "device"
    turnstile = make(path)
    turnstile.share()
    with turnstile._generating():
        assert is_free(path)
        with turnstile.alone():
            assert not is_free(path)
        assert is_free(path)
        with turnstile._generating():
            assert is_free(path)
        assert is_free(path)
    assert not is_free(path)
    with turnstile.alone():
        assert not is_free(path)
    assert not is_free(path)


def test_a_failure_while_generating_comes_out_with_the_device_held(tmp_path: Path) -> None:
    turnstile = make(tmp_path / "device")
    with pytest.raises(ValueError, match="no code"), turnstile._generating():
        raise ValueError("no code")
    assert not is_free(tmp_path / "device")


def test_without_a_file_nobody_waits() -> None:
    first = Turnstile("", lambda: None)
    second = Turnstile("", lambda: None)
    first.share()
    with second.alone(), second.generating():
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
