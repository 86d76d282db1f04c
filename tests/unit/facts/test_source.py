from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfcli.errors import UnreadableSource
from perfcli.facts.source.triton import triton_facts
from perfcli.model import SourceFacts

KERNELS = Path(__file__).parents[2] / "fixtures" / "kernels"

HEADER = "import triton\nimport triton.language as tl\n"


def inductor(name: str) -> str:
    """Code that Inductor of torch 2.13.0 wrote for an H200."""
    return (KERNELS / f"{name}.py.txt").read_text()


def kernel_name(source: str) -> str:
    return str(re.findall(r"^def (triton_\w+)", source, re.M)[-1])


def facts(body: str, helpers: str = "") -> SourceFacts:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    text = f"{HEADER}{helpers}\n@triton.jit\ndef kernel(a, b, out, n, B: tl.constexpr):\n{lines}\n"
    return triton_facts(text, "kernel")


def counts(f: SourceFacts) -> tuple[int, ...]:
    return (f.loads, f.loads_in_loops, f.stores, f.stores_in_loops, f.atomics, f.reductions)


# Counted by hand on the fixtures: loads, of these in loops, stores, of these in loops, atomics,
# reductions; loops; passes; buffers read and written.
BY_HAND = {
    "argmax": ((1, 1, 4, 0, 0, 4), 1, {"in_ptr0": 1}, 1, 4),
    "block_pointers": ((2, 2, 1, 0, 0, 1), 1, {"in_ptr0": 1, "in_ptr1": 1}, 2, 1),
    "bucketize": ((2, 1, 1, 0, 0, 0), 1, {"in_ptr0": 1, "in_ptr1": 1}, 2, 1),
    "cumsum": ((1, 1, 1, 1, 0, 0), 1, {"in_ptr0": 1}, 1, 1),
    "dropout": ((2, 0, 1, 0, 0, 0), 0, {"in_ptr0": 1, "in_ptr1": 1}, 2, 1),
    "foreach": ((4, 0, 2, 0, 0, 0), 0, {f"in_ptr{i}": 1 for i in range(4)}, 4, 2),
    "index_put": ((2, 0, 0, 0, 1, 0), 0, {"in_ptr0": 1, "in_ptr1": 1}, 2, 1),
    "layer_norm": ((4, 4, 1, 1, 0, 1), 2, {"in_ptr0": 2, "in_ptr1": 1, "in_ptr2": 1}, 3, 1),
    "mix_order": ((2, 2, 2, 1, 0, 2), 1, {"in_ptr0": 1, "in_ptr1": 1}, 2, 2),
    "pointwise": ((2, 0, 1, 0, 0, 0), 0, {"in_ptr0": 1, "in_ptr1": 1}, 2, 1),
    "softmax_online": ((2, 2, 1, 1, 0, 1), 2, {"in_ptr0": 2}, 1, 1),
    "softmax_three_sweeps": ((3, 3, 1, 1, 0, 2), 3, {"in_ptr0": 3}, 1, 1),
    "split_scan": ((1, 0, 1, 0, 3, 1), 1, {"in_ptr0": 1}, 1, 2),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_inductors_code_counted_by_hand(name: str) -> None:
    source = inductor(name)
    f = triton_facts(source, kernel_name(source))
    assert (counts(f), f.loops, dict(f.passes), f.buffers_read, f.buffers_written) == BY_HAND[name]


# Inductor does not count a random seed's load, what its library does, or the second reduction
# and its workspace in a mix-order kernel; and it writes no counts for a foreach kernel.
UNCOUNTED = {"dropout", "bucketize", "split_scan", "mix_order", "foreach"}
# One call that yields two of Inductor's reductions: mean and variance, maximum and sum.
PAIRS = {"layer_norm": 1, "softmax_online": 1}


@pytest.mark.parametrize("name", sorted(BY_HAND.keys() - UNCOUNTED))
def test_agrees_with_inductors_own_counts(name: str) -> None:
    source = inductor(name)
    theirs = dict(re.findall(r"'(num_load|num_store|num_reduction)': (\d+)", source))
    f = triton_facts(source, kernel_name(source))
    assert f.loads == int(theirs["num_load"])
    assert f.stores + f.atomics == int(theirs["num_store"])
    assert f.reductions + PAIRS.get(name, 0) == int(theirs["num_reduction"])


@pytest.mark.parametrize(
    ("name", "online"), [("softmax_online", True), ("softmax_three_sweeps", False)]
)
def test_a_maximum_and_a_sum_at_once(name: str, online: bool) -> None:
    source = inductor(name)
    assert triton_facts(source, kernel_name(source)).online_softmax is online


def test_comments_strings_and_dead_helpers_do_not_count() -> None:
    f = facts(
        '''
"""tl.load(a) tl.store(out, 1) for i in range(3):"""
# x = tl.load(a)
note: tl.constexpr = "tl.load(b)"
tl.store(out, tl.load(a))  # tl.load(a)
''',
        helpers="@triton.jit\ndef unused(p):\n    return tl.load(p)\n",
    )
    assert counts(f) == (1, 0, 1, 0, 0, 0)


def test_a_called_helper_counts_as_often_as_it_is_called() -> None:
    f = facts(
        """
x = fetch(a, 0)
for i in range(n):
    x += fetch(p=b, i=i)
put(out, x)
""",
        helpers=(
            "@triton.jit\ndef fetch(p, i):\n    q = p + i\n    return tl.load(q)\n"
            "@triton.jit\ndef put(p, x):\n    tl.store(p, x + fetch(p, 0))\n"
        ),
    )
    assert counts(f) == (3, 1, 1, 0, 0, 0)
    assert f.passes == {"a": 1, "b": 1, "out": 1}
    # Each on the line of the outermost call.
    assert [(x.kind, x.pointer, x.line, x.loop) for x in f.accesses] == [
        ("load", "a", 13, 0),
        ("load", "b", 15, 1),
        ("load", "out", 16, 0),
        ("store", "out", 16, 0),
    ]


def test_a_helper_may_return_pointers_and_call_itself() -> None:
    f = facts(
        "p, q = both(a, b)\ntl.store(out, tl.load(p) + tl.load(q + 1) + tl.load(again(b)))",
        helpers=(
            "@triton.jit\ndef both(x, y):\n    return x + 1, y + 2\n"
            "@triton.jit\ndef again(x):\n    return again(x) + x\n"
        ),
    )
    assert [x.pointer for x in f.accesses] == ["a", "b", "b", "out"]


def test_pointers_are_followed_through_assignments() -> None:
    f = facts(
        """
p = out
row = tl.program_id(0) * n
q: tl.tensor = a + row + tl.arange(0, B)
q = tl.multiple_of(q, 16)
r = b.to(tl.pointer_type(tl.uint8)) + row
for i in range(0, n, B):
    x = tl.load(q[:, None]) + tl.load(r)
    q += B
    tl.store(p + row, x)
"""
    )
    assert [x.pointer for x in f.accesses] == ["a", "b", "out"]


def test_integers_are_not_pointers() -> None:
    f = facts("limit = n * B\noffs = n + tl.arange(0, B)\ntl.store(offs + out, tl.load(offs + a))")
    assert [x.pointer for x in f.accesses] == ["a", "out"]


def test_block_pointers_and_descriptors() -> None:
    f = facts(
        """
p = tl.make_block_ptr(base=a, shape=[n], strides=[1], offsets=[0], block_shape=[B], order=[0])
d = tl.make_tensor_descriptor(b, [n, n], [n, 1], [B, B])
e = triton.language.make_tensor_descriptor(out, shape=[n, n], strides=[n, 1], block_shape=[B, B])
for i in tl.range(0, n, B):
    x = tl.load(p, boundary_check=(0,)) + d.load([0, i])
    x += tl.load_tensor_descriptor(d, [0, i])
    p = tl.advance(p, [B])
    e.store([0, i], x)
tl.store_tensor_descriptor(e, [0, 0], x)
e.atomic_add([0, 0], x)
"""
    )
    assert [(x.kind, x.pointer, x.depth, x.masked) for x in f.accesses] == [
        ("load", "a", 1, True),
        ("load", "b", 1, False),
        ("load", "b", 1, False),
        ("store", "out", 1, False),
        ("store", "out", 0, False),
        ("atomic", "out", 0, False),
    ]


def test_loops_and_passes() -> None:
    f = facts(
        """
x = tl.load(a)
for i in tl.range(0, n, B):
    for j in tl.static_range(4):
        x += tl.load(a + j)
    x += tl.load(b)
i = 0
while i < tl.load(a):
    i += tl.load(b)
"""
    )
    assert f.loops == 3
    assert [(x.pointer, x.loop, x.depth) for x in f.accesses] == [
        ("a", 0, 0),
        ("a", 1, 2),
        ("b", 1, 1),
        ("a", 2, 1),
        ("b", 2, 1),
    ]
    assert f.passes == {"a": 3, "b": 2}


def test_a_loop_that_goes_on_where_another_stops_is_of_its_sweep() -> None:
    """As a peeled loop's rest is: two sweeps over a, in four loops."""
    f = facts(
        """
for i in tl.range(0, full, B):
    x = tl.load(a + i)
for i in tl.range(full, n, B):
    x = tl.load(a + i)
for i in tl.range(0, full, B):
    x = tl.load(a + i) + tl.load(b + i)
for i in tl.range(full, n, B):
    x = tl.load(a + i) + tl.load(b + i)
"""
    )
    assert (f.loops, f.loads, f.passes) == (4, 6, {"a": 2, "b": 1})


def test_both_branches_count() -> None:
    f = facts(
        """
if B > 4:
    p = a
    x = tl.load(p)
else:
    p = b
    x = tl.load(p, mask=x < n)
tl.store(out, tl.load(p) if n > 3 else tl.load(b))
"""
    )
    assert [(x.pointer, x.masked) for x in f.accesses if x.kind == "load"] == [
        ("a", False),
        ("b", True),
        ("a", False),
        ("b", False),
    ]


@pytest.mark.parametrize(
    ("call", "masked"),
    [
        ("tl.load(a, m)", True),
        ("tl.load(a, None)", False),
        ("tl.load(a, mask=m, other=0.0)", True),
        ("tl.load(a, mask=None)", False),
        ("tl.load(a, other=0.0)", False),
        ("tl.load(a, boundary_check=[])", False),
        ("tl.store(out, x)", False),
        ("tl.store(out, x, m)", True),
        ("tl.atomic_add(out, x, m, sem='relaxed')", True),
        ("tl.atomic_cas(out, 0, 1)", False),
    ],
)
def test_masks(call: str, masked: bool) -> None:
    (access,) = facts(call).accesses
    assert access.masked is masked


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("tl.sum(x, 1)[:, None]", 1),
        ("tl.max(x, 0) + tl.argmin(x, 0)", 2),
        ("tl.reduce(x, 0, combine)", 1),
        ("triton_helpers.max2(x, 1)[:, None]", 1),
        ("triton_helpers.welford(x, x, x, 1)", 1),
        ("x.sum(0)", 1),
        ("tl.associative_scan(x, 0, combine)", 0),
        ("tl.maximum(x, 0.0)", 0),
        ("triton_helpers.maximum(x, x)", 0),
        ("max(n, B)", 0),
    ],
)
def test_reductions(expression: str, count: int) -> None:
    assert facts(f"x = tl.zeros([B], tl.float32)\ny = {expression}").reductions == count


