"""Which members of two sides share enough work to belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Set

import pytest

from perfcli.diff import overlap
from perfcli.diff.overlap import Work, _components, _connect, _few, _owners

Sides = Mapping[int, str]
Found = list[tuple[list[int], list[int], float]]


def works(members: Sides, goes: int = 1) -> dict[int, Work]:
    """Each letter is a piece of work."""
    return {number: Work(frozenset(pieces), goes) for number, pieces in members.items()}


def joined(base: Sides, head: Sides, settled: Set[Hashable] = frozenset(), goes: int = 1) -> Found:
    return list(_connect(works(base, goes), works(head, goes), settled))


@pytest.mark.parametrize(
    ("base", "head", "found"),
    [
        ({}, {}, []),
        ({0: "a"}, {}, []),
        ({0: "a"}, {0: "b"}, []),
        ({0: "a"}, {0: "a"}, [([0], [0], 1.0)]),
        ({0: "ab"}, {0: "a"}, [([0], [0], 1 / 2)]),
        ({0: "a", 1: "b"}, {0: "ab"}, [([0, 1], [0], 1.0)]),
        ({0: "ab"}, {0: "a", 1: "b"}, [([0], [0, 1], 1.0)]),
        ({0: "ab", 1: "cd"}, {0: "ac", 1: "bd"}, [([0, 1], [0, 1], 1.0)]),
        ({0: "a", 1: "b"}, {0: "b", 1: "a"}, [([0], [1], 1.0), ([1], [0], 1.0)]),
        ({3: "ab", 5: "c"}, {4: "abx", 9: "c"}, [([3], [4], 2 / 3), ([5], [9], 1.0)]),
    ],
)
def test_members_that_share_work_are_a_group(base: Sides, head: Sides, found: Found) -> None:
    assert joined(base, head) == found


@pytest.mark.parametrize(("went", "follows"), [(34, True), (33, False)])
def test_a_member_follows_where_a_third_of_its_witnesses_went(went: int, follows: bool) -> None:
    ours = {0: Work(frozenset(range(100)))}
    edges = overlap._follow(ours, {0: Counter({0: 100 - went, 1: went})})
    assert edges == ({(0, 0), (0, 1)} if follows else {(0, 0)})


@pytest.mark.parametrize(("shared", "enough"), [(34, True), (33, False)])
def test_a_third_of_the_smaller_one_has_to_be_in_common(shared: int, enough: bool) -> None:
    ours = frozenset(range(100))
    assert overlap._is_enough(Work(ours), Work(frozenset(range(100 - shared, 250)))) == enough
    assert overlap._is_enough(Work(frozenset(range(100 - shared, 250))), Work(ours)) == enough


def test_of_a_kernel_launched_once_per_layer_a_gos_share_is_asked() -> None:
    """10 pieces in 5 goes: 0.68 of a piece is enough to follow, without goes 3.4 are."""
    ours = works({0: "abcdefghij"}, goes=5)
    went = overlap._witnesses(
        ours,
        _owners({0: ours[0].pieces}),
        _owners({0: frozenset("a"), 1: frozenset("bcdefghij")}),
        frozenset(),
    )
    assert overlap._follow(ours, went) == {(0, 0), (0, 1)}
    assert overlap._follow(works({0: "abcdefghij"}), went) == {(0, 1)}


# --- witnesses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "settled", "found"),
    [
        ({0: "ab"}, {0: "a", 1: "b"}, "", {0: {0: 1, 1: 1}}),
        ({0: "ab"}, {0: "ab"}, "", {0: {0: 2}}),
        ({0: "a", 1: "a"}, {0: "a"}, "", {0: {}, 1: {}}),  # two of ours have it
        ({0: "a"}, {0: "a", 1: "a"}, "", {0: {}}),  # two of theirs
        ({0: "a"}, {0: "b"}, "", {0: {}}),
        ({0: "ab"}, {0: "ab"}, "a", {0: {0: 1}}),
    ],
)
def test_witnesses_are_pieces_that_one_member_of_either_side_has(
    ours: Sides, theirs: Sides, settled: str, found: dict[int, dict[int, int]]
) -> None:
    left = _owners({n: frozenset(pieces) for n, pieces in ours.items()})
    right = _owners({n: frozenset(pieces) for n, pieces in theirs.items()})
    assert overlap._witnesses(works(ours), left, right, frozenset(settled)) == found


# --- dealt in equal parts --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "parts", "linked"),
    [
        ("abcd", {1: 1, 2: 1, 3: 1, 4: 1}, {1, 2, 3, 4}),
        ("abcdef", {1: 1, 2: 1, 3: 1}, {1, 2, 3}),  # exactly half of its pieces
        ("abcdefg", {1: 1, 2: 1, 3: 1}, set()),
        ("abcdefgh", {1: 2, 2: 2, 3: 1}, {1, 2}),  # only the largest parts
        ("abcdefghi", {1: 2, 2: 2, 3: 1}, set()),
    ],
)
def test_a_member_dealt_out_evenly_is_linked_to_all_that_have_most(
    pieces: str, parts: dict[int, int], linked: set[int]
) -> None:
    ours = works({7: pieces})
    went = {7: Counter(parts)}
    assert overlap._deal(ours, went, set()) == {(7, holder) for holder in linked}
    assert overlap._deal(ours, went, {(7, 9)}) == set()  # it is linked already


def test_a_member_that_went_nowhere_is_dealt_to_nobody() -> None:
    assert overlap._deal(works({0: "ab"}), {0: Counter()}, set()) == set()


# --- without a witness -----------------------------------------------------------------------


def lonely(
    pieces: str,
    others: Sides,
    explained: Mapping[int, str] | None = None,
    settled: str = "",
    goes: int = 1,
) -> set[overlap.Edge]:
    theirs = works(others)
    return overlap._join_lonely(
        works({0: pieces}, goes),
        theirs,
        _owners({n: work.pieces for n, work in theirs.items()}),
        {n: frozenset(each) for n, each in (explained or {}).items()},
        frozenset(settled),
    )


@pytest.mark.parametrize(
    ("pieces", "others", "more", "found"),
    [
        ("ab", {}, {}, set()),
        ("ab", {0: "cd"}, {}, set()),
        ("ab", {0: "ab", 1: "ab"}, {}, {(0, 0)}),  # a tie: the first
        ("ab", {0: "abc", 1: "ab"}, {}, {(0, 1)}),  # the closest in size
        ("ab", {0: "a", 1: "abc"}, {}, {(0, 1)}),  # the one that does more of it
        ("abc", {0: "ad"}, {}, set()),  # 1 of 3 is less than 0.34
        ("abcde", {0: "abx"}, {}, {(0, 0)}),
        ("abcde", {0: "ax"}, {"goes": 2}, {(0, 0)}),  # 0.85 of a piece is asked
        ("abcdef", {0: "ax"}, {"goes": 2}, set()),  # 1.02 of a piece
        # What its partners did all along it has not taken over, but it may do all of it.
        ("abc", {0: "abx"}, {"explained": {0: "ab"}}, set()),
        ("ab", {0: "abx"}, {"explained": {0: "ab"}}, {(0, 0)}),
        ("abc", {0: "abcx", 1: "bcy"}, {"explained": {0: "abc"}}, {(0, 1)}),
        # What is done elsewhere is no work that was taken over.
        ("abc", {0: "abx"}, {"settled": "ab"}, set()),
        ("ab", {0: "abx"}, {"settled": "ab"}, {(0, 0)}),
    ],
)
def test_who_took_over_the_work_of_a_member_without_a_witness(
    pieces: str, others: Sides, more: dict[str, object], found: set[overlap.Edge]
) -> None:
    assert lonely(pieces, others, **more) == found  # type: ignore[arg-type]


def test_recomputed_work_ties_nothing_together() -> None:
    """Both kernels of the head recompute ``x``, which the base's second did besides its own."""
    assert joined({0: "ax", 1: "bx"}, {0: "ax", 1: "bx"}) == [([0], [0], 1.0), ([1], [1], 1.0)]


