from __future__ import annotations

from pathlib import Path

import pytest

from perfcli.errors import UnreadableSource
from perfcli.facts.source.cpp import cpp_facts
from perfcli.model import SourceFacts

KERNELS = Path(__file__).parents[2] / "fixtures" / "kernels"


def facts(body: str) -> SourceFacts:
    return cpp_facts(
        f'extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t ks0)\n'
        f"{{\n{body}\n}}\n"
    )


# Code that Inductor of torch 2.13.0 wrote for AVX-512, counted by hand: loads (vector), stores
# (vector), atomics, reductions, loops, parallel regions; passes.
BY_HAND = {
    "index_put": (2, 1, 1, 1, 1, 0, 3, 1, {"in_ptr0": 1, "in_ptr1": 1}),
    "layer_norm": (
        *(9, 6, 4, 2, 0, 2, 7, 1),
        {"in_ptr0": 3, "in_out_ptr0": 3, "out_ptr1": 1, "in_ptr1": 1, "in_ptr2": 1},
    ),
    "pointwise": (4, 4, 2, 2, 0, 0, 1, 1, {"in_ptr0": 1, "in_ptr1": 1}),
    "softmax": (8, 4, 4, 2, 0, 2, 4, 1, {"in_ptr0": 2, "out_ptr0": 1, "out_ptr1": 1}),
    "transpose": (2, 2, 2, 2, 0, 0, 4, 1, {"in_ptr0": 1}),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_inductors_code_counted_by_hand(name: str) -> None:
    f = cpp_facts((KERNELS / f"{name}.cpp").read_text())
    assert (
        f.loads,
        f.vector_loads,
        f.stores,
        f.vector_stores,
        f.atomics,
        f.reductions,
        f.loops,
        f.parallel_regions,
        dict(f.passes),
    ) == BY_HAND[name]


def test_the_tail_of_a_vector_loop_is_masked() -> None:
    f = cpp_facts((KERNELS / "pointwise.cpp").read_text())
    assert [a.masked for a in f.accesses] == [False, False, False, True, True, True]
    assert {(a.loop, a.depth) for a in f.accesses} == {(1, 1)}


def test_comments_and_strings_do_not_count() -> None:
    f = facts(
        r"""
    // auto x = in_ptr0[0];
    /* #pragma omp parallel
       out_ptr0[0] = 1; " */
    auto text = "in_ptr0[0] \" { for (;;)";
    auto raw = R"x(in_ptr0[0] )" } )x";
    char brace = '{';
    out_ptr0[0] = in_ptr0[1'000];
"""
    )
    assert (f.loads, f.stores, f.loops, f.parallel_regions) == (1, 1, 0, 0)


def test_lines_are_those_of_the_text() -> None:
    f = facts("/* two\n lines */\nout_ptr0[0] =\n  in_ptr0[0];")
    assert [(a.kind, a.line) for a in f.accesses] == [("store", 5), ("load", 6)]


def test_scalar_accesses() -> None:
    f = facts(
        """
    out_ptr0[0] = in_ptr0[in_ptr0[2] > 0 ? 1 : 0];
    out_ptr0[1] += 2;
    if (out_ptr0[3] == 0) { out_ptr0[4] = 1; } else out_ptr0[5] = 1;
    atomic_add(&out_ptr0[6], in_ptr0[7]);
"""
    )
    assert [(a.kind, a.pointer) for a in f.accesses] == [
        ("store", "out_ptr0"),
        ("load", "in_ptr0"),
        ("load", "in_ptr0"),
        ("load", "out_ptr0"),
        ("store", "out_ptr0"),
        ("load", "out_ptr0"),
        ("store", "out_ptr0"),
        ("store", "out_ptr0"),
        ("atomic", "out_ptr0"),
        ("load", "in_ptr0"),
    ]
    assert {a.vectorized for a in f.accesses} == {False}


def test_vector_accesses() -> None:
    f = facts(
        """
    auto a = at::vec::VectorizedN<int64_t,2>::loadu(in_ptr0 + x0, static_cast<int64_t>(16));
    auto b = at::vec::VecMask<float,1>::from(in_ptr0 + x0);
    auto c = b.template cast<float,1>().template loadu<float,1>(in_ptr0 + (x0 > 3 ? 1 : 2));
    (a + c).store(out_ptr0 + x0);
    atomic_add_vec<float, 2, 1>(out_ptr0, a, c);
"""
    )
    assert [(a.kind, a.vectorized) for a in f.accesses] == [
        ("load", True),
        ("load", True),
        ("load", True),
        ("store", True),
        ("atomic", True),
    ]


def test_scratch_buffers_are_not_memory_traffic() -> None:
    f = facts(
        """
    float tmpbuf[16];
    float* local_buffer_data_0 = buf.get();
    tmpbuf[0] = in_ptr0[0];
    a.store(tmpbuf);
    auto b = at::vec::Vectorized<float>::loadu(local_buffer_data_0 + 3);
"""
    )
    assert [(a.kind, a.pointer) for a in f.accesses] == [("load", "in_ptr0")]


def test_aliases_of_an_argument() -> None:
    f = facts("auto p = out_ptr0;\nfloat* q = in_ptr0 + 3;\nauto v = in_ptr0[0];\np[0] = q[0] + v;")
    assert [(a.kind, a.pointer) for a in f.accesses] == [
        ("load", "in_ptr0"),
        ("store", "out_ptr0"),
        ("load", "in_ptr0"),
    ]


def test_loops_without_braces_and_in_lambdas() -> None:
    f = facts(
        """
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < in_ptr0[0]; j++)
            out_ptr0[j] = 1;
    auto x = [&] { for (int k_inner = 0; k_inner < 16; k_inner++) { t[k] = in_ptr0[k]; } }();
    while (in_ptr0[1]) out_ptr0[1] = 0;
    out_ptr0[0] = 0;
"""
    )
    assert f.loops == 4
    assert [(a.kind, a.loop, a.depth) for a in f.accesses] == [
        ("load", 1, 2),
        ("store", 1, 2),
        ("load", 2, 1),
        ("load", 3, 1),
        ("store", 3, 1),
        ("store", 0, 0),
    ]


def test_a_loop_over_lanes_is_no_pass_of_its_own() -> None:
    f = facts(
        """
    for (int i = 0; i < n; i++) {
        auto a = in_ptr0[i];
        for (long i_inner = 0; i_inner < 16; i_inner++) { b = in_ptr0[i_inner]; }
    }
"""
    )
    assert f.passes == {"in_ptr0": 1}


def test_reductions_are_declared_accumulators() -> None:
    f = facts(
        """
    float tmp_acc0 = 0;
    Welford<float> tmp_acc1 = Welford<float>();
    at::vec::Vectorized<float> tmp_acc0_vec = at::vec::Vectorized<float>(0);
    tmp_acc0 = tmp_acc0 + 1;
"""
    )
    assert f.reductions == 2


def test_only_the_exported_function_counts() -> None:
    f = cpp_facts(
        "void other(float* in_ptr0) { in_ptr0[0] = 1; }\n"
        'extern "C"  void  kernel(float* in_ptr0,\n  const at::BFloat16* __restrict__ b)\n'
        "{ in_ptr0[1] = b[0]; }"
    )
    assert [(a.kind, a.pointer) for a in f.accesses] == [("store", "in_ptr0"), ("load", "b")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("int main() {}", "found none"),
        ('extern "C" void k(float* p) { p[0] = 1;', "never closes"),
        ('extern "C" void k(float* p) { p[0) = 1; }', "closes nothing"),
        ('extern "C" void k() { auto s = "abc\n; }', "never ends"),
        ('extern "C" void k() { /* }', "never ends"),
    ],
)
def test_unreadable(source: str, message: str) -> None:
    with pytest.raises(UnreadableSource, match=message):
        cpp_facts(source)
