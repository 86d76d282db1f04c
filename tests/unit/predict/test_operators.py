"""Estimates of library operators, against measured times and hand-made bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from perfcli.machine import targets
from perfcli.model import OperatorWork
from perfcli.predict import operator_formulas as formulas
from perfcli.predict import operators

H200 = targets.get("h200")


def product(m: float, n: float, k: float, precision: str = "bf16", **sizes: float) -> OperatorWork:
    each = {"batch": 1.0, "left": 0.0, "right": 1.0, "align": 8.0, "batched": 0.0, "bias": 0.0}
    known = {"m": m, "n": n, "k": k, **each, "added": 0.0, **sizes}
    batch = known["batch"]
    return OperatorWork("product", precision, 2.0 * batch * m * n * k, 0.0, 0.0, known)


def attention(family: Any = "attention", variant: str = "cudnn", **sizes: float) -> OperatorWork:
    known = {"heads": 96, "queries": 1024, "keys": 1024, "width": 64}
    flags = {"causal": 0, "mask": 0, "dropout": 0}
    return OperatorWork(family, "bf16", 0.0, 0.0, 0.0, {**known, **flags, **sizes}, variant)


def convolution(
    family: Any = "convolution", precision: str = "bf16", **sizes: float
) -> OperatorWork:
    known = {
        "images": 16, "in": 256, "out": 256, "pixels": 784, "made": 784, "taps": 9, "tap": 3,
        "stride": 1, "dilation": 1, "groups": 1, "transposed": 0, "dims": 2, "channels_last": 1,
        "to_input": 1, "to_weight": 1,
    }  # fmt: skip
    return OperatorWork(family, precision, 0.0, 0.0, 0.0, {**known, **sizes})


def micros(work: OperatorWork, target: Any = H200) -> float:
    found = operators.estimate_call(work, target)
    assert found is not None
    assert found.low < found.seconds < found.high
    return found.seconds * 1e6


def test_a_large_product_runs_near_what_the_matrix_units_were_seen_to_do() -> None:
    flops = 2 * 8192**3
    assert 600e6 < flops / micros(product(8192, 8192, 8192)) < 850e6, "TFLOP/s of this GPU"


def test_a_product_of_one_row_takes_as_long_as_its_weights_to_read() -> None:
    read = 2 * 8192 * 8192
    seconds = micros(product(1, 8192, 8192)) * 1e-6
    assert 0.5 * H200.bandwidth < read / seconds < H200.bandwidth


def test_a_small_product_takes_a_launch() -> None:
    assert 1.5 < micros(product(16, 64, 64)) < 5


def test_odd_rows_take_the_slow_kernels() -> None:
    aligned = micros(product(4096, 50264, 768))
    odd = micros(product(4096, 50257, 768, align=1))
    assert odd > 1.5 * aligned


def test_products_in_float32_are_slower_than_in_tf32_than_in_bf16() -> None:
    times = [micros(product(4096, 4096, 4096, precision)) for precision in ("bf16", "tf32", "fp32")]
    assert times[0] * 1.5 < times[1] < times[2] / 3


def test_causal_attention_of_long_sequences_takes_about_half() -> None:
    whole = micros(attention(queries=8192, keys=8192))
    assert 0.45 < micros(attention(queries=8192, keys=8192, causal=1)) / whole < 0.7


def test_backward_attention_takes_two_to_four_times_as_long() -> None:
    assert 2 < micros(attention("attention backward")) / micros(attention()) < 4


@pytest.mark.parametrize("mask", [0.0, 1.0])
def test_an_encoder_layer_takes_the_time_of_its_products(mask: float) -> None:
    """16,384 rows, by the speed of large products on this GPU; what it reads and writes of its
    inputs and outputs, 92 MB, takes 25 µs."""
    sizes = {"batch": 32, "tokens": 512, "width": 1024, "heads": 16, "inner": 4096, "mask": mask}
    flops = 2 * 16384 * (3 * 1024**2 + 1024**2 + 2 * 1024 * 4096) + 4 * 32 * 512 * 512 * 1024
    layer = OperatorWork("encoder layer", "bf16", flops, 67e6 / 2 + 25e6, 67e6 / 2, sizes)
    assert 350e6 < flops / micros(layer) < 750e6
    found = operators.estimate_call(layer, H200)
    assert found is not None
    assert "taken as its products" in found.doubts[-1]


def test_both_gradients_of_a_convolution_add_up() -> None:
    both = micros(convolution("convolution backward"))
    alone = [
        micros(convolution("convolution backward", to_input=1, to_weight=0)),
        micros(convolution("convolution backward", to_input=0, to_weight=1)),
    ]
    assert both == pytest.approx(sum(alone))


def test_channels_that_are_not_last_are_copied() -> None:
    work = convolution(pixels=3136, made=3136, images=32)
    first = micros(replace(work, sizes={**work.sizes, "channels_last": 0}))
    moved = 2 * 2 * 32 * 3136 * 256 * 2  # both tensors, read and written
    assert first > micros(work) + moved / H200.bandwidth * 1e6


def test_convolutions_that_were_never_measured_have_no_estimate() -> None:
    assert operators.estimate_call(convolution(precision="fp32"), H200) is None
    assert operators.estimate_call(product(64, 64, 64, "float64"), H200) is None


def test_bytes_say_nothing_of_operators_that_compute() -> None:
    work = OperatorWork("other", "bf16", 0.0, 1e6, 1e6, {"row": 64.0}, "_grouped_mm")
    assert operators.estimate_call(work, H200) is None


def test_an_operator_of_which_only_bytes_are_known_has_a_wide_interval() -> None:
    work = OperatorWork("other", "bf16", 0.0, 1e9, 1e9, {"row": 64.0}, "mylib.scan")
    found = operators.estimate_call(work, H200)
    assert found is not None
    assert found.high / found.low > 10
    assert found.doubts == ("only its bytes are known",)


def test_sizes_far_from_all_that_were_measured_have_a_wider_interval_and_say_so() -> None:
    near = operators.estimate_call(product(4096, 3072, 768), H200)
    far = operators.estimate_call(product(2, 3, 10**7), H200)
    assert near is not None
    assert far is not None
    assert far.high / far.low > near.high / near.low
    assert not near.doubts
    assert far.doubts == ("no call of such sizes was measured",)


def test_another_gpu_is_scaled_by_its_data_sheet_with_a_wider_interval() -> None:
    h100 = targets.get("h100")
    own, other = (operators.estimate_call(product(1, 8192, 8192), t) for t in (H200, h100))
    assert own is not None
    assert other is not None
    bandwidth = H200.bandwidth / h100.bandwidth
    assert other.seconds / own.seconds == pytest.approx(bandwidth, rel=0.15)
    assert math.log(other.high / other.low) > 1.3 * math.log(own.high / own.low)


def test_a_target_of_another_vendor_has_no_estimate() -> None:
    amd = replace(H200, name="mi300x", vendor="amd")
    assert operators.estimate_call(product(64, 64, 64), amd) is None
    assert operators.estimate_host(10, [], amd) is None


def test_the_host_pays_for_each_launch() -> None:
    few, many = (operators.estimate_host(n, [("aten.mm.out", n)], H200) for n in (10, 1010))
    assert few is not None
    assert many is not None
    assert 10e-6 < (many - few) / 2000 < 40e-6


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("product half 8", 0.025),
        ("product half 2", 0.085),
        ("product half 1", 0.045),
        ("product tf32 4", 0.06),
        ("product fp32 1", 0.015),
        ("attention cudnn half", 0.01),
        ("attention backward cudnn half", 0.01),
        ("attention efficient fp32", 0.04),
        ("convolution forward dense half", 0.13),
        ("convolution forward depthwise half", 0.045),
        ("convolution forward point tf32", 0.025),
        ("convolution input dense half", 0.055),
        ("convolution weight dense half", 0.07),
        ("convolution weight thin tf32", 0.035),
        ("other copy", 0.045),
    ],
)
def test_measured_calls_are_estimated_as_they_were_measured(name: str, error: float) -> None:
    """The mean |log ratio| of a dozen calls of the shipped table. (It has seen them;
    bench/operators.py says how good it is for those that it has not.)"""
    table = operators.table_for(H200)
    assert table is not None
    given = table.given[name]
    errors = []
    for row in given["rows"][:: max(1, len(given["rows"]) // 12)]:
        part = operators._part_named(operators.work_of_row(given, row), name)
        found = operators._estimate_part(part, table, H200)
        assert found is not None
        errors.append(abs(math.log(found[0] / row[-2])))
    assert sum(errors) / len(errors) < error


# --- formulas by hand ------------------------------------------------------------------------

PLAIN = {
    "norm": 1.0, "launch": 2.0, "rate": 4096.0, "feed": 0.001, "step": 0.5, "tile": 3.0,
    "sms": 4.0, "dram": 1000.0, "l2": 2048.0, "split": 5.0, "partial": 1000.0, "bias": 0.25,
    "added": 7.0, "pair": 0.0001, "exponential": 0.002, "dropout": 0.5, "mask": 0.001,
    "tail": 0.5, "around": 400.0, "copy_launch": 11.0, "copy_dram": 500.0,
}  # fmt: skip
"""Round constants, with bounds that simply add up."""


@pytest.mark.parametrize(
    ("changes", "split", "l2", "micros"),
    [
        # 2 · 2 · 2 blocks go 128 deep: 2 turns of 128 · (0.25 + 0.144) + 2 · 0.5 + 3.
        ({}, 1, False, 2 * 54.432),
        ({"m": 64.0, "n": 8.0, "b": 1.0}, 1, False, 54.432),
        ({}, 1, True, 2 * 54.432 + 8 * 128 * 72 * 2 / 2048),
        # Half as deep, twice the blocks, and 2 · 100 · 10 · 2 partial sums of 8 bytes.
        ({}, 2, False, 4 * (64 * 0.394 + 0.5 + 3) + 5 + 32),
        ({"k": 64.0}, 1, False, 2 * (64 * 0.394 + 0.5 + 3)),
        ({"k": 65.0}, 1, False, 2 * 54.432),
        ({"s": 4.0}, 1, False, 2 * (128 * (0.25 + 0.288) + 1 + 3)),
    ],
)
def test_a_tiled_product_by_hand(
    changes: dict[str, float], split: int, l2: bool, micros: float
) -> None:
    """Tiles of 64 by 8 on four multiprocessors: 100 by 10 takes two by two of them."""
    sizes = {"m": 100.0, "n": 10.0, "k": 70.0, "b": 2.0, "s": 2.0, **changes}
    found = formulas._tiled(sizes, PLAIN, [(64, 8)], [split], 0.0, l2)
    assert found == pytest.approx(micros)
    memory = formulas._tiled(sizes, PLAIN, [(64, 8)], [split], 9.0, l2)
    assert memory == pytest.approx(micros + 9)


def test_the_best_of_some_tiles_is_taken_and_bounds_are_joined_by_a_norm() -> None:
    assert formulas._least([3.0, 30.0, 300.0]) == pytest.approx(3)
    assert formulas._least([4.0, 4.0]) == pytest.approx(4 / 2 ** (1 / 30))
    assert formulas._join({"norm": 2.0}, [3.0, 4.0, 12.0]) == pytest.approx(13)
    assert formulas._up(65.0, 64) == 128
    assert formulas._up(64.0, 64) == 64
    assert formulas._up(1.2) == 2


@pytest.mark.parametrize(("bias", "added"), [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_what_is_added_to_a_product_by_hand(bias: float, added: float) -> None:
    work = product(64, 64, 64, bias=bias, added=added)
    (part,) = formulas.parts_of(work) or ()
    bytes_ = 2 * (2 * 64 * 64 + (1 + 2 * added) * 64 * 64)
    assert part.sizes["bytes"] == bytes_
    tiled = formulas._tiled(
        part.sizes,
        PLAIN,
        formulas._TILES,
        formulas._SPLITS,
        bytes_ / 1000,
        l2=True,
    )
    expected = (2 + tiled) * (1 + 0.25 * bias) + 7 * added
    assert formulas._product_micros(part.sizes, PLAIN) == pytest.approx(expected)


ATTENTION = {
    "heads": 3.0, "queries": 200.0, "keys": 100.0, "width": 64.0, "bytes": 4000.0,
    "causal": 0.0, "mask": 0.0, "dropout": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "seen", "pair"),
    [
        ({}, 128, 0.0084),
        ({"causal": 1.0}, 128, 0.0084),  # half of the keys, and half a block of queries
        ({"causal": 1.0, "keys": 300.0}, 320 / 2 + 64, 0.0084),
        ({"dropout": 1.0}, 128, 0.0126),
        ({"mask": 1.0}, 128, 0.0094),
        ({"mask": 1.0, "dropout": 1.0}, 128, 0.0136),
    ],
)
def test_attention_by_hand(changes: dict[str, float], seen: float, pair: float) -> None:
    """Two blocks of 128 queries for each of three heads, on four multiprocessors; the last one
    runs alone for half of its time."""
    sizes = {**ATTENTION, **changes}
    keys = 320 if sizes["keys"] == 300 else 128
    busy = 6 / 4 * (128 * seen * pair + 3) + 0.5 * (128 * keys * pair + 3)
    expected = 2 + (busy + 4) + 10
    assert formulas._attention_micros(sizes, PLAIN) == pytest.approx(expected)


def test_what_moves_bytes_by_hand() -> None:
    sizes = {"bytes": 3000.0, "flops": 8192.0, "copies": 2.0}
    assert formulas._moving_micros(sizes, PLAIN) == pytest.approx(2 + 3 + 2 + 12)


def test_a_convolution_by_hand() -> None:
    sizes = {"m": 64.0, "n": 64.0, "k": 64.0, "b": 1.0, "s": 2.0, "bytes": 3000.0, "copies": 1.0}
    splits = {"weight": formulas._WEIGHT_SPLITS, "other": (1,)}
    for kind, constants in (
        ("weight", PLAIN),
        ("other", {name: c for name, c in PLAIN.items() if name != "split"}),
    ):
        tiled = formulas._tiled(sizes, constants, formulas._CONVOLUTION_TILES, splits[kind], 3.0)
        found = formulas._convolution_micros(sizes, constants)
        assert found == pytest.approx(2 + tiled + 11 + 6)


@pytest.mark.parametrize(
    ("work", "name", "sizes"),
    [
        (product(2, 3, 5, batch=7.0), "product half 8", {"b": 7, "s": 2, "bytes": 14 * 31}),
        (product(2, 3, 5, align=4.0), "product half 2", {"bytes": 2 * 31}),
        (product(2, 3, 5, align=1.0), "product half 1", {}),
        (product(2, 3, 5, "tf32", align=4.0), "product tf32 4", {"s": 4, "bytes": 4 * 31}),
        (product(2, 3, 5, "fp32", align=2.0), "product fp32 1", {}),
        (product(2, 3, 5, "fp16", added=1.0), "product half 8", {"bytes": 2 * (25 + 18)}),
        (
            attention(heads=2, queries=3, keys=5, width=40),
            "attention cudnn half",
            {"queries": 3, "keys": 5, "width": 40, "bytes": 2 * 8 * 40 * 2 * 2},
        ),
        (
            attention(variant="flash", heads=2, queries=3, keys=5, width=40, mask=1),
            "attention flash half",
            {"width": 64, "bytes": 2 * 8 * 40 * 2 * 2 + 2 * 3 * 5 * 2},
        ),
        (
            attention("attention backward", heads=2, queries=3, keys=5, width=64),
            "attention backward cudnn half",
            {"queries": 5, "keys": 3, "bytes": 2 * 8 * 64 * 2 * 4},
        ),
    ],
)
def test_sizes_of_a_product_and_of_attention(
    work: OperatorWork, name: str, sizes: dict[str, float]
) -> None:
    (part,) = formulas.parts_of(work) or ()
    assert part.name == name
    assert {key: part.sizes[key] for key in sizes} == sizes


SMALL = {"images": 2, "in": 16, "out": 32, "pixels": 100, "made": 25, "taps": 9, "stride": 2}
MOVED = (200 * 16 + 50 * 32) * 2 + 16 * 32 * 9 * 2
FLOPS = 2 * 50 * 16 * 32 * 9
UP = {"transposed": 1, "pixels": 25, "made": 100}


@pytest.mark.parametrize(
    ("family", "changes", "name", "sizes"),
    [
        ("", {}, "forward dense", {"m": 50, "n": 32, "k": 144, "b": 1, "flops": FLOPS}),
        (" backward", {"to_weight": 0}, "input dense", {"m": 200, "n": 16, "k": 32 * 9 / 4}),
        (" backward", {"to_weight": 0, "stride": 1}, "input dense", {"m": 200, "k": 288}),
        (" backward", {"to_input": 0}, "weight dense", {"m": 32, "n": 144, "k": 50}),
        (" backward", {"to_weight": 0, "out": 12}, "input thin", {"k": 16 * 9 / 4}),
        (" backward", {"to_weight": 0, "out": 8, "taps": 1, "made": 5}, "input dense", {"k": 1}),
        # What it makes is the gradient of the convolution that maps its output to its input: 200
        # pixels, each from a quarter of 9 taps.
        ("", UP, "forward dense", {"m": 200, "n": 32, "k": 16 * 9 / 4, "flops": FLOPS}),
        (" backward", {**UP, "to_weight": 0}, "input dense", {"m": 50, "n": 16, "k": 288}),
        (" backward", {**UP, "to_input": 0}, "weight dense", {"m": 16, "n": 288, "k": 50}),
        ("", {"groups": 16}, "forward depthwise", {"b": 16, "n": 2, "k": 72, "flops": FLOPS / 16}),
        ("", {"groups": 4}, "forward grouped", {"b": 4, "n": 8, "k": 72}),
        ("", {"in": 12}, "forward thin", {"k": 144}),
        ("", {"out": 12}, "forward thin", {"n": 12}),
        ("", {"taps": 1, "stride": 1}, "forward point", {"k": 16, "copies": 0}),
        ("", {"taps": 1}, "forward dense", {"k": 16, "copies": 0}),
        ("", {"channels_last": 0}, "forward dense", {"copies": 1, "bytes": MOVED}),
        ("", {"channels_last": 0, "taps": 1, "stride": 1}, "forward point", {"copies": 0}),
    ],
)
def test_a_convolution_is_a_product(
    family: str, changes: dict[str, float], name: str, sizes: dict[str, float]
) -> None:
    """Of 2 images of 100 pixels with 16 channels it makes 25 with 32, from 9 taps each."""
    given = convolution(f"convolution{family}")
    work = replace(given, sizes={**given.sizes, **SMALL, **changes})
    (part,) = formulas.parts_of(work) or ()
    assert part.name == f"convolution {name} half"
    assert {key: part.sizes[key] for key in sizes} == pytest.approx(sizes)


E = math.e


@pytest.mark.parametrize(
    ("work", "place"),
    [
        (
            product(E, E**2, E**3, batch=E**4, left=1.0, right=0.0, align=4.0, batched=1.0),
            (1, 2, 3, 2.8, 0.7, 0, 0.98, 0.7, 0, 0, 0),
        ),
        (
            product(1, 1, 1, "fp16", right=1.0, align=1.0, bias=1.0, added=1.0),
            (0, 0, 0, 0, 0, 0.7, 0, 0, 0.3, 1.4, 0.3),
        ),
        (
            attention(heads=E, queries=E**2, keys=E**3, width=E**4),
            (0.7, 1.4, 2.1, 8, 0, 0, 0),
        ),
        (
            # Its blocks of threads go along the queries.
            attention("attention backward", heads=1, queries=E**2, keys=E, width=1),
            (0, 0.7, 1.4, 0, 0, 0, 0),
        ),
        (
            attention(heads=1, queries=1, keys=1, width=1, causal=1, dropout=1, mask=1),
            (0, 0, 0, 0, 1.5, 2, 2),
        ),
        (
            replace(
                convolution(),
                sizes={
                    **convolution().sizes,
                    "images": E,
                    "pixels": E**2,
                    "in": 16.0,
                    "out": 32.0,
                    "channels_last": 0,
                    "tap": 3,
                    "stride": 2,
                },
            ),
            (0.5, 1.2, 0.9 * math.log(16), 0.9 * math.log(32), 1.5, 1.05, 1.6, 0, 2.4, 0, 0, 0),
        ),
        (
            replace(
                convolution(precision="fp16"),
                sizes={
                    **convolution().sizes,
                    "images": 1,
                    "pixels": 1,
                    "in": 16.0,
                    "out": 16.0,
                    "tap": 11,
                    "stride": 5,
                    "transposed": 1,
                    "dims": 1,
                    "dilation": 2,
                    "groups": 16.0,
                },
            ),
            (
                *(0, 0, 0.9 * math.log(16), 0.9 * math.log(16), 0, 3.15, 3.2, 2, 1.2, 1.5, 0.3),
                0.4 * math.log(16),
            ),
        ),
    ],
)
def test_places_are_those_that_the_shipped_weights_were_fitted_to(
    work: OperatorWork, place: tuple[float, ...]
) -> None:
    """Mostly logarithms of sizes, and how much each matters."""
    (part,) = formulas.parts_of(work) or ()
    assert part.place == pytest.approx(place)


@pytest.mark.parametrize(
    ("precision", "channels", "kind", "filled"),
    [
        ("tf32", 12, "dense", 12),
        ("tf32", 6, "thin", 8),
        ("bf16", 12, "thin", 16),
        ("fp16", 24, "dense", 24),
    ],
)
def test_channels_that_fill_no_vector_are_thin(
    precision: str, channels: int, kind: str, filled: int
) -> None:
    """A vector of sixteen bytes is eight numbers of two, four of four."""
    given = convolution(precision=precision)
    work = replace(given, sizes={**given.sizes, "in": channels})
    (part,) = formulas.parts_of(work) or ()
    assert part.name.startswith(f"convolution forward {kind} ")
    assert part.sizes["s"] == (4 if precision == "tf32" else 2)
    assert part.sizes["k"] == 9 * filled


def test_another_gpu_takes_the_table_of_the_nearest_bandwidth_of_its_architecture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = operators.table_for(H200)
    assert own is not None
    tables = {
        name: replace(
            own,
            gpu={
                "name": name,
                "vendor": "nvidia",
                "capability": [major, 0],
                "bandwidth": bandwidth,
            },
        )
        for name, bandwidth, major in (
            ("slow", 1e12, 9),
            ("middle", 2e12, 9),
            ("fast", 4e12, 9),
            ("older", 1.1e12, 8),
        )
    }
    monkeypatch.setattr(operators, "_list_tables", lambda: tables)

    def nearest(bandwidth: float) -> Any:
        table = operators.table_for(replace(H200, name="new", bandwidth=bandwidth))
        return table and table.gpu["name"]

    assert [nearest(each) for each in (1.1e12, 1.9e12, 2.1e12, 3.9e12)] == [
        *("slow", "middle", "middle", "fast"),
    ]
    assert operators.table_for(replace(H200, name="slow", vendor="amd")) is tables["slow"]
    monkeypatch.setattr(operators, "_list_tables", dict)
    assert operators.table_for(H200) is None


def test_other_operators_are_known_by_bytes_and_rows() -> None:
    work = OperatorWork("other", "bf16", 0.0, 300.0, 200.0, {"row": 8.0}, "sort")
    (part,) = formulas.parts_of(work) or ()
    assert (part.name, dict(part.sizes)) == (
        "other sort",
        {"bytes": 500.0, "flops": 0.0, "copies": 0.0},
    )
    assert part.place == pytest.approx((math.log(500), math.log(8)))
    (bare,) = formulas.parts_of(OperatorWork("other", "", 0.0, 0.0, 0.0, {}, "fill")) or ()
    assert bare.place == (0.0, 0.0)


def test_what_is_like_a_measured_call_is_corrected_by_it() -> None:
    """Two calls that took e^0.2 and e^-0.1 of the formula, four lengths apart; half a length from
    the first (1 + √3 / 2) · e^(-√3 / 2) of its correction is left."""
    of = operators.OperatorClass(
        {}, 2.0, ((0.0, 0.0), (8.0, 0.0)), (0.2, -0.1), ((1.0, 0.1), (3.0, 0.3))
    )

    def like(lengths: float) -> float:
        return (1 + math.sqrt(3) * lengths) * math.exp(-math.sqrt(3) * lengths)

    by, nearest = of.correct((0.0, 1.0))
    assert nearest == 1.0
    assert by == pytest.approx(0.2 * like(0.5) - 0.1 * like(math.hypot(8, 1) / 2))
    assert of.correct((0.0, 0.0))[0] == pytest.approx(0.2 - 0.1 * like(4))
    assert operators._spread(of, 1.0) == (0.1, "")
    assert operators._spread(of, 1.1) == (0.3, "")
    assert operators._spread(of, 3.0) == (0.3, "")
    width, doubt = operators._spread(of, 3.1)
    assert width == pytest.approx(0.45)
    assert doubt == "no call of such sizes was measured"


def test_constants_of_another_gpu_by_hand() -> None:
    """Half the peak on half the multiprocessors, at a third of the bandwidth; and twice the peak
    of each multiprocessor."""
    gpu = {"peak_flops": {"bf16": 800.0}, "sm_count": 100, "bandwidth": 3000.0}
    names = ("rate", "feed", "step", "tile", "pair", "exponential", "mask", "dram", "around",
             "partial", "copy_dram", "l2", "launch", "norm")  # fmt: skip
    known = dict.fromkeys(names, 12.0)

    def scaled(peak: float, sms: int) -> dict[str, float]:
        target = replace(H200, peak_flops={"bf16": peak}, sm_count=sms, bandwidth=1000.0)
        return dict(operators.scale_constants(known, gpu, target))

    third = dict.fromkeys(("dram", "around", "partial", "copy_dram"), 4.0)
    assert scaled(400.0, 50) == pytest.approx({**known, **third, "l2": 6.0})
    slower = dict.fromkeys(("feed", "step", "tile", "pair", "exponential", "mask"), 6.0)
    assert scaled(800.0, 50) == pytest.approx(
        {**known, **third, **slower, "rate": 24.0, "l2": 12.0}
    )
    assert scaled(0.0, 50) == pytest.approx({**known, **third, "l2": 6.0})
    assert operators.scale_constants({"launch": 1.0}, gpu, H200) == {"launch": 1.0}


def test_the_host_by_hand() -> None:
    table = operators.table_for(H200)
    assert table is not None
    of = table.host_micros
    calls = [
        ("aten.mm.out", 2), ("aten.convolution", 3), ("aten.convolution_backward", 5),
        ("aten._flash_attention", 7), ("aten._flash_attention_backward", 11),
    ]  # fmt: skip
    expected = of["step"] + 13 * of["launch"] + 2 * of["operator"] + 3 * of["convolution"]
    expected += 5 * of["convolution backward"] + 7 * of["attention"]
    expected += 11 * of["attention backward"]
    found = operators.estimate_host(13, calls, H200)
    assert found == pytest.approx(expected * 1e-6)


def test_eight_bits_are_twice_as_fast_on_matrix_units() -> None:
    wide = operators.estimate_call(product(8192, 8192, 8192), H200)
    small = operators.estimate_call(product(8192, 8192, 8192, "fp8"), H200)
    assert wide is not None
    assert small is not None
    assert 1.7 < wide.seconds / small.seconds < 2.3
    assert small.high / small.low > wide.high / wide.low
    assert "taken as a bfloat16 product of half the depth" in small.doubts
    a100 = targets.get("a100")
    assert operators.estimate_call(product(1024, 1024, 1024, "fp8"), a100) is None


def test_groups_of_unknown_size_are_said() -> None:
    work = replace(product(64, 128, 64, batch=4.0, batched=1.0), variant="grouped")
    found = operators.estimate_call(work, H200)
    assert found is not None
    assert "groups are taken to be of the same size" in found.doubts


def test_what_the_host_needs_has_no_more_digits_than_the_table() -> None:
    for kernels in range(1, 40):
        seconds = operators.estimate_host(kernels, [("aten.mm.out", kernels)], H200)
        assert seconds is not None
        assert len(repr(seconds).partition("e")[0]) <= 10, seconds