def test_a_new_kernel_with_one_recomputed_node_is_no_heir() -> None:
    assert joined({0: "abcd", 1: "xyz"}, {0: "abcd", 1: "aqrstu"}) == [([0], [0], 1.0)]


def test_settled_work_links_only_those_without_other_work() -> None:
    assert joined({0: "ab"}, {0: "ax", 1: "by"}, frozenset("a")) == [([0], [1], 1 / 3)]


# --- too many pairs --------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "kept"), [(6, "abc"), (5, "ab"), (2, "ab"), (1, ""), (0, "")])
def test_pieces_of_the_most_pairs_are_left_out(
    monkeypatch: pytest.MonkeyPatch, most: int, kept: str
) -> None:
    """``a`` and ``b`` make one pair each, ``c`` four; ``d`` is on one side alone."""
    monkeypatch.setattr(overlap, "MOST_PAIRS", most)
    ours: dict[Hashable, list[int]] = {"a": [0], "b": [1], "c": [0, 1], "d": [5]}
    theirs: dict[Hashable, list[int]] = {"a": [0], "b": [1], "c": [0, 1], "e": [5]}
    assert set(_few(ours, theirs)) == set(kept)


# --- connected parts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "parts"),
    [
        (set(), []),
        ({(0, 0)}, [([0], [0])]),
        ({(2, 1), (0, 3)}, [([0], [3]), ([2], [1])]),
        ({(0, 0), (0, 1), (2, 1), (5, 5)}, [([0, 2], [0, 1]), ([5], [5])]),
        ({(3, 0), (1, 0), (1, 2), (4, 2)}, [([1, 3, 4], [0, 2])]),
    ],
)
def test_connected_parts(
    edges: set[overlap.Edge], parts: list[tuple[list[int], list[int]]]
) -> None:
    assert list(_components(edges)) == parts
