"""Variants forked from one process: the code of a fresh process, failures kept apart."""

from __future__ import annotations

import pytest
from warm import WarmProcess

from perfcli.blobs import unpack
from perfcli.errors import CompileFailed
from perfcli.machine import environment, targets
from perfcli.model import CompileRequest, Generated, KernelText, OptionValue, Variant
from perfcli.worker.template import TemplateProcess

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


def made_of(template: TemplateProcess, *requests: CompileRequest) -> list[Generated]:
    found = dict(template.generate(requests))
    assert all(isinstance(found[number], Generated) for number in range(len(requests)))
    return [found[number] for number in range(len(requests))]  # type: ignore[misc]


def test_the_code_is_that_of_a_fresh_process(
    template: TemplateProcess, warm_process: WarmProcess
) -> None:
    default, other = made_of(template, request_with(), request_with(online_softmax=False))
    alone = template._alone(request_with())
    assert isinstance(alone, Generated)
    assert alone.code == default.code != other.code
    whole, bare = warm_process.compile(request_with()).run.kernels, default.bundle.run.kernels
    assert [k.source_hash for k in whole] == [k.source_hash for k in bare]
    texts = [
        KernelText(k.name, k.language, unpack(default.bundle.blobs[k.source]), k.kind) for k in bare
    ]
    asked = list(zip(bare, texts, strict=True))
    compiled = template.with_binaries(asked, request_with(), weighs=True)
    assert [k.candidates for k in compiled] == [k.candidates for k in whole]


def test_other_values_of_what_nobody_reads_give_the_same_code(template: TemplateProcess) -> None:
    (default,) = made_of(template, request_with())
    assert "conv_1x1_as_mm" in default.unread  # there is no convolution
    assert "online_softmax" not in default.unread
    (other,) = made_of(template, request_with(conv_1x1_as_mm=True))
    assert other.code == default.code


def test_a_failure_is_that_variants_alone(template: TemplateProcess) -> None:
    found = dict(template.generate([request_with(no_such_option=1), request_with()]))
    assert isinstance(found[0], CompileFailed)
    assert "no option no_such_option" in str(found[0])
    assert isinstance(found[1], Generated)
