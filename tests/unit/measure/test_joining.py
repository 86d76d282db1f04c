"""Hand-made launch lists and profiles."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from perfcli.measure.joining import Seen, _Joined, firsts, join, notes, slots, times


def kernel(key: str, seconds: float = 0.0) -> Seen:
    return Seen(key, seconds, generated=True)


def operator(key: str, seconds: float = 0.0) -> Seen:
    return Seen(key, seconds, generated=False)


def joined(expected: Sequence[Seen], seen: Sequence[Seen]) -> list[int | None]:
    return list(join(expected, seen).expected_of)


def test_the_same_sequence() -> None:
    step = [kernel("a"), operator("aten::mm"), operator("aten::mm"), kernel("b"), kernel("a")]
    assert join(step, step) == _Joined((0, 1, 2, 3, 4), ())
    assert notes(step, step, join(step, step)) == ()


def test_what_nobody_expected_is_left_over() -> None:
    expected = [kernel("a"), kernel("b")]
    seen = [operator("aten::ones_like"), kernel("a"), operator("Memset (Device)"), kernel("b")]
    assert joined(expected, seen) == [None, 0, None, 1]


def test_an_operator_that_is_another_one_inside() -> None:
    """Between two kernels one operator was expected: all that ran there is it."""
    expected = [kernel("a"), operator("aten::conv"), kernel("b")]
    seen = [kernel("a"), operator("aten::im2col"), operator("aten::bmm"), kernel("b")]
    assert joined(expected, seen) == [0, 1, 1, 2]
    assert slots(join(expected, seen)) == (0, 1, 1, 2)
    assert [first.key for first, _ in firsts(seen, join(expected, seen))] == [
        "a",
        "aten::im2col",
        "b",
    ]


def test_as_many_operators_under_other_names() -> None:
    expected = [operator("mylib::one"), operator("mylib::two"), kernel("b")]
    seen = [operator("aten::mm"), operator("aten::bmm"), kernel("b")]
    assert joined(expected, seen) == [0, 1, 2]


def test_an_ambiguous_gap_is_not_guessed() -> None:
    expected = [operator("mylib::one"), operator("mylib::two"), kernel("b")]
    seen = [operator("aten::mm"), operator("aten::bmm"), operator("aten::mul"), kernel("b")]
    assert joined(expected, seen) == [None, None, None, 2]


def test_a_gap_takes_no_generated_kernel() -> None:
    expected = [kernel("a"), operator("mylib::one"), kernel("b")]
    seen = [kernel("a"), kernel("stranger"), kernel("b")]
    found = join(expected, seen)
    assert found.expected_of == (0, None, 2)
    assert notes(expected, seen, found) == (
        "operators that launched nothing that was seen: mylib::one",
        "1 launches of kernels that were not expected: stranger",
    )


def test_another_order_is_joined_by_name_and_said() -> None:
    expected = [kernel("a"), kernel("b"), kernel("c")]
    seen = [kernel("c"), kernel("a"), kernel("b")]
    found = join(expected, seen)
    assert sorted(e for e in found.expected_of if e is not None) == [0, 1, 2]
    assert [expected[e].key for e in found.expected_of if e is not None] == ["c", "a", "b"]
    assert any("another order" in note for note in notes(expected, seen, found))


def test_a_lost_kernel_is_missing() -> None:
    expected = [kernel("a"), kernel("b"), kernel("b"), kernel("c")]
    seen = [kernel("a"), kernel("b"), kernel("c")]
    found = join(expected, seen)
    assert [expected[e].key for e in found.missing] == ["b"]
    assert "1 launches of generated kernels were not seen: b" in notes(expected, seen, found)


def test_times_of_another_step() -> None:
    expected = [kernel("a"), operator("aten::conv"), kernel("b")]
    first = [kernel("a"), operator("aten::im2col"), operator("aten::bmm"), kernel("b")]
    given_slots = slots(join(expected, first))
    step = [
        kernel("a", 1.0),
        operator("aten::im2col", 2.0),
        operator("aten::bmm", 3.0),
        kernel("b", 4.0),
    ]
    assert times(first, given_slots, step) == (1.0, 5.0, 4.0)


def test_a_step_with_a_lost_event_says_nothing() -> None:
    layout = [kernel("a"), kernel("b")]
    assert times(layout, (0, 1), [kernel("a", 1.0)]) is None


def test_what_a_later_step_launches_besides_is_left_out() -> None:
    layout = [kernel("a"), kernel("b")]
    step = [kernel("a", 1.0), kernel("z", 9.0), kernel("b", 2.0)]
    assert times(layout, (0, 1), step) == (1.0, 2.0)


def test_the_facts_of_an_operator_are_those_of_its_longest_kernel() -> None:
    step = Seen("aten::mm", 1.0, False, ("fill",), {"registers per thread": 8})
    step = step.with_kernel("gemm", 5.0, {"registers per thread": 168})
    step = step.with_kernel("reduce", 2.0, {"registers per thread": 32})
    assert step.seconds == 8.0
    assert (step.kernels, step.kernel) == (("fill", "gemm", "reduce"), "gemm")
    assert step.facts == {"registers per thread": 168}


names = st.sampled_from("abc")
launches = st.lists(
    st.one_of(names.map(kernel), st.sampled_from(["aten::mm", "aten::add"]).map(operator)),
    max_size=12,
)


@given(launches, launches)
def test_every_generated_kernel_is_joined_once_and_by_its_name(
    expected: list[Seen], seen: list[Seen]
) -> None:
    found = join(expected, seen)
    pairs = [(e, s) for s, e in enumerate(found.expected_of) if e is not None]
    kernels = [(e, s) for e, s in pairs if expected[e].generated or seen[s].generated]
    assert all(expected[e].key == seen[s].key for e, s in kernels)
    assert len({e for e, _ in kernels}) == len(kernels)
    for name in "abc":
        there = sum(x.generated and x.key == name for x in expected)
        here = sum(x.generated and x.key == name for x in seen)
        assert sum(expected[e].key == name for e, _ in kernels) == min(there, here)


@given(launches, launches)
def test_slots_are_as_many_as_launches_less_what_is_shared(
    expected: list[Seen], seen: list[Seen]
) -> None:
    found = join(expected, seen)
    assert set(slots(found)) == set(range(len(firsts(seen, found))))
