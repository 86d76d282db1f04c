"""Variants that part from a common base have the code, the failures and the unread options of
variants that were compiled from the start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from warm import Templates

from perfcli.blobs import unpack
from perfcli.errors import CompileFailed, UserCodeFailed, WorkerFailed
from perfcli.machine import environment, targets
from perfcli.model import CompileRequest, Generated, OptionValue, Scalar, Variant
from perfcli.worker.roles import Made
from perfcli.worker.template import TemplateProcess

pytestmark = pytest.mark.torch

Options = Mapping[str, OptionValue]

MODEL = """
import os
import signal

import torch
import torch._inductor.config as inductor


def patched():
    with inductor.patch(max_fusion_size=7):
        inside = inductor.max_fusion_size
    revert = inductor._make_closure_patcher(realize_reads_threshold=5)()
    unseen = inductor.realize_reads_threshold
    revert()
    after = inductor.max_fusion_size + 1000 * inductor.realize_reads_threshold
    return lambda x: x.sin() + (inside + 10 * unseen + 100 * after), (torch.empty(64, 64),)


def fatal():
    if inductor.max_fusion_size == 3:
        raise ValueError("three")
    if inductor.max_fusion_size == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda x: x.sin() + inductor.max_fusion_size, (torch.empty(64, 64),)
