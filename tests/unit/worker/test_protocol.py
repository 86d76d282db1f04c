"""Requests travel as JSON to an interpreter that may have no msgspec."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec
import pytest
from handmade import H100

from perfcli.errors import CompileFailed, PerfcliError, UnreadableSource, UserCodeFailed
from perfcli.fake.run import make_up_run
from perfcli.model import (
    Buffer,
    Candidate,
    CompileRequest,
    KernelFacts,
    LineCounts,
    Origin,
    Run,
    ScriptCommand,
    SourceFacts,
    Target,
    Variant,
)
from perfcli.worker.protocol import decode_dataclass, encode, error_message

VARIANT = Variant(
    name="b",
    options={"max_autotune": True, "a": None, "b": 3, "c": 0.5, "d": "x", "e": [1], "f": {"g": 1}},
    env={"NAME": "value"},
    python="/usr/bin/python3",
)
REQUEST = CompileRequest(
    scenario="gqa-transformer",
    params={"layers": 2, "dtype": "bf16", "learned": True, "scale": 0.5, "seed": None},
    preset="smoke",
    variant=VARIANT,
    device="cuda",
    target=H100,
    dynamic=True,
    jobs=3,
    cache_dir="somewhere",
    on_device=True,
    threads=3,
    varied=({"layers": 3}, {"layers": 4}),
    folder="models",
    script=ScriptCommand("train.py", module=True, arguments=("--lr", "1"), steps=3),
    world=8,
    inputs=("x=8x128:bf16",),
    measured=True,
)


def over_the_wire(value: Any) -> Any:
    return json.loads(encode({"value": value}))["value"]


@pytest.mark.parametrize("value", [REQUEST, VARIANT, H100, Variant("empty")])
def test_each_dataclass_of_a_request_comes_back_equal(value: Any) -> None:
    again = decode_dataclass(type(value), over_the_wire(value))
    assert again == value
    # Equality alone would take a list for a tuple's place, or a dict for a dataclass's.
    assert repr(again) == repr(value)


def test_a_run_comes_back_equal() -> None:
    run = make_up_run(REQUEST).run
    spilling = KernelFacts(
        name="k",
        kind="mix-order-reduction",
        language="triton",
        graph="backward 0",
        launches=1,
        origins=(Origin("add", "aten.add.Tensor", shape=(48, "s0")),),
        source="a",
        source_hash="b",
        source_facts=SourceFacts(1, 0, 0, 0, 0, 0, 0, (), {}, 1, 0, held_copies=("in_ptr0",)),
        candidates=(Candidate({"XBLOCK": 4}, 2, 1, lines={"7": LineCounts(0, 0, 1, 0, "text")}),),
        alternatives=(Candidate({"XBLOCK": 1}, 2, 1, error="refused"),),
        buffers=(Buffer("ws_ptr", "workspace_0", "workspace", "float32", (512,), (1,), 2048),),
        sizes={"x": 98304, "r0_": 512},
        dynamic_sizes=("x",),
    )
    settings: dict[str, Any] = {"online_softmax": True, "max_fusion_size": 64, "triton.x": None}
    counters = {"codegen_mix_order_reduction": 2}
    run = replace(run, kernels=(*run.kernels, spilling), settings=settings, counters=counters)
    line = encode({"value": run})
    assert repr(decode_dataclass(Run, json.loads(line)["value"])) == repr(run)
    # What the parent does, which has msgspec.
    assert msgspec.json.decode(line, type=dict[str, Run])["value"] == run


def test_the_request_has_no_field_that_these_tests_leave_at_its_default() -> None:
    plain = CompileRequest("s", {}, None, Variant("v"), "cpu", None)
    for field in fields(CompileRequest):
        assert getattr(REQUEST, field.name) != getattr(plain, field.name), field.name


def test_none_stays_none_where_a_dataclass_could_stand() -> None:
    request = CompileRequest("softmax", {}, None, Variant("v"), "cpu", None)
    again = decode_dataclass(CompileRequest, over_the_wire(request))
    assert again.target is None
    assert again.preset is None
    assert again.variant.python is None


def test_missing_fields_take_their_defaults() -> None:
    least: dict[str, Any] = {
        "scenario": "s",
        "params": {},
        "preset": None,
        "device": "cpu",
        "target": None,
    }
    again = decode_dataclass(CompileRequest, {**least, "variant": {"name": "v"}})
    assert again == CompileRequest("s", {}, None, Variant("v"), "cpu", None)


@dataclass(frozen=True)
class Inner:
    number: int


@dataclass(frozen=True)
class Nested:
    pair: tuple[int, Inner]
    many: tuple[Inner, ...]
    table: Mapping[str, Inner]
    either: Inner | str | None


@pytest.mark.parametrize("either", [Inner(4), "text", None])
def test_nested_containers_and_unions(either: Inner | str | None) -> None:
    value = Nested((1, Inner(2)), (Inner(3), Inner(4)), {"a": Inner(5)}, either)
    assert decode_dataclass(Nested, over_the_wire(value)) == value


@pytest.mark.parametrize(
    "data", [[], "text", None, {"name": "v", "no such field": 1}, {"options": {}}]
)
def test_data_of_another_shape_is_refused(data: Any) -> None:
    with pytest.raises((TypeError, KeyError)):
        decode_dataclass(Variant, data)


def test_a_message_is_one_line_whatever_its_texts() -> None:
    line = encode({"text": "a\nb\u2028c", "target": H100})
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line)["text"] == "a\nb\u2028c"


def test_what_is_neither_plain_nor_a_dataclass_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot send a set"):
        encode({"value": {1}})
    with pytest.raises(TypeError, match="cannot send a type"):
        encode({"value": Target})


def test_errors_keep_kind_message_and_detail() -> None:
    assert error_message(CompileFailed("no", detail="why")) == {
        "type": "error",
        "kind": "CompileFailed",
        "message": "no",
        "detail": "why",
    }
    assert error_message(UserCodeFailed("no"))["kind"] == "UserCodeFailed"


def test_an_error_that_the_parent_does_not_expect_is_a_plain_one() -> None:
    assert error_message(UnreadableSource("no"))["kind"] == PerfcliError.__name__


def test_requests_are_decoded_without_any_installed_package() -> None:
    code = """
import json, sys
from perfcli.model import CompileRequest
from perfcli.worker.protocol import decode_dataclass
request = decode_dataclass(CompileRequest, json.loads(sys.stdin.readline())["value"])
import perfcli.worker.child
assert not {"msgspec", "rich", "typer", "torch"} & set(sys.modules), sorted(sys.modules)
print(repr(request))
"""
    import perfcli

    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-P",
            "-c",
            f"import sys; sys.path.insert(0, {_root(perfcli)!r})\n" + code,
        ],
        input=encode({"value": REQUEST}).decode(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.strip() == repr(REQUEST)


def _root(package: Any) -> str:
    folder: str = package.__path__[0]
    return folder.rpartition("/")[0]
