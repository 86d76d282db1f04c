"""Variants forked from one process: the code of a fresh process, failures kept apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from warm import Templates, WarmProcess

from perfcli.blobs import unpack
from perfcli.errors import CompileFailed
from perfcli.machine import environment, targets
from perfcli.model import CompileRequest, Generated, KernelText, OptionValue, Variant
from perfcli.worker.template import TemplateProcess, WarmWorker

pytestmark = pytest.mark.torch


def request_with(**options: OptionValue) -> CompileRequest:
    return CompileRequest(
        "softmax",
        {"rows": 64, "columns": 4096},
        None,
        Variant("x", options),
        "cuda",
        targets.get("h100"),
        cache_dir=str(environment.cache_dir()),
    )


def made_of(templates: Templates, *requests: CompileRequest) -> list[Generated]:
    found = dict(templates.generate(requests))
    assert all(isinstance(found[number], Generated) for number in range(len(requests)))
    return [found[number] for number in range(len(requests))]  # type: ignore[misc]


def test_the_code_is_that_of_a_fresh_process(
    templates: Templates, warm_process: WarmProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    default, other = made_of(templates, request_with(), request_with(online_softmax=False))
    monkeypatch.setattr("perfcli.worker.template.WarmWorker", WarmWorker)
    alone = TemplateProcess(300)._alone(request_with())
    assert isinstance(alone, Generated)
    assert alone.code == default.code != other.code
    whole, bare = warm_process.compile(request_with()).run.kernels, default.bundle.run.kernels
    assert [k.source_hash for k in whole] == [k.source_hash for k in bare]
    texts = [
        KernelText(k.name, k.language, unpack(default.bundle.blobs[k.source]), k.kind) for k in bare
    ]
    asked = list(zip(bare, texts, strict=True))
    compiled = templates.with_binaries(asked, request_with(), weighs=True)
    assert [k.candidates for k in compiled] == [k.candidates for k in whole]


def test_other_values_of_what_nobody_reads_give_the_same_code(templates: Templates) -> None:
    (default,) = made_of(templates, request_with())
    assert "conv_1x1_as_mm" in default.unread  # there is no convolution
    assert "online_softmax" not in default.unread
    (other,) = made_of(templates, request_with(conv_1x1_as_mm=True))
    assert other.code == default.code


def test_folders_share_a_process(templates: Templates, tmp_path: Path) -> None:
    requests = []
    for name in ("sin", "cos"):
        (tmp_path / name).mkdir()
        text = f"import torch\n\n\ndef f():\n    return torch.{name}, (torch.zeros(64),)\n"
        (tmp_path / name / "model.py").write_text(text)
        asked = replace(request_with(), scenario="model.py:f", params={})
        requests.append(replace(asked, folder=str(tmp_path / name)))
    kept = templates.of(requests[0])
    seen = []
    for name, request in zip(("sin", "cos"), requests, strict=True):
        (made,) = made_of(templates, request)
        (kernel,) = made.bundle.run.kernels
        assert f"tl_math.{name}(" in unpack(made.bundle.blobs[kernel.source])
        seen.append([*kept._templates.values()][-1])
    assert seen[0] is seen[1]


def test_a_failure_is_that_variants_alone(templates: Templates) -> None:
    found = dict(templates.generate([request_with(no_such_option=1), request_with()]))
    assert isinstance(found[0], CompileFailed)
    assert "no option no_such_option" in str(found[0])
    assert isinstance(found[1], Generated)
