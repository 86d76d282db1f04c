"""Numbers that no compilation gives, and what the header says of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from handmade import candidate, kernel, run
from handmade_estimate import work

from perfcli.model import Buffer, Bundle, GraphFacts, LaunchWork, MemoryAccess
from perfcli.storing import runfile
from perfcli.storing.runfile import MOST, _impossible


def judged(**facts: Any) -> str:
    made = replace(run([kernel("a"), kernel("b")]), **facts)
    return _impossible(made, msgspec.json.encode(made))


def with_kernel(**facts: Any) -> dict[str, Any]:
    return {"kernels": (kernel("a"), replace(kernel("b"), **facts))}


def buffer(stride: int) -> Buffer:
    return Buffer("x", "x", "input", "float32", (2,), (stride,), 8)


def backwards() -> LaunchWork:
    """Neighbouring threads read the bytes before their own."""
    access = MemoryAccess("load", "x", 1, 4, 1.0, 1.0, 1.0, 1.0, 1.0, -4, {"x": -4}, "x")
    return replace(work(), accesses=(access,))


def graph(**more: Any) -> dict[str, Any]:
    return {"graphs": (GraphFacts("forward 0", "forward", 0, 1, **more),)}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"threads": -1}, "threads is -1"),
        ({"compile_seconds": {"a": 1.0, "b": -0.5}}, "compile_seconds.b is -0.5"),
        ({"counters": {"fused": -2}}, "counters.fused is -2"),
        ({"graph_breaks": {"print": MOST + 1}}, "graph_breaks.print is 1.84e+19"),
        (graph(peak_memory_bytes=-7), "graphs[0].peak_memory_bytes is -7"),
        (graph(live_bytes=(0, -MOST - 1)), "graphs[0].live_bytes[1] is -1.84e+19"),
        (with_kernel(launches=-3), "kernels[1].launches is -3"),
        (with_kernel(lower_bound_seconds=1e30), "kernels[1].lower_bound_seconds is 1e+30"),
        (with_kernel(buffers=(buffer(-MOST - 1),)), "kernels[1].buffers[0].stride[0] is -1.84e+19"),
        (with_kernel(candidates=(candidate(stack_bytes=-4),)), "kernels[1].candidates[0].stack_by"),
    ],
)
def test_the_first_number_that_can_not_be_is_named(facts: dict[str, Any], said: str) -> None:
    assert judged(**facts).startswith(said)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"threads": 0, "compile_seconds": {"a": 0.0}},
        {"counters": {"large": MOST}},
        {"params": {"shift": -5}},
        graph(live_bytes=(-MOST, 5)),
        with_kernel(buffers=(buffer(-MOST),)),
        with_kernel(sizes={"x": -1}),
        with_kernel(candidates=(candidate(config={"X": -1}),)),
        with_kernel(candidates=(candidate(work=backwards()),)),
    ],
)
def test_numbers_at_the_bounds_can_be(facts: dict[str, Any]) -> None:
    assert judged(**facts) == ""


@pytest.mark.parametrize(
    ("raw", "unusual"),
    [
        ('{"a":-1}', True),
        ('{"a": -1}', True),
        ('{"a":[0,-1]}', True),
        ('{"a":[-1]}', True),
        ('{"a":12345678901234567}', True),
        ('{"a":1234567890123456}', False),
        ('{"a":1e9}', True),
        ('{"a":1.5E+9}', True),
        ('{"a":1.5e-9}', False),
        ('{"a":"x-1"}', False),
    ],
)
def test_most_files_are_not_looked_through(raw: str, unusual: bool) -> None:
    made = replace(run([]), threads=-1)
    assert bool(_impossible(made, raw.encode())) is unusual


def test_the_header_says_what_a_list_shows(tmp_path: Path) -> None:
    """16 bytes of stack are four words, eight are two; what is not known counts for nothing."""
    kernels = [kernel("a", stack=16), kernel("b", stack=8), kernel("c", registers=None)]
    made = run(kernels, id="one", fingerprint="f")
    runfile.write(Bundle(made, {}), tmp_path / "one.json")
    header = runfile.read_header(tmp_path / "one.json")
    assert (header.id, header.scenario, header.params) == ("one", "rmsnorm", {"rows": 32})
    assert (header.kernels, header.spilled_words) == (3, 6)
    assert (header.target, header.device, header.fingerprint) == ("h100", "cuda", "f")
    unknown = run([kernel("c", registers=None)], target=None)
    runfile.write(Bundle(unknown, {}), tmp_path / "two.json")
    header = runfile.read_header(tmp_path / "two.json")
    assert (header.spilled_words, header.target) == (None, None)


@pytest.mark.parametrize(
    ("kept", "more", "cut"),
    [
        (None, b"", False),
        (-1, b"", True),
        (-3, b"~~~", True),  # whatever stands where the end should
        (-3, b"   ", True),
        (40, b"", True),  # in its first line
        (0, b'{"a":1}', False),
        (0, b'{"a":1},\n{"b":2}', False),
        (0, b"", False),
    ],
)
def test_a_file_that_begins_as_a_run_and_has_no_end_is_cut_off(
    tmp_path: Path, kept: int | None, more: bytes, cut: bool
) -> None:
    path = tmp_path / "run.json"
    runfile.write(Bundle(run([kernel("a")]), {}), path)
    path.write_bytes(path.read_bytes()[:kept] + more)
    assert runfile.is_cut_off(path) is cut
