"""Planted changes are found again, nothing is invented, and nothing is lost."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

from handmade import digest, kernel, origins
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcli.diff.match import match
from perfcli.diff.metrics import changes
from perfcli.model import KernelFacts, Match, Origin

Groups = set[tuple[frozenset[str], frozenset[str], str]]


def groups(base: Sequence[KernelFacts], head: Sequence[KernelFacts], **more: bool) -> Groups:
    return {
        (
            frozenset(base[index].name for index in found.base),
            frozenset(head[index].name for index in found.head),
            found.relation,
        )
        for found in match(base, head, **more)
    }


def only(base: Sequence[KernelFacts], head: Sequence[KernelFacts], **more: bool) -> Match:
    (found,) = match(base, head, **more)
    return found


def group(base: str, head: str, relation: str) -> tuple[frozenset[str], frozenset[str], str]:
    return frozenset(base.split()), frozenset(head.split()), relation


# --- one thing at a time ---------------------------------------------------------------------


def test_equal_binaries_match_whatever_their_names() -> None:
    found = only([kernel("a", "mul", text="x")], [kernel("b", "mul", text="x")])
    assert (found.relation, found.method, found.confidence) == ("same", "binary", 1.0)


def test_equal_sources_with_other_binaries_changed() -> None:
    base, head = kernel("a", "mul"), kernel("a", "mul")
    head = replace(head, candidates=(replace(head.candidates[0], binary_hash="other"),))
    found = only([base], [head])
    assert (found.relation, found.method) == ("changed", "source")


def test_a_graphs_only_kernels_belong_together() -> None:
    """Softmax in fp32, with and without online_softmax: one node of eight has the same name."""
    points = {"x": 32768, "r0_": 50304}
    before = replace(kernel("a", "prepare", "sub_tensor", "exp_default", "div"), sizes=points)
    after = replace(kernel("b", "amax", "sub", "exp", "sum_1", "div"), sizes=points)
    found = only([before], [after])
    assert (found.relation, found.method, found.confidence) == ("changed", "nodes", 0.9)
    apart = {group("a", "", "gone"), group("", "b", "new")}
    assert groups([before], [replace(after, sizes={"x": 32768})]) == apart


def test_a_graphs_only_kernels_that_share_nothing_are_two() -> None:
    base, head = (
        replace(kernel(name, name), sizes={"x": 32768}) for name in ("softplus", "normalise")
    )
    apart = {group("softplus", "", "gone"), group("", "normalise", "new")}
    assert groups([base], [head]) == apart


def test_equal_sources_without_binaries_are_the_same() -> None:
    bare = kernel("a", "mul", registers=None)
    assert only([bare], [bare]).method == "source"
    assert only([bare], [bare]).relation == "same"


def test_fused_split_regrouped_new_gone() -> None:
    base = [kernel("a", "1", "2"), kernel("b", "3", "4"), kernel("c", "5", "6", "7")]
    base += [kernel("d", "10", "11"), kernel("e", "12", "13"), kernel("f", "20")]
    head = [kernel("ab", "1", "2", "3", "4"), kernel("c1", "5", "6"), kernel("c2", "7", "8")]
    head += [kernel("de1", "10", "12"), kernel("de2", "11", "13"), kernel("g", "21")]
    assert groups(base, head) == {
        group("a b", "ab", "fused"),
        group("c", "c1 c2", "split"),
        group("d e", "de1 de2", "regrouped"),
        group("f", "", "gone"),
        group("", "g", "new"),
    }


def test_a_node_that_everything_recomputes_ties_nothing_together() -> None:
    names = [str(n) for n in range(8)]
    base = [kernel(f"b{n}", "rsqrt", "cast", f"own_{n}") for n in names]
    head = [kernel(f"h{n}", "rsqrt", "cast", f"own_{n}") for n in names]
    assert groups(base, head) == {group(f"b{n}", f"h{n}", "changed") for n in names}


def test_a_small_kernel_that_was_recomputed_joins_one_of_its_heirs() -> None:
    base = [kernel("cast", "cast"), kernel("x", "1", "2", "3"), kernel("y", "4", "5", "6")]
    head = [kernel("x2", "cast", "1", "2", "3"), kernel("y2", "cast", "4", "5", "6")]
    assert groups(base, head) == {group("cast x", "x2", "fused"), group("y", "y2", "changed")}


def test_one_moved_node_does_not_regroup() -> None:
    base = [kernel("a", *"123456"), kernel("b", *"789")]
    head = [kernel("c", *"12345"), kernel("d", *"6789")]
    assert groups(base, head) == {group("a", "c", "changed"), group("b", "d", "changed")}


def test_a_kernel_of_every_layer_is_followed_into_each_layer() -> None:
    """Seen with the transformer: one kernel launched for each of three layers, fused with a
    different neighbour in each; most of its nodes are recomputed there before and after."""
    own = [f"own_{n}" for n in range(12)]
    shared = [f"shared_{n}" for n in range(30)]
    base = [kernel("every", *own, *shared, launches=3)]
    base += [kernel(f"b{n}", f"b_{n}", *shared[10 * n : 10 * n + 10]) for n in range(3)]
    head = [
        kernel(f"h{n}", f"b_{n}", *own[4 * n : 4 * n + 4], *shared[10 * n : 10 * n + 10])
        for n in range(3)
    ]
    assert groups(base, head) == {group("every b0 b1 b2", "h0 h1 h2", "regrouped")}


def test_look_alikes_that_swapped_layers_are_pairs() -> None:
    def layers(name: str, *numbers: int) -> KernelFacts:
        ops = ("mul", "add", "sum")
        made = (Origin(f"{op}_{n}", f"aten.{op}.Tensor") for n in numbers for op in ops)
        return kernel(name, origins=tuple(made), launches=len(numbers))

    base = [layers("a", 0, 1), layers("b", 2, 3)]
    head = [layers("c", 1, 2), layers("d", 3, 0)]
    assert {relation for _, _, relation in groups(base, head)} == {"changed"}
    assert len(groups(base, head)) == 2
    # As many layers less in one kernel as there are more in the other: no longer pairs.
    head = [layers("c", 0, 1, 2, 3)]
    assert groups(base, head) == {group("a b", "c", "fused")}


def test_look_alikes_of_other_sizes_are_pairs() -> None:
    """The same two kernels on rows of another length (``--allow params``), whose nodes were dealt
    otherwise."""

    def layers(name: str, size: int, *numbers: int) -> KernelFacts:
        ops = ("amax", "exp", "sum")
        made = (Origin(f"{o}_{n}", f"aten.{o}.Tensor", "", (size,)) for n in numbers for o in ops)
        return kernel(name, origins=tuple(made), launches=len(numbers), text=f"{name}{size}")

    base = [layers("a", 50257, 0, 1), layers("b", 50257, 2, 3)]
    head = [layers("a", 50304, 1, 2), layers("b", 50304, 3, 0)]
    assert groups(base, head) == {group("a", "a", "changed"), group("b", "b", "changed")}


def test_look_alikes_of_one_size_come_before_those_of_others() -> None:
    def made(name: str, size: int, *numbers: int) -> KernelFacts:
        nodes = (Origin(f"exp_{n}", "aten.exp.default", "", (size,)) for n in numbers)
        return kernel(name, origins=tuple(nodes), text=f"{name}{numbers}")

    base = [made("small", 8, 0, 1), made("large", 64, 2, 3)]
    head = [made("large", 64, 1, 2), made("small", 8, 3, 0)]
    found = {(base[m.base[0]].name, head[m.head[0]].name) for m in match(base, head)}
    assert found == {("small", "small"), ("large", "large")}


def test_kernels_dealt_evenly_into_three_are_a_group() -> None:
    base = [kernel(name, *(f"{name}{n}" for n in range(6))) for name in "abc"]
    head = [
        kernel(f"h{n}", *(f"{name}{m}" for name in "abc" for m in (n, n + 3))) for n in (0, 1, 2)
    ]
    assert groups(base, head) == {group("a b c", "h0 h1 h2", "regrouped")}


def test_a_dropped_kernel_is_no_ancestor_of_those_that_recomputed_the_same_all_along() -> None:
    base = [kernel("dropped", "own", "cast", "rsqrt"), kernel("a", "1", "2", "cast", "rsqrt")]
    head = [kernel("b", "1", "2", "cast", "rsqrt")]
    assert groups(base, head) == {group("dropped", "", "gone"), group("a", "b", "changed")}


def test_reordered_kernels_of_another_torch_are_told_by_the_numbers_of_their_nodes() -> None:
    def of(name: str, *numbers: int) -> KernelFacts:
        return kernel(name, origins=tuple(Origin(f"add_{n}", "aten.add.Tensor") for n in numbers))

    base = [of("k", 1, 2), of("v", 9, 10)]
    head = [of("v2", 12, 13), of("k2", 3, 4)]  # as text, 12 comes before 3
    assert groups(base, head, nodes_agree=False) == {
        group("k", "k2", "changed"),
        group("v", "v2", "changed"),
    }


def test_graphs_do_not_mix() -> None:
    base = [kernel("a", "mul", graph="forward 0"), kernel("b", "mul", graph="backward 0")]
    head = [kernel("c", "mul", graph="backward 0"), kernel("d", "mul", graph="forward 0")]
    assert groups(base, head) == {group("a", "d", "changed"), group("b", "c", "changed")}


def test_identical_code_pairs_by_what_it_computes() -> None:
    base = [kernel("a", "1", text="x"), kernel("b", "2", text="x"), kernel("c", "3", text="x")]
    head = [kernel("d", "3", text="x"), kernel("e", "1", text="x")]
    assert groups(base, head) == {
        group("a", "e", "same"),
        group("c", "d", "same"),
        group("b", "", "gone"),
    }


def test_identical_code_of_other_nodes_gives_way_to_the_nodes() -> None:
    """The cast of x was fused away; the head casts y with the same code."""
    base = [kernel("cast_x", "x", text="cast"), kernel("big", "1", "2")]
    head = [kernel("cast_y", "y", text="cast"), kernel("bigger", "x", "1", "2")]
    assert groups(base, head) == {
        group("cast_x big", "bigger", "fused"),
        group("", "cast_y", "new"),
    }


def test_moved_identical_code_is_found_last() -> None:
    found = only([kernel("a", "1", text="x")], [kernel("b", "2", text="x")])
    assert (found.relation, found.method, found.confidence) == ("same", "binary", 0.9)


def test_across_torch_versions_operators_and_order_decide() -> None:
    def of(name: str, node: str, op: str, module: str, **more: str) -> KernelFacts:
        made = Origin(node, op, module, (8, 16))
        return kernel(name, graph="forward 0", origins=(made,), **more)  # type: ignore[arg-type]

    base = [of("a", "mul_7", "aten.mul.Tensor", "b.0"), of("b", "mul_9", "aten.mul.Tensor", "b.1")]
    head = [of("c", "mul_9", "aten.mul.Tensor", "b.0"), of("d", "mul_3", "aten.mul.Tensor", "b.1")]
    assert groups(base, head, nodes_agree=False) == {
        group("a", "c", "changed"),
        group("b", "d", "changed"),
    }
    assert {m.method for m in match(base, head, nodes_agree=False)} == {"operators"}


def test_layers_without_module_names_pair_in_order() -> None:
    def layer(name: str, first: int) -> KernelFacts:
        made = tuple(Origin(f"add_{first + n}", "aten.add.Tensor") for n in range(3))
        return kernel(name, origins=made)

    base = [layer("a", 0), layer("b", 3), layer("c", 6)]
    head = [layer("d", 10), layer("e", 13), layer("f", 16)]
    assert groups(base, head, nodes_agree=False) == {
        group("a", "d", "changed"),
        group("b", "e", "changed"),
        group("c", "f", "changed"),
    }


def test_without_provenance_names_without_their_numbers() -> None:
    base = [kernel("triton_poi_fused_mul_3"), kernel("triton_red_fused_sum_1")]
    head = [kernel("triton_red_fused_sum_0"), kernel("triton_poi_fused_mul_0", text="other")]
    found = match(base, head)
    assert {m.method for m in found} == {"name"}
    assert max(m.confidence for m in found) < 0.5
    assert {(m.base, m.head) for m in found} == {((0,), (1,)), ((1,), (0,))}


def test_same_names_with_other_provenance_do_not_match() -> None:
    assert len(match([kernel("triton_poi_0", "mul")], [kernel("triton_poi_1", "add")])) == 2


def test_a_kernel_that_the_device_did_not_choose() -> None:
    """The second form of a multi-kernel: the same nodes, launched no time."""
    looped, held = kernel("looped", "a", "b"), kernel("held", "a", "b", launches=0)
    head = [kernel("one", "a", "b", "c")]
    assert groups([looped, held], head) == {group("looped held", "one", "fused")}
    assert groups([held], head) == {group("held", "one", "changed")}


def test_nothing_against_nothing() -> None:
    assert match([], []) == ()


# --- at random -------------------------------------------------------------------------------


@st.composite
def planted(draw: st.DrawFn) -> tuple[list[KernelFacts], list[KernelFacts], Groups]:
    """A base run, a head run made from it by planted changes, and the groups to be found. All
    kernels recompute a shared node; some have identical code."""
    base: list[KernelFacts] = []
    head: list[KernelFacts] = []
    expected: Groups = set()
    fresh = itertools.count()

    def make(nodes: Sequence[str], text: str = "") -> KernelFacts:
        name = f"k{next(fresh)}"
        numbers = [draw(st.integers(0, 300)) for _ in range(4)]
        shared = ["rsqrt"] if draw(st.booleans()) else []
        return kernel(
            name,
            *nodes,
            *shared,
            text=text or name,
            loads=numbers[0],
            stores=numbers[1],
            stack=4 * numbers[2],
            launches=1 + numbers[3] % 5,
        )

    def nodes() -> list[str]:
        return [f"n_{next(fresh)}" for _ in range(draw(st.integers(3, 9)))]

    kinds = ["same", "twin", "changed", "renamed", "fused", "split", "regrouped", "new", "gone"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=14)):
        ours: list[KernelFacts] = []
        theirs: list[KernelFacts] = []
        if kind in ("same", "twin", "renamed"):
            kept = make(nodes(), "twin" if kind == "twin" else "")
            ours = [kept]
            theirs = [replace(kept, name=f"{kept.name}_renamed") if kind == "renamed" else kept]
        elif kind == "changed":
            work = nodes()
            ours, theirs = [make(work)], [make(work)]
        elif kind in ("fused", "split", "regrouped"):
            parts = [nodes() for _ in range(draw(st.integers(2, 4)))]
            if kind == "regrouped":  # in halves: a kernel that keeps most of its work is no regroup
                parts = [[*part, *(f"{node}_too" for node in part)] for part in parts]
            every = [node for part in parts for node in part]
            many = [make(part) for part in parts]
            if kind == "regrouped":
                halves = [every[::2], every[1::2]]
                ours = many
                theirs = [make(half) for half in halves]
            else:
                whole = [make(every)]
                ours, theirs = (many, whole) if kind == "fused" else (whole, many)
        elif kind == "new":
            theirs = [make(nodes())]
        else:
            ours = [make(nodes())]
        ours = [replace(k, name=f"b{len(base) + n}") for n, k in enumerate(ours)]
        theirs = [replace(k, name=f"h{len(head) + n}") for n, k in enumerate(theirs)]
        base += ours
        head += theirs
        relation = "same" if kind in ("twin", "renamed") else kind
        expected.add((frozenset(k.name for k in ours), frozenset(k.name for k in theirs), relation))
    return base, draw(st.permutations(head)), expected


@given(planted())
@settings(max_examples=150, deadline=None)
def test_planted_changes_are_recovered(
    case: tuple[list[KernelFacts], list[KernelFacts], Groups],
) -> None:
    base, head, expected = case
    assert groups(base, head) == expected


def _arbitrary() -> st.SearchStrategy[KernelFacts]:
    def make(nodes: list[int], text: int, loads: int, spilled: int | None) -> KernelFacts:
        made = kernel(f"k{text}", loads=loads, text=str(text), stack=4 * (spilled or 0))
        if spilled is None:
            made = replace(made, candidates=())
        return replace(made, origins=origins(*(f"n_{n}" for n in nodes)))

    numbers = st.integers(0, 20)
    return st.builds(make, st.lists(numbers, max_size=6), numbers, numbers, st.none() | numbers)


@given(st.lists(_arbitrary(), max_size=12), st.lists(_arbitrary(), max_size=12), st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_kernel_is_in_one_group_and_sums_are_kept(
    base: list[KernelFacts], head: list[KernelFacts], agree: bool
) -> None:
    found = match(base, head, agree)
    assert sorted(n for m in found for n in m.base) == list(range(len(base)))
    assert sorted(n for m in found for n in m.head) == list(range(len(head)))
    assert all(0 < m.confidence <= 1 for m in found)
    grouped = [changes([base[n] for n in m.base], [head[n] for n in m.head]) for m in found]
    for total in changes(base, head):
        if total.metric in ("kernels", "launches", "loads", "stores", "spilled_words"):
            of_groups = [c for of_group in grouped for c in of_group if c.metric == total.metric]
            assert sum(c.base or 0 for c in of_groups) == (total.base or 0)
            assert sum(c.head or 0 for c in of_groups) == (total.head or 0)


def test_matching_is_symmetric_in_pairs() -> None:
    base = [kernel("a", "1", "2"), kernel("b", "3"), kernel("c", "9")]
    head = [kernel("d", "1", "2", "3"), kernel("e", "8")]
    there = {(b, h) for b, h, _ in groups(base, head)}
    back = {(b, h) for h, b, _ in groups(head, base)}
    assert there == back


def test_time_does_not_grow_with_the_square_of_the_kernels() -> None:
    """Four times the kernels take four to five times as long; all pairs would be sixteen times."""

    def side(version: str, count: int) -> list[KernelFacts]:
        return [
            kernel(
                f"k{n}",
                *(f"n{n}_{i}" for i in range(12)),
                *(f"shared{i}" for i in range(3)),
                text=digest(f"{n}{version if n % 3 else ''}"),
            )
            for n in range(count)
        ]

    def seconds(count: int) -> float:
        base, head = side("a", count), side("b", count)
        started = time.process_time()
        assert len(match(base, head)) == count
        return time.process_time() - started

    assert seconds(2000) < 10 * seconds(500)


def test_a_graphs_only_kernels_belong_together_however_little_they_share() -> None:
    """Softmax online and not: one of six nodes is the same."""
    base = kernel("online", "prepare", "div", text="1")
    head = kernel("plain", "amax", "sub", "exp", "sum", "div", text="2")
    (found,) = match([base], [head])
    assert (found.relation, found.method, found.confidence) == ("changed", "nodes", 0.9)
    other = kernel("other", "relu")
    (found, _) = match([base, other], [head, other])
    assert found.confidence < 0.2


# --- bars ------------------------------------------------------------------------------------


def test_operators_alone_tell_a_kernel_by_half_of_them() -> None:
    """Where no node has the same name on both sides: with 2 of 6 operators in common (a third) it
    is another kernel, with 3 of 5 the same one."""

    def of(name: str, number: int, ops: str, size: int) -> KernelFacts:
        nodes = tuple(Origin(f"{op}_{number}", f"aten.{op}.Tensor") for op in ops.split())
        return kernel(name, origins=nodes, sizes={"x": size})

    base = [of("a", 1, "mul add exp sum", 64)]
    third, half = "mul add amax div", "mul add exp div"
    assert groups(base, [of("b", 7, third, 128)]) == {
        group("a", "", "gone"),
        group("", "b", "new"),
    }
    found = only(base, [of("b", 7, half, 128)])
    assert (found.relation, found.method) == ("changed", "operators")


def test_identical_code_pairs_by_the_share_of_its_work_not_by_how_much_is_shared() -> None:
    """4 of 20 nodes are common with the first, 3 of 4 with the second."""
    base = [kernel("large", *map(str, range(20)), text="x"), kernel("small", *"012", text="x")]
    head = [kernel("h", *"0123", text="x")]
    (found,) = (found for found in match(base, head) if found.method == "binary")
    assert [base[index].name for index in found.base] == ["small"]
