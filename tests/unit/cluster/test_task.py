"""One task, without Ray: JSON in and out, whatever happens."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from handmade import H100

from perfcli.cluster.parcel import address, pack
from perfcli.cluster.task import Outcome, Software, TaskRequest, fill, read_outcome
from perfcli.errors import CompileFailed, PerfcliError
from perfcli.fake.run import make_up_run
from perfcli.model import Bundle, CompileRequest, Generated, Variant

REQUEST = CompileRequest("softmax", {"rows": 8}, None, Variant("v"), "cuda", H100)
ORDER = TaskRequest((REQUEST,), None, False, None, {}, plan="1")


def carry_out(order: TaskRequest, archive: bytes | None = None) -> Outcome:
    return read_outcome(fill(msgspec.json.encode(order), archive))


def test_a_run_comes_back_as_it_was_made() -> None:
    (result,) = carry_out(ORDER).results
    assert result.bundle == make_up_run(REQUEST)


def test_errors_come_back_with_their_kind() -> None:
    (result,) = carry_out(msgspec.structs.replace(ORDER, plan="compile:all")).results
    assert isinstance(result.bundle, CompileFailed)
    assert "could not compile forward 0 of softmax" in str(result.bundle)
    (result,) = carry_out(msgspec.structs.replace(ORDER, plan="takes:x")).results
    assert "internal error: ValueError" in str(result.bundle)


def test_code_for_a_search() -> None:
    others = (REQUEST, replace(REQUEST, scenario="rmsnorm"))
    order = msgspec.structs.replace(ORDER, requests=others, generates=True)
    made = [result.generated for result in carry_out(order).results]
    assert all(isinstance(each, Generated) and each.code for each in made)


def test_a_machine_with_another_torch_takes_nothing() -> None:
    wanted = Software("3.11", "9.9.9", "1", "1")
    outcome = carry_out(msgspec.structs.replace(ORDER, software=wanted))
    assert "instead of 1" in outcome.unfit
    assert outcome.results == ()
    here = Software("3.11", "2.13.0", "3.7.1", "0.1")
    assert here.differs(here) == ""
    assert (
        here.differs(Software("3.11", "2.12.1", "3.6", "0.1")) == "torch 2.12.1 instead of 2.13.0"
    )


def test_variables_are_those_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray sets OMP_NUM_THREADS, which decides how many threads C++ kernels are written for."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    seen: dict[str, str] = {}

    def look(request: CompileRequest) -> Bundle:
        seen.update(os.environ)
        return make_up_run(request)

    monkeypatch.setattr("perfcli.fake.executor.make_up_run", look)
    carry_out(msgspec.structs.replace(ORDER, variables={"TORCH_LOGS": "x"}))
    assert ("OMP_NUM_THREADS" in seen, seen["TORCH_LOGS"]) == (False, "x")
    assert seen["CUDA_VISIBLE_DEVICES"] == "3"
    assert (os.environ["OMP_NUM_THREADS"], "TORCH_LOGS" in os.environ) == ("1", False)


def test_what_is_made_of_the_users_files_names_their_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text("def block(): return 1\n")
    monkeypatch.chdir(tmp_path)
    packed = pack(tmp_path)
    seen: list[str] = []

    def fail(request: CompileRequest) -> Bundle:
        path = request.scenario.partition(":")[0]
        seen.append(Path(path).read_text())
        raise PerfcliError(f"{path} is wrong", detail=f"File {path}, line 1")

    monkeypatch.setattr("perfcli.fake.executor.make_up_run", fail)
    asked = address(replace(REQUEST, scenario="model.py:block"), packed)
    order = msgspec.structs.replace(ORDER, requests=(asked,), root=str(tmp_path), sha=packed.sha)
    ((result,),) = [carry_out(order, packed.archive).results]
    assert seen == ["def block(): return 1\n"]
    assert str(result.bundle) == f"{tmp_path}/model.py is wrong"
