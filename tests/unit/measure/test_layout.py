"""Other pages and other addresses, with the same contents: a real heap, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from perfcli.measure.heap import PAGE
from perfcli.measure.layout import MOST_BYTES, _step_pages, _whole_pages
from perfcli.worker.starting import KEEP_MEMORY

torch = pytest.mark.torch

# The heap of the test process is none of this test's business: it is filled for good.
PROGRAM = """
import ctypes, json, random
import torch
from types import SimpleNamespace
from perfcli.measure.heap import PAGE
from perfcli.measure.layout import Layout

torch.manual_seed(0)
module = torch.nn.Linear(300, 300)
x = torch.randn(512, 1024)
workload = SimpleNamespace(call=module, inputs=(x,), kwargs={})
step = SimpleNamespace(built=SimpleNamespace(workload=workload))
before = [t.clone() for t in (x, module.weight, module.bias)]

def frame(address):
    with open("/proc/self/pagemap", "rb") as file:
        file.seek(address // PAGE * 8)
        return int.from_bytes(file.read(8), "little") & ((1 << 55) - 1)

layout = Layout(step, 5, 4 << 20)
draw, offsets, expected, frames = random.Random(5), [], [], []
place = -(-x.data_ptr() // PAGE) * PAGE + PAGE
for _ in range(6):
    layout.change()
    first = torch.empty(1 << 18)
    offsets.append(first.data_ptr() % PAGE)
    expected.append(draw.randrange(PAGE // 64) * 64)
    del first
    frames.append(frame(place))
same = all(bool((a == b).all()) for a, b in zip(before, (x, module.weight, module.bias)))
# A step of another size, and one whose memory is not known, renew all the same.
others = [Layout(step, 5, peak) for peak in (None, 1 << 40)]
renew = [l.renews for l in (layout, *others)]
print(json.dumps([offsets, expected, frames, same, renew]))
"""


def test_pages_that_lie_within_one_storage() -> None:
    start = 7 * PAGE
    (inside,) = _whole_pages([(start + 64, 10 * PAGE)])
    assert inside == (start + PAGE, 9 * PAGE)
    (exact,) = _whole_pages([(start, 8 * PAGE)])
    assert exact == (start, 8 * PAGE)
    # Fewer than four whole pages are left alone.
    assert list(_whole_pages([(start + 64, 4 * PAGE)])) == []


def test_what_a_step_takes_besides_weights_and_inputs() -> None:
    assert _step_pages(10 * PAGE, 4 * PAGE) == 7 * PAGE  # and one page of room
    assert _step_pages(10 * PAGE - 5, 4 * PAGE) == 7 * PAGE
    assert _step_pages(4 * PAGE, 10 * PAGE) == PAGE
    assert _step_pages(None, 10 * PAGE) == PAGE
    assert _step_pages(1 << 40, 10 * PAGE) == MOST_BYTES - 10 * PAGE
    assert _step_pages(1 << 40, 1 << 39) == PAGE


@pytest.mark.parametrize(("settings", "movable"), [(KEEP_MEMORY, True), ({}, False)])
def test_whether_large_blocks_come_from_the_heap(settings: dict[str, str], movable: bool) -> None:
    """Without these settings glibc maps each large block on its own, as others always do."""
    asked = "from perfcli.measure.heap import why_unmovable; print(why_unmovable())"
    done = subprocess.run(
        [sys.executable, "-c", asked], env=settings, capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip() == "") is movable
    assert movable or "does not take large blocks from the heap" in done.stdout


@torch
def test_contents_stay_while_addresses_and_pages_change() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PATH": "", "OMP_NUM_THREADS": "1", **KEEP_MEMORY},
        capture_output=True,
        text=True,
        check=True,
    )
    offsets, drawn, frames, same, renews = json.loads(done.stdout)
    assert same
    assert renews == [True, True, True]
    # What a step allocates first lies where the draw says, up to torch's alignment.
    assert offsets == [(o + 63) // 64 * 64 % PAGE for o in drawn]
    assert len(set(offsets)) > 3
    # Where the system does not tell which pages a process has, it says 0.
    assert 0 in frames or len(set(frames)) > 3


HOLE = """
import ctypes
from perfcli.measure.heap import LINE, PAGE, Heap
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
heap = Heap()
heap.fill()
found = []
for lines in (3, 17, 40):
    large = libc.malloc(64 << 20)
    libc.malloc(10_000)
    libc.free(large)
    heap.move(lines)
    again = libc.malloc(64 << 20)
    found.append((again > large, again % PAGE // LINE))
    libc.free(again)
print(found)
"""


def test_a_hole_that_a_step_leaves_is_not_used_by_the_next() -> None:
    """Its size does not matter: of 64 MiB, filled with blocks as large as the move, there would be
    thousands."""
    done = subprocess.run(
        [sys.executable, "-c", HOLE], env=KEEP_MEMORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[(True, 3), (True, 17), (True, 40)]"
