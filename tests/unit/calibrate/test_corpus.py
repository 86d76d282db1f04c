"""The corpus: what it walks along, and that its launches fit a GPU."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from perfcli.calibrate.corpus import _bytes_of, _list_cases

KERNELS = Path(__file__).parents[3] / "kernels" / "_corpus.py"


def parameters() -> dict[str, list[str]]:
    """The parameters of each kernel, as its text has them: reading it needs no triton."""
    tree = ast.parse(KERNELS.read_text())
    return {
        node.name.removeprefix("_"): [argument.arg for argument in node.args.args]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def test_every_kernel_is_launched_with_exactly_its_parameters() -> None:
    known = parameters()
    cases = _list_cases()
    assert {case.kernel for case in cases} == set(known)
    for case in cases:
        given = [name for name, _, _ in case.tensors]
        given += [*case.scalars, *case.constants]
        assert sorted(given) == sorted(known[case.kernel]), case


def test_it_is_as_large_as_a_few_minutes_allow() -> None:
    cases = _list_cases()
    # Shipped constants were fitted to these 1,886 launches, each with and without a warm L2.
    assert len(cases) == 1886
    assert len({repr(case) for case in cases}) == 1886
    assert all(count >= 8 for count in Counter(case.kernel for case in cases).values())


def test_launches_fit_the_device() -> None:
    for case in _list_cases():
        x, y, z = case.grid
        assert 1 <= x < 2**31 and 1 <= y <= 65535 and z == 1, case
        assert case.warps in (1, 2, 4, 8, 16)
        assert all(_bytes_of(kind, n) <= 2**30 for _, kind, n in case.tensors), case


def test_it_walks_from_one_block_to_a_hundred_thousand() -> None:
    blocks = {case.grid[0] * case.grid[1] for case in _list_cases()}
    assert 1 in blocks and max(blocks) > 100_000


def test_a_smoke_test_meets_most_kernels() -> None:
    few = _list_cases(smoke=True)
    assert len(few) == 158  # a twelfth
    assert len({case.kernel for case in few}) >= 15
