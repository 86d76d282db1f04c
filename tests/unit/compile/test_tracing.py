"""Options and gradients, without compiling anything."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo import config as dynamo_config  # noqa: E402
from torch._inductor import config as inductor_config  # noqa: E402

from perfcli.compile.capture.captured import Capture  # noqa: E402
from perfcli.compile.capture.eager_operators import EagerOperator  # noqa: E402
from perfcli.compile.capture.graph_breaks import _explanation, count_breaks  # noqa: E402
from perfcli.compile.tracing import (  # noqa: E402
    _select_eager,
    attribute_failure,
    backward,
    set_options,
)
from perfcli.errors import CompileFailed, UserCodeFailed  # noqa: E402
from perfcli.model import Run  # noqa: E402

pytestmark = pytest.mark.torch


def test_options_of_each_kind() -> None:
    # Leaving the block puts the values back, whoever changed them.
    kept = {"max_autotune": False, "triton.cudagraphs": False}
    with inductor_config.patch(kept), dynamo_config.patch(cache_size_limit=8):
        set_options({"max_autotune": True, "triton.cudagraphs": True, "dynamo.cache_size_limit": 3})
        assert inductor_config.max_autotune is True
        assert inductor_config.triton.cudagraphs is True
        assert dynamo_config.cache_size_limit == 3


@pytest.mark.parametrize(
    "name", ["no_such_option", "triton.no_such_option", "triton", "dynamo.nope", "functorch.nope"]
)
def test_an_option_that_this_torch_lacks(name: str) -> None:
    with pytest.raises(CompileFailed, match=f"this torch has no option {name}"):
        set_options({name: True})


def test_a_loss_is_back_propagated_alone() -> None:
    weight = torch.ones(2, requires_grad=True)
    result = SimpleNamespace(loss=(weight * 3).sum(), logits=weight * 5)
    backward(result)
    assert weight.grad.tolist() == [3, 3]


def test_other_outputs_get_gradients_of_one() -> None:
    weight = torch.ones(2, requires_grad=True)
    backward({"a": [weight * 3, 7], "b": (weight * 5, torch.ones(1))})
    assert weight.grad.tolist() == [8, 8]


def test_nothing_to_back_propagate() -> None:
    with pytest.raises(UserCodeFailed, match="mode=forward"):
        backward([torch.ones(1), 3, None])


def test_graph_breaks_are_counted_by_the_first_line_of_their_reason() -> None:
    reasons = {
        "Unsupported call\n  Explanation: one": 3,
        "Unsupported call\n  Explanation: two": 4,
        "x" * 1000: 1,
    }
    skipped = {"Data-dependent branching\n  Explanation: …": 2, "call of a skipped function": 1}
    counters = {"graph_break": reasons, "unimplemented": skipped}
    assert count_breaks(counters) == {
        "Unsupported call": 7,
        "x" * 200: 1,
        "Data-dependent branching": 2,
    }


def test_the_sentence_that_names_the_operator() -> None:
    message = "Failed to trace\n  Explanation: cannot trace `print`\n  Hint: avoid it\n"
    assert _explanation(message) == "cannot trace `print`"
    assert _explanation("Failed to trace") == ""


def test_whose_operator_lacks_a_result_without_values() -> None:
    from torch._subclasses.fake_tensor import DynamicOutputShapeException

    error = DynamicOutputShapeException(torch.ops.aten.bincount.default)
    ours = attribute_failure(error, Capture())
    assert isinstance(ours, CompileFailed)
    assert "-o dynamo.capture_dynamic_output_shape_ops=true may keep it inside" in str(ours)
    assert "register_fake" not in str(ours)


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("donated buffers which requires create_graph=False", "torch.func.grad inside"),
        (
            "torch.compile with aot_autograd does not currently support double backward",
            "torch.func",
        ),
        ("Tensor device mismatch", "device=x.device"),  # torch 2.13
        ("found two different devices cuda:0, cpu", "device=x.device"),
        ("Could not run 'aten::addmm.out' with arguments from the 'SparseCsrMeta' backend", ""),
    ],
)
def test_what_cannot_be_followed_is_one_line_with_a_cure(said: str, cure: str) -> None:
    error = RuntimeError(said)
    if "Sparse" in said:
        error = NotImplementedError("Could not run 'aten::empty' … from the 'CUDA' backend")
        error.__context__ = NotImplementedError(said)
        cure = "leave them out of what is compiled"
    failure = attribute_failure(error, Capture())
    assert isinstance(failure, UserCodeFailed)
    assert cure in str(failure)
    assert "\n" not in str(failure)


def test_what_runs_eagerly_behind_a_break_is_told(compile_run: Callable[..., Run]) -> None:
    """Two operators, each of which reads and writes 64 × 256 float32: 4 × 65,536 bytes."""
    compiled = compile_run("eager_after_break.py")
    (note,) = [note for note in compiled.notes if note.startswith("outside of graphs")]
    assert note == (
        "outside of graphs 2 operators run eagerly, 262 kB, which no number counts: "
        "aten.mul.Tensor, aten._softmax.default"
    )
    assert compiled.eager_operators == 2
    assert [kernel.launches for kernel in compiled.kernels] == [1, 1]


def test_of_the_backward_what_eager_operators_ask_for() -> None:
    ones, mul, add = (EagerOperator(f"aten.{name}", 0) for name in ("ones_like", "mul", "add"))
    assert _select_eager([mul, add]) == [mul, add]
    # Behind the forward pass, the gradients that perfcli begins with.
    assert _select_eager([mul, ones, ones, add, mul], 1) == (mul, add, mul)
    # All of the forward pass is compiled: what adds up gradients belongs to no model.
    assert _select_eager([ones, add], 0) == ()
