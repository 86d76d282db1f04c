"""At which reads variants part, torch's configuration being real and the processes made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch._dynamo.config as dynamo  # noqa: E402
import torch._inductor.config as inductor  # noqa: E402

from perfcli.compile import branching, reads  # noqa: E402
from perfcli.compile.branching import Branches, _difference, _Missed  # noqa: E402
from perfcli.model import CompileRequest, OptionValue, Variant  # noqa: E402

pytestmark = pytest.mark.torch


@dataclass
class MadeUp:
    """``become``: the request as which this process goes on."""

    become: int | None = None
    parted: list[int] = field(default_factory=list)
    stops: int = 0

    def fork(self, number: int) -> bool:
        self.parted.append(number)
        return number == self.become

    def go_on(self, wanted: bool) -> None:
        self.stops += not wanted


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branching, "_threads", lambda: 1)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Configuration as it was."""
    known = {"max_fusion_size": 64, "split_reductions": True, "online_softmax": True}
    with inductor.patch(known), dynamo.patch(recompile_limit=8):
        yield


def request(**options: OptionValue) -> CompileRequest:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return CompileRequest("s", {}, None, Variant("", named), "cpu", None)


def branches(forks: MadeUp, *variants: CompileRequest) -> Branches:
    made = Branches(request(), dict(enumerate(variants)), forks)
    made.begin()
    return made


def test_each_parts_at_the_first_read_of_what_it_changes() -> None:
    forks = MadeUp()
    made = branches(
        forks,
        request(),
        request(max_fusion_size=1),
        request(split_reductions=False, max_fusion_size=2),
        request(online_softmax=False),
        request(conv_1x1_as_mm=True),
    )
    with reads.watch_reads(made.before):
        assert inductor.split_reductions is True
        assert forks.parted == [2]
        assert inductor.max_fusion_size == 64
        assert inductor.max_fusion_size == 64
        assert forks.parted == [2, 1]
        assert inductor.online_softmax is True
    assert forks.parted == [2, 1, 3]
    assert (made.number, forks.stops) == (0, 0)
    assert made.unread(("conv_1x1_as_mm", "triton.cudagraphs")) == [4]
    assert made.unread(()) == []


def test_the_branch_reads_its_own_value_and_is_forked_no_more() -> None:
    forks = MadeUp(become=1)
    made = branches(forks, request(), request(max_fusion_size=1), request(split_reductions=False))
    with reads.watch_reads(made.before):
        assert inductor.max_fusion_size == 1
        assert inductor.split_reductions is True
    made.end()
    assert forks.parted == [1]
    assert (made.number, made.is_trunk, made.request.variant.options) == (
        1,
        False,
        {"max_fusion_size": 1},
    )


def test_another_name_is_the_same_option() -> None:
    forks = MadeUp()
    made = branches(forks, request(), request(dynamo__cache_size_limit=3))
    with reads.watch_reads(made.before):
        assert dynamo.recompile_limit == 8
    assert forks.parted == [1]


def test_patching_parts_before_anything_is_patched() -> None:
    forks = MadeUp(become=1)
    made = branches(forks, request(), request(max_fusion_size=1))
    with reads.watch_reads(made.before):
        with inductor.patch(max_fusion_size=7):
            assert inductor.max_fusion_size == 7
        assert inductor.max_fusion_size == 1
    made.end()


def test_what_is_set_unseen_does_not_part() -> None:
    forks = MadeUp()
    made = branches(forks, request(), request(max_fusion_size=1))
    with reads.watch_reads(made.before):
        revert = inductor._make_closure_patcher(max_fusion_size=7)()
        assert inductor.max_fusion_size == 7
        revert()
        assert inductor.max_fusion_size == 64
    assert forks.parted == []
    assert made.unread(("max_fusion_size",)) == []  # to be compiled from the start


def test_a_branch_whose_option_is_put_back_is_missed() -> None:
    made = branches(MadeUp(become=1), request(), request(max_fusion_size=1))
    with reads.watch_reads(made.before):
        entry = inductor._config["max_fusion_size"]
        kept = entry.user_override
        before = kept.get() if hasattr(kept, "get") else kept
        assert inductor.max_fusion_size == 1
        if hasattr(kept, "set"):
            kept.set(before)
        else:
            entry.user_override = before
    with pytest.raises(_Missed):
        made.end()


def test_reading_a_module_as_a_whole_parts_all_of_it() -> None:
    forks = MadeUp()
    made = branches(
        forks,
        request(),
        request(max_fusion_size=1),
        request(dynamo__recompile_limit=3),
        request(conv_1x1_as_mm=True),
    )
    with reads.watch_reads(made.before):
        inductor.get_hash()
    assert forks.parted == [1, 3]


def test_threads_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branching, "_threads", lambda: 2)
    forks = MadeUp()
    made = branches(forks, request(), request(max_fusion_size=1))
    with reads.watch_reads(made.before):
        assert inductor.max_fusion_size == 64
    assert forks.parted == []
    assert made.unread(("max_fusion_size",)) == []


def test_the_trunk_ends_where_nobody_wants_more() -> None:
    forks = MadeUp()
    made = branches(forks, request(max_fusion_size=1), request(split_reductions=False))
    with reads.watch_reads(made.before):
        assert inductor.max_fusion_size == 64
        assert forks.stops == 0
        assert inductor.split_reductions is True
    assert (forks.parted, forks.stops) == ([0, 1], 1)


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, {"b": 2}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": 1}, {"a": 1.0}, {"a": 1.0}),
        ({"a": 1}, {"b": 2}, None),
        ({"a": 1}, {"a": 1}, {}),
    ],
)
def test_what_differs(base: Any, other: Any, expected: Any) -> None:
    found = _difference(request(**base), request(**other))
    assert found == expected
    assert found is None or [type(v) for v in found.values()] == [
        type(v) for v in expected.values()
    ]


@pytest.mark.parametrize(
    "other", [{"scenario": "t"}, {"dynamic": True}, {"variant": Variant("", {}, {"FLAG": "1"})}]
)
def test_what_is_no_option_is_no_difference_between_variants(other: dict[str, Any]) -> None:
    assert _difference(request(), replace(request(), **other)) is None
    assert _difference(request(), replace(request(), variant=Variant("named"))) == {}
