"""The grid of a launch, against Inductor's rules worked out by hand."""

from __future__ import annotations

import pytest

from perfcli.facts.work.grid import count_blocks_at_once, grid_of


def meta(text: str) -> str:
    return (
        f"@h.pointwise(size_hints={{}}, inductor_meta={{{text}, 'hints': set()}})\ndef k(): pass\n"
    )


@pytest.mark.parametrize(
    ("text", "config", "sizes", "grid"),
    [
        ("'grid_type': 'Grid1D'", {"XBLOCK": 512}, {"x": 513}, (2, 1, 1)),
        ("'grid_type': 'Grid1D'", {"R0_BLOCK": 8}, {"x": 7, "r0_": 9}, (7, 1, 1)),
        ("'grid_type': 'Grid2D'", {"XBLOCK": 16, "YBLOCK": 8}, {"x": 64, "y": 17}, (4, 3, 1)),
        (
            "'grid_type': 'Grid2DWithYZOverflow'",
            {"XBLOCK": 1, "YBLOCK": 1},
            {"x": 2, "y": 70_000},
            (2, 35_000, 2),
        ),
        (
            "'grid_type': 'MixOrderReductionGrid'",
            {"XBLOCK": 4, "RSPLIT_SIZE": 16},
            {"x": 100, "r0_": 512},
            (7, 1, 1),
        ),
        (
            "'grid_type': 'CooperativeReductionGrid'",
            {"XBLOCK": 1, "RSPLIT": 64},
            {"x": 3, "r0_": 512},
            (64, 3, 1),
        ),
        (
            "'grid_type': 'SequentialComboKernelGrid', 'combo_grid_meta': {'num_kernels': 2, "
            "'min_blocks': 0, 'default_config': {'XBLOCK': 64}, 'no_x_dim_0': False, "
            "'xnumel_0': 100, 'no_x_dim_1': False, 'xnumel_1': 65}",
            {},
            {},
            (4, 1, 1),
        ),
    ],
)
def test_the_grid_is_inductors(
    text: str, config: dict[str, int], sizes: dict[str, int], grid: tuple[int, int, int]
) -> None:
    assert grid_of(meta(text), config, sizes) == grid


FIXED = "'grid_type': 'FixedGrid', 'fixed_grid': ['_grid_0', '_grid_1', '_grid_2']"
EACH = (
    "'grid_type': 'PrecomputedGrid', 'precomputed_grids': ["
    "{'config': {'B': 512, 'num_warps': 4}, 'python': ['1954', '1', '1']}, "
    "{'config': {'B': 1024, 'num_warps': 8}, 'python': ['(1023 + _launcher_s0) // 1024', '2']}]"
)


@pytest.mark.parametrize(
    ("text", "config", "grid"),
    [
        (FIXED, {}, (977, 3, 1)),
        (EACH, {"B": 512}, (1954, 1, 1)),
        (EACH, {"B": 1024}, (977, 2, 1)),
        (EACH, {"B": 2048}, None),
        (EACH.replace("1954", "open('/')"), {"B": 512}, None),
    ],
)
def test_the_grid_of_a_users_kernel_is_what_the_launcher_gets(
    text: str, config: dict[str, int], grid: tuple[int, int, int] | None
) -> None:
    given = {"_grid_0": 977, "_grid_1": 3, "_grid_2": 1, "_launcher_s0": 1_000_000}
    assert grid_of(meta(text), config, {}, given) == grid


def test_a_grid_of_an_unknown_kind_is_not_guessed() -> None:
    assert grid_of(meta("'grid_type': 'HilbertCurve'"), {"XBLOCK": 1}, {"x": 5}) is None
    assert grid_of("def k(): pass\n", {"XBLOCK": 1}, {"x": 5}) is None


def test_only_a_cooperative_launch_runs_all_blocks_at_once() -> None:
    grid = meta("'grid_type': 'CooperativeReductionGrid'")
    config, sizes = {"XBLOCK": 2, "RSPLIT": 64}, {"x": 5, "r0_": 512}
    assert count_blocks_at_once(grid, config, sizes) is None
    for value, blocks in (("True", 3 * 64), ("False", None)):
        given = f"triton_meta={{'device': None, 'launch_cooperative_grid': {value}}}, inductor_meta"
        source = grid.replace("inductor_meta", given)
        assert count_blocks_at_once(source, config, sizes) == blocks
