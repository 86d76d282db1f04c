"""Which options count as read, torch's configuration being real."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch._dynamo.config as dynamo  # noqa: E402
import torch._inductor.config as inductor  # noqa: E402

from perfcli.compile import reads  # noqa: E402

pytestmark = pytest.mark.torch


def test_what_nobody_asked_for() -> None:
    with reads.watch_reads() as watched:
        assert inductor.triton.cudagraphs is False
        assert dynamo.recompile_limit > 0
    unread = set(watched.unread())
    assert {"triton.max_tiles", "conv_1x1_as_mm", "functorch.cse"} <= unread
    # cache_size_limit is another name of recompile_limit.
    assert not unread & {"triton.cudagraphs", "dynamo.recompile_limit", "dynamo.cache_size_limit"}


def test_the_name_of_an_option_elsewhere_may_have_been_read_there() -> None:
    elsewhere = {
        prefix + name
        for prefix, config in reads.modules().items()
        for name, entry in config._config.items()
        if reads.target(entry).startswith("torch.compiler.config.")
    }
    if not elsewhere:
        pytest.skip("this torch has none")
    with reads.watch_reads() as watched:
        assert torch.compiler.config.force_disable_caches is False
    assert not elsewhere & set(watched.unread())


def test_who_asks_for_all_at_once_reads_all() -> None:
    with reads.watch_reads() as watched:
        inductor.get_hash()
    assert watched.unread() == ()


def test_a_report_decides_nothing() -> None:
    def get_patched_config_dict() -> object:
        return inductor.get_config_copy()

    with reads.watch_reads() as watched:
        get_patched_config_dict()
    assert "online_softmax" in watched.unread()