"""


def requests_for(
    scenario: str, params: Mapping[str, Scalar], variants: Sequence[Options]
) -> list[CompileRequest]:
    cache, target = str(environment.cache_dir()), targets.get("h100")
    return [
        CompileRequest(
            scenario, params, None, Variant("x", each), "cuda", target, jobs=2, cache_dir=cache
        )
        for each in variants
    ]


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def both(
    templates: Templates, requests: list[CompileRequest]
) -> tuple[dict[int, Made], dict[int, Made]]:
    """Parted from the first one, and each from the start."""
    return dict(templates.generate(requests, requests[0])), dict(templates.generate(requests))


def assert_same(parted: Made, whole: Made) -> None:
    assert isinstance(parted, Generated)
    assert isinstance(whole, Generated)
    assert parted.code == whole.code
    assert parted.unread == whole.unread
    assert parted.bundle.blobs == whole.bundle.blobs
    ours, theirs = parted.bundle.run, whole.bundle.run
    assert ours.kernels == theirs.kernels
    assert (ours.variant, ours.settings) == (theirs.variant, theirs.settings)
    assert (ours.counters, ours.notes) == (theirs.counters, theirs.notes)


EARLY_AND_LATE: list[Options] = [
    {},
    {"dynamo.cache_size_limit": 3},  # another name of recompile_limit
    {"functorch.cse": False},
    {"online_softmax": False},
    {"split_reductions": False, "triton.unique_kernel_names": False},
    {"triton.persistent_reductions": False},
    {"max_fusion_size": 1},
]
OF_A_GRADIENT = [EARLY_AND_LATE[n] for n in (0, 2, 5, 6)]
"""Read before the graph of the gradient is made, and while its code is generated."""
UNREAD: Options = {"conv_1x1_as_mm": True}


@pytest.mark.parametrize(
    ("scenario", "params", "variants"),
    [
        ("softmax", {"rows": 64, "columns": 4096}, EARLY_AND_LATE),
        ("rmsnorm", {"rows": 64, "columns": 1024, "mode": "training"}, OF_A_GRADIENT),
    ],
)
def test_the_same_as_from_the_start(
    templates: Templates, scenario: str, params: Mapping[str, Scalar], variants: list[Options]
) -> None:
    requests = requests_for(scenario, params, [*variants, UNREAD])
    parted, whole = both(templates, requests)
    base = parted[0]
    assert isinstance(base, Generated)
    assert base.bundle.run.mode == params.get("mode", "forward")
    left_out = set(whole) - set(parted)
    assert len(requests) - 1 in left_out
    for number, made in whole.items():
        if number not in left_out:
            assert_same(parted[number], made)
            continue
        assert isinstance(made, Generated)
        assert made.code == base.code
        assert set(requests[number].variant.options) <= set(base.unread)


def test_a_base_that_nobody_asked_for(templates: Templates) -> None:
    variants: list[Options] = [{"online_softmax": False, **each} for each in EARLY_AND_LATE[4:]]
    base, *requests = requests_for(
        "softmax", {"rows": 64, "columns": 4096}, [{"online_softmax": False}, *variants]
    )
    parted, whole = dict(templates.generate(requests, base)), dict(templates.generate(requests))
    assert set(parted) == set(whole)
    for number, made in whole.items():
        assert_same(parted[number], made)


def test_a_patch_is_not_shared_with_what_lacks_it(templates: Templates) -> None:
    """A patch acts without any option being read, so what differs in one does not part, whether the
    base has it or lacks it."""
    patch: Options = {"patch.accumulated_reads_size": 4 * 64 * 64 * 4}
    variants: list[Options] = [{}, {"max_fusion_size": 2}, patch, {**patch, "max_fusion_size": 2}]
    requests = requests_for("accumulate", {"size": 64, "repeats": 10}, variants)
    parted, whole = both(templates, requests)
    patched = dict(templates.generate(requests, requests[-1]))
    assert set(parted) == set(patched) == set(whole) == {0, 1, 2, 3}
    codes = set()
    for number, made in whole.items():
        assert_same(parted[number], made)
        assert_same(patched[number], made)
        assert isinstance(made, Generated)
        is_patched = "patch.accumulated_reads_size" in variants[number]
        assert len(made.bundle.run.patch_notes) == is_patched
        codes.add((made.code, is_patched))
    assert len({code for code, _ in codes}) == len(codes) > 1


def test_options_that_are_patched(templates: Templates, model: str) -> None:
    variants: list[Options] = [{}, {"max_fusion_size": 2}, {"realize_reads_threshold": 3}]
    parted, whole = both(templates, requests_for(f"{model}:patched", {}, variants))
    for number, made in whole.items():
        assert_same(parted[number], made)
    # Patched to 7 and 5 inside; outside what is set, 64 and 4 by default.
    assert [added_by(parted[number]) for number in range(3)] == [
        7 + 50 + 100 * (64 + 4000),
        7 + 50 + 100 * (2 + 4000),
        7 + 50 + 100 * (64 + 3000),
    ]


def added_by(made: Made) -> float:
    """The number that the only kernel adds."""
    assert isinstance(made, Generated)
    (kernel,) = made.bundle.run.kernels
    text = unpack(made.bundle.blobs[kernel.source])
    found = re.search(r"tl.full\(\[1\], ([\d.]+), tl.float32\)", text)
    assert found is not None
    return float(found[1])


def test_what_fails_in_a_branch_fails_alone(templates: Templates, model: str) -> None:
    variants: list[Options] = [{}, *({"max_fusion_size": n} for n in (3, 4, 5)), {"no_option": 1}]
    requests = requests_for(f"{model}:fatal", {}, variants)
    parted = dict(templates.generate(requests, requests[0]))
    numbers = (0, 1, 3, 4)
    made = dict(templates.generate([requests[number] for number in numbers]))
    whole = {number: made[place] for place, number in enumerate(numbers)}
    for number in (0, 3):
        assert_same(parted[number], whole[number])
    for number, kind in ((1, UserCodeFailed), (4, CompileFailed)):
        assert isinstance(parted[number], kind)
        assert str(parted[number]) == str(whole[number])
    # What is killed is tried in a fresh process, whether it branched off or not.
    assert isinstance(parted[2], WorkerFailed)
    assert "killed by SIGKILL" in str(parted[2])


@pytest.mark.parametrize("fatal", [3, 4])
def test_a_base_that_fails(
    templates: Templates, model: str, fatal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others that differ in the option that it fails by, and one that shares its failure. Who is
    killed is asked for once more, alone."""
    asked: list[Options] = []

    def fail_again(_: TemplateProcess, request: CompileRequest) -> Made:
        asked.append(request.variant.options)
        return WorkerFailed("killed again")

    monkeypatch.setattr(TemplateProcess, "_alone", fail_again)
    bad: Options = {"max_fusion_size": fatal}
    variants: list[Options] = [bad, {"max_fusion_size": 5}, {**bad, "split_reductions": False}]
    requests = requests_for(f"{model}:fatal", {}, variants)
    parted = dict(templates.generate(requests, requests[0]))
    ((_, whole),) = templates.generate(requests[1:2])
    assert_same(parted[1], whole)
    kind = UserCodeFailed if fatal == 3 else WorkerFailed
    assert all(isinstance(parted[number], kind) for number in (0, 2))
    assert asked == ([variants[0], variants[2]] if fatal == 4 else [])
