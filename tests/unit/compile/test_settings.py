"""Options and counters that rules read: as the worker's torch had them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perfcli.model import Run

pytestmark = pytest.mark.torch

Compile = Callable[..., Run]
SHAPE = (("rows", 8192), ("columns", 1024), ("mode", "training"))


def test_settings_are_the_options_as_set(compile_run: Compile) -> None:
    off = (("triton.mix_order_reduction", False),)
    settings = compile_run("rmsnorm", params=SHAPE, options=off).settings
    assert settings["triton.mix_order_reduction"] is False
    assert settings["triton.persistent_reductions"] is True
    assert settings["realize_acc_reads_size_threshold"] is None
    assert settings["dynamo.capture_scalar_outputs"] is False
    assert "no_such_option" not in settings


def test_counters_are_inductors(compile_run: Compile) -> None:
    run = compile_run("rmsnorm", params=SHAPE)
    mixed = sum(k.kind == "mix-order-reduction" for k in run.kernels)
    assert mixed == 1
    assert run.counters["codegen_mix_order_reduction"] == mixed
    assert run.counters["generated_kernel_count"] >= len(run.kernels)


def test_what_was_not_counted_is_not_there(compile_run: Compile) -> None:
    off = (("triton.mix_order_reduction", False),)
    assert (
        "codegen_mix_order_reduction"
        not in compile_run("rmsnorm", params=SHAPE, options=off).counters
    )


def test_only_what_this_torch_has() -> None:
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    from perfcli.compile.capture.settings import WATCHED, WATCHED_OF_DYNAMO, settings

    known = {name for name in WATCHED if name in inductor._config}
    known |= {f"dynamo.{name}" for name in WATCHED_OF_DYNAMO if name in dynamo._config}
    assert set(settings()) == known
