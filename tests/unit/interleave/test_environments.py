"""What differs between two workers, what of it was asked for, and what is let pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfcli.errors import NotComparable, PerfcliError
from perfcli.interleave.environments import ASPECTS, _differences, check, check_allowed
from perfcli.model import Machine, MeasuredLaunch, Prepared, Variant

MACHINE = Machine(
    "NVIDIA H200",
    "2.11.0",
    triton="3.6.0",
    ptxas="12.8",
    python="3.11.9",
    driver="580.82",
    device_index=0,
    uuid="GPU-1",
    threads=1,
    cpus=(0,),
    facts={
        "max_sm_clock_mhz": 1980,
        "power_limit_watts": 700.0,
        "ecc": True,
        "mig": False,
        "persistence": True,
        "governor": "performance",
        "cores": 32,
        "fixed_layout": True,
        "multiprocessors": 132,
        "cuda": "13.0",
        "numa_nodes": 2,
    },
    variables={"CUDA_VISIBLE_DEVICES": "0"},
)
LAUNCHES = (
    MeasuredLaunch("triton_red_0", source_hash="aa", config="XBLOCK=1 warps=8"),
    MeasuredLaunch("triton_poi_1", source_hash="bb", config="XBLOCK=512 warps=4"),
    MeasuredLaunch("aten::mm", generated=False),
)
BASE = Prepared("base", 0, MACHINE, 0.001, 1.0, LAUNCHES)
DEFAULT = Variant("default")


def elsewhere(**fields: Any) -> Prepared:
    """A head whose machine differs in these fields, or facts."""
    facts = {name: fields.pop(name) for name in list(fields) if name in MACHINE.facts}
    machine = replace(MACHINE, facts={**MACHINE.facts, **facts}, **fields)
    return replace(BASE, side="head", machine=machine)


def found(head: Prepared, variant: Variant = DEFAULT, base: Variant = DEFAULT) -> list[str]:
    return [difference.aspect for difference in _differences(BASE, head, base, variant)]


DIFFERING: dict[str, dict[str, Any]] = {
    "gpu": {"device": "NVIDIA H100"},
    "driver": {"driver": "570.10"},
    "clocks": {"max_sm_clock_mhz": 1755},
    "power-limit": {"power_limit_watts": 500.0},
    "ecc": {"ecc": False},
    "mig": {"mig": True},
    "torch": {"torch": "2.12.0"},
    "triton": {"triton": "3.7.0"},
    "ptxas": {"ptxas": "12.9"},
    "python": {"python": "3.12.1"},
    "threads": {"threads": 2},
    "cpus": {"cpus": (0, 1)},
    "layout": {"fixed_layout": False},
    "variables": {"variables": {"CUDA_VISIBLE_DEVICES": "1"}},
    "machine": {"numa_nodes": 1},
}


def test_alike_is_alike() -> None:
    head = elsewhere(uuid="GPU-2", device_index=1)
    assert found(head) == []
    assert check(BASE, head, (DEFAULT, DEFAULT)) == []


@pytest.mark.parametrize("aspect", DIFFERING)
def test_each_aspect_is_seen_refused_and_let_pass(aspect: str) -> None:
    head = elsewhere(**DIFFERING[aspect])
    assert found(head) == [aspect]
    with pytest.raises(NotComparable, match=f"with --allow-env {aspect}$"):
        check(BASE, head, (DEFAULT, DEFAULT), [name for name in ASPECTS if name != aspect])
    (let_pass,) = check(BASE, head, (DEFAULT, DEFAULT), [aspect])
    assert let_pass.aspect == aspect


def test_every_aspect_is_tried_here() -> None:
    assert {*DIFFERING, "autotune"} == set(ASPECTS)


@pytest.mark.parametrize("fact", ["governor", "persistence"])
def test_what_decides_clocks_counts_as_clocks(fact: str) -> None:
    assert found(elsewhere(**{fact: "other"})) == ["clocks"]


def test_a_gpu_of_the_same_name_with_fewer_multiprocessors() -> None:
    assert found(elsewhere(multiprocessors=114)) == ["gpu"]


def test_cuda_comes_with_torch() -> None:
    assert found(elsewhere(cuda="12.8")) == ["torch"]
    assert found(elsewhere(cuda="12.8"), Variant("", python="/new/bin/python")) == []


def test_what_inductor_sets_for_itself_is_no_difference() -> None:
    variables = {**MACHINE.variables, "TRITON_PTXAS_PATH": "/other/ptxas"}
    assert found(elsewhere(variables=variables)) == []


def test_the_message_says_all_reasons_and_the_way_out() -> None:
    head = elsewhere(driver="570.10", ecc=False)
    with pytest.raises(NotComparable) as caught:
        check(BASE, head, (DEFAULT, DEFAULT))
    assert str(caught.value) == (
        "base and head did not run alike, so nothing was timed: "
        "the driver: 580.82 in the base, 570.10 in the head; "
        "ecc: yes in the base, no in the head. "
        "Make them equal, or compare all the same with --allow-env driver --allow-env ecc"
    )
    assert caught.value.exit_code == 4


def test_one_of_two_allowed_leaves_the_other() -> None:
    head = elsewhere(driver="570.10", ecc=False)
    with pytest.raises(NotComparable) as caught:
        check(BASE, head, (DEFAULT, DEFAULT), ["ecc"])
    assert "ecc" not in str(caught.value)


def test_what_one_side_does_not_know_is_no_difference() -> None:
    head = elsewhere(driver=None, threads=None, cpus=(), python="", ecc=None)
    assert found(head) == []
    assert found(replace(BASE, machine=replace(MACHINE, facts={}))) == []


def test_another_interpreter_brings_its_own_torch() -> None:
    other = elsewhere(torch="2.12.0", triton="3.7.0", ptxas="12.9", python="3.12.1")
    assert found(other) == ["torch", "triton", "ptxas", "python"]
    assert found(other, Variant("", python="/new/bin/python")) == []


def test_another_interpreter_excuses_no_other_machine() -> None:
    head = elsewhere(driver="570.10", device="NVIDIA H100")
    assert found(head, Variant("", python="/new/bin/python")) == ["gpu", "driver"]


def test_variables_of_a_variant_are_asked_for() -> None:
    head = elsewhere(variables={"CUDA_VISIBLE_DEVICES": "0", "TORCHINDUCTOR_X": "1"})
    assert found(head) == ["variables"]
    assert found(head, Variant("", env={"TORCHINDUCTOR_X": "1"})) == []
    assert found(head, Variant("", env={"TORCHINDUCTOR_Y": "1"})) == ["variables"]


def test_variables_that_set_threads_or_ptxas() -> None:
    assert found(elsewhere(threads=2), Variant("", env={"OMP_NUM_THREADS": "2"})) == []
    assert found(elsewhere(ptxas="13"), Variant("", env={"TRITON_PTXAS_PATH": "/x"})) == []
    same = Variant("", env={"OMP_NUM_THREADS": "2"})
    assert found(elsewhere(threads=2), same, same) == ["threads"]


def tuned(config: str, source: str = "aa") -> Prepared:
    launch = replace(LAUNCHES[0], name="triton_red_5", config=config, source_hash=source)
    return replace(BASE, side="head", launches=(launch, *LAUNCHES[1:]))


def test_identical_kernels_launched_otherwise() -> None:
    head = tuned("XBLOCK=1 warps=16")
    (difference,) = _differences(BASE, head, DEFAULT, DEFAULT)
    assert difference.aspect == "autotune"
    assert difference.text == (
        "the launch configuration of triton_red_0, identical on both sides: "
        "XBLOCK=1 warps=8 in the base, XBLOCK=1 warps=16 in the head"
    )


def test_other_kernels_may_be_launched_otherwise() -> None:
    assert found(tuned("XBLOCK=1 warps=16", source="cc")) == []
    assert found(tuned("")) == []


def test_the_same_configurations_in_another_order() -> None:
    twice = replace(LAUNCHES[0], config="XBLOCK=2 warps=8")
    base = replace(BASE, launches=(LAUNCHES[0], twice))
    head = replace(BASE, launches=(twice, LAUNCHES[0], LAUNCHES[0]))
    assert _differences(base, head, DEFAULT, DEFAULT) == []


@pytest.mark.parametrize(
    "variant",
    [
        Variant("", options={"max_autotune": True}),
        Variant("", options={"coordinate_descent_tuning": True}),
        Variant("", env={"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}),
        Variant("", python="/new/bin/python"),
    ],
)
def test_who_asks_for_tuning_gets_other_configurations(variant: Variant) -> None:
    assert found(tuned("XBLOCK=1 warps=16"), variant) == []


def test_other_options_do_not_excuse_other_configurations() -> None:
    head = tuned("XBLOCK=1 warps=16")
    assert found(head, Variant("", options={"online_softmax": False})) == ["autotune"]
    tuning = Variant("", options={"max_autotune": True})
    assert found(head, tuning, tuning) == ["autotune"]


def test_unknown_names_are_refused_before_anything_is_compiled() -> None:
    check_allowed(ASPECTS)
    with pytest.raises(PerfcliError, match=r"--allow-env takes gpu, driver, .*; got 'gpus'"):
        check_allowed(["driver", "gpus"])