def test_other_names_for_tritons_modules() -> None:
    source = """
from triton import jit
from triton import language as L
from triton.language import load as fetch
@jit
def kernel(a, out):
    L.store(out, fetch(a))
"""
    assert counts(triton_facts(source, "kernel")) == (1, 0, 1, 0, 0, 0)


def test_a_function_without_its_module() -> None:
    source = "@triton.jit\ndef kernel(a, out):\n    tl.store(out, tl.load(a))\n"
    assert counts(triton_facts(source, "kernel")) == (1, 0, 1, 0, 0, 0)


def test_in_place_counts_as_read_and_written() -> None:
    source = inductor("dropout").replace("in_ptr1", "in_out_ptr0")
    f = triton_facts(source, kernel_name(source))
    assert (f.buffers_read, f.buffers_written) == (2, 1)


def test_a_users_kernel_is_found_under_inductors_name_for_it() -> None:
    source = (
        HEADER + "@triton.jit\ndef part(p):\n    return tl.load(p)\n"
        "@triton.jit\ndef add(a, out):\n    tl.store(out, part(a))\n"
    )
    assert triton_facts(source, "add_0").loads == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def kernel(:\n", "line 1 does not parse"),
        ("def kernel(a): pass", "found none"),
        ("@triton.jit\ndef f(): pass\n@triton.jit\ndef g(): pass\n", "found f, g"),
    ],
)
def test_unreadable(source: str, message: str) -> None:
    with pytest.raises(UnreadableSource, match=message):
        triton_facts(source, "kernel")


