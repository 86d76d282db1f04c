"""What a metric is worth, for which device, and of which variants an answer is valid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcli.bisect.exact import _Halfway
from perfcli.bisect.knowledge import Knowledge, _class_of, _pair_of, _parts_of
from perfcli.bisect.metrics import METRICS, _find, _value_of
from perfcli.blobs import pack
from perfcli.errors import PerfcliError
from perfcli.fake.run import make_up_run, weigh_kernels
from perfcli.machine import targets
from perfcli.model import Bundle, CompileRequest, Generated, Variant
from perfcli.predict.step import estimate_step
from perfcli.search.weighing import Reading

RUN = make_up_run(
    CompileRequest("x", {"layers": 2}, None, Variant(""), "cuda", targets.get("h100"))
).run


def test_values_are_the_sums_of_kernels() -> None:
    codes = {(kernel.graph, kernel.source_hash): kernel for kernel in RUN.kernels}.values()
    loads = sum(k.source_facts.loads for k in codes if k.source_facts)
    assert _value_of(METRICS["loads"], RUN) == loads > 0
    assert _value_of(METRICS["kernels"], RUN) == len(RUN.kernels)
    assert _value_of(METRICS["peak-memory"], RUN) == 4e9


def test_bytes_are_swept_at_each_launch() -> None:
    kernel = replace(RUN.kernels[0], bytes_swept=100, launches=3)
    run = replace(RUN, kernels=(kernel, replace(kernel, bytes_swept=7)))
    assert _value_of(METRICS["swept"], run) == 321


def test_an_estimate_is_the_steps() -> None:
    request = CompileRequest("x", {"layers": 2}, None, Variant(""), "cuda", targets.get("h200"))
    bare = make_up_run(request).run
    bare = replace(bare, weighed=True)
    run = replace(bare, kernels=weigh_kernels(bare.kernels))
    step = estimate_step(run)
    assert step is not None
    assert _value_of(METRICS["estimated-time"], run) == step.seconds > 0
    # What bytes alone tell is too little to tell two variants apart.
    name = bare.kernels[0].name
    with pytest.raises(PerfcliError, match=f"{name}: estimated from its bytes alone: its work"):
        _value_of(METRICS["estimated-time"], bare)
    unknown = replace(bare, kernels=tuple(replace(k, bytes_read=None) for k in bare.kernels))
    with pytest.raises(PerfcliError, match=f"{name}: its work could not be counted"):
        _value_of(METRICS["estimated-time"], unknown)
    with pytest.raises(PerfcliError, match="no GPU like it was calibrated"):
        _value_of(METRICS["estimated-time"], replace(run, target=None))


def test_the_same_code_is_counted_once_in_a_graph() -> None:
    """Where comments say which node a kernel is of, one kernel of three launches becomes three."""
    kernel = RUN.kernels[0]
    assert kernel.source_facts is not None
    three = tuple(replace(kernel, name=f"kernel_{i}", launches=1) for i in range(3))
    assert _value_of(METRICS["loads"], replace(RUN, kernels=three)) == kernel.source_facts.loads
    elsewhere = replace(kernel, graph="another graph")
    run = replace(RUN, kernels=(*three, elsewhere))
    assert _value_of(METRICS["loads"], run) == 2 * kernel.source_facts.loads


def test_kernels_with_candidates_take_the_place_of_those_without() -> None:
    assert _value_of(METRICS["spills"], replace(RUN, kernels=())) == 0


@pytest.mark.parametrize("name", ["time", "step-time", "step_seconds"])
def test_names_and_their_aliases(name: str) -> None:
    assert _find(name, "cpu") is METRICS["time"]


def test_what_the_cpu_does_not_have() -> None:
    with pytest.raises(PerfcliError, match="no metric registers on the CPU: take one of loads"):
        _find("registers", "cpu")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("load", "no metric 'load': did you mean loads?"),
        ("xyz", ": known: " + ", ".join(sorted(METRICS))),
    ],
)
def test_a_metric_that_is_none(name: str, said: str) -> None:
    with pytest.raises(PerfcliError) as caught:
        _find(name, "cuda")
    assert str(caught.value).endswith(said)


PARTS = {"binary": "b", "code": "c"}
GRAPHS = {"triton.cudagraphs": True}


@pytest.mark.parametrize(("name", "expected"), [("loads", "c"), ("spills", "b"), ("time", "abc")])
def test_as_much_of_the_code_as_decides_the_metric(name: str, expected: str) -> None:
    assert _class_of("abc", {"online_softmax": False}, METRICS[name], PARTS) == expected


def test_what_acts_later_makes_another_class_for_the_clock() -> None:
    assert _class_of("abc", GRAPHS, METRICS["time"], PARTS) != "abc"
    assert _class_of("abc", GRAPHS, METRICS["peak-memory"], PARTS) == "c"
    assert _class_of("abc", GRAPHS, METRICS["peak-memory"], PARTS, measured=True) not in (
        "abc",
        "c",
    )


def test_each_variant_takes_its_own_time_to_compile() -> None:
    metric = METRICS["compile-time"]
    first, second = ({"online_softmax": value} for value in (True, False))
    assert _class_of("abc", first, metric, PARTS) != _class_of("abc", second, metric, PARTS)
    assert _class_of("abc", {}, metric, PARTS) == "abc"


def generated(source: str) -> Generated:
    kernel = replace(RUN.kernels[0], source="s", source_hash=source, candidates=())
    bundle = Bundle(replace(RUN, kernels=(kernel,)), {"s": pack(source)})
    return Generated("abc", bundle)


def test_launch_heuristics_decide_binaries_and_bodies_what_is_read() -> None:
    plain = _parts_of(generated("@heuristics(warps=1)\n@triton.jit\ndef kernel(): load()"))
    launch = _parts_of(generated("@heuristics(warps=2)\n@triton.jit\ndef kernel(): load()"))
    body = _parts_of(generated("@heuristics(warps=1)\n@triton.jit\ndef kernel(): pass"))
    assert plain["code"] == launch["code"] != body["code"]
    assert len({parts["binary"] for parts in (plain, launch, body)}) == 3


def test_comments_and_the_kernels_that_they_make_are_no_code() -> None:
    """One kernel of two launches, and two of one launch whose texts differ in comments only."""

    def made(*origins: str) -> Generated:
        texts = [f"@triton.jit\ndef kernel():\n{origin}    load()\n" for origin in origins]
        one = replace(RUN.kernels[0], source_hash="one", candidates=())
        kernels = tuple(
            replace(one, name=f"kernel_{n}", source=str(n), launches=2 // len(origins))
            for n in range(len(origins))
        )
        blobs = {str(n): pack(text) for n, text in enumerate(texts)}
        return Generated("abc", Bundle(replace(RUN, kernels=kernels), blobs))

    origins = [f"\n    # ORIGIN: {name}\n\n" for name in ("sum", "mul")]
    assert _parts_of(made(*origins)) == _parts_of(made(""))
    assert _parts_of(made("", "")) == _parts_of(made(""))
    assert _parts_of(made("    wait()\n")) != _parts_of(made(""))


def test_the_same_body_over_other_buffers_is_swept_otherwise() -> None:
    source = "@triton.jit\ndef kernel(): load()"
    made = generated(source).bundle

    def swept(amount: int) -> Generated:
        (kernel,) = made.run.kernels
        run = replace(made.run, kernels=(replace(kernel, bytes_swept=amount),))
        return Generated("abc", replace(made, run=run))

    one, two = swept(100), swept(200)
    assert _parts_of(one)["code"] != _parts_of(two)["code"]
    assert _parts_of(one)["binary"] == _parts_of(two)["binary"]


def test_readings_against_one_end() -> None:
    known = Knowledge()
    made = [Reading(0.1, 0.01)]
    known.readings[_pair_of("g", "c", METRICS["time"])] = made
    known.readings[_pair_of("other", "c", METRICS["time"])] = []
    assert known.readings_against("g", METRICS["time"]) == {"c": made}


def test_half_of_the_difference_is_bad() -> None:
    halfway = _Halfway(10, 20)
    assert [halfway.judge(v).outcome for v in (8, 14, 15, 30)] == ["good", "good", "bad", "bad"]
    assert halfway.share(12) == 0.2