def test_renaming_and_formatting_change_nothing() -> None:
    source = inductor("softmax_online")
    name = kernel_name(source)
    other = source.replace(name, "k").replace("tmp", "value").replace("    ", "  ")
    a, b = triton_facts(source, name), triton_facts(other, "k")
    assert a == b


PERSISTENT = """
for row in tl.range(tl.program_id(0), n, 132):
    total = tl.zeros([B], tl.float32)
    for c in range(0, B, 64):
        total += tl.load(a + row * B + c)
    for c in range(0, B, 64):
        x = tl.load(a + row * B + c) + tl.load(b + c)
        tl.store(out + row * B + c, x * total)
"""


def test_a_persistent_kernels_sweeps_are_its_inner_loops() -> None:
    f = facts(PERSISTENT)
    assert f.passes == {"a": 2, "b": 1}
    assert {(x.loop, x.depth) for x in f.accesses} == {(1, 2)}, "the outermost loop's number"


def test_a_loop_goes_on_behind_the_one_that_it_holds() -> None:
    f = facts(
        """
for row in range(n):
    x = tl.load(a + row)
    for c in range(B):
        x += tl.load(b + c)
    x += tl.load(a + row)
x += tl.load(b)
"""
    )
    assert f.passes == {"a": 1, "b": 2}
