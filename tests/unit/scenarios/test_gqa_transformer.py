"""The GQA transformer against the listing of pytorch #179494, written down here again."""

from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.model import Scalar

SMALL = {
    "layers": 3,
    "dim": 32,
    "heads": 4,
    "kv_heads": 2,
    "vocabulary": 50,
    "batch": 2,
    "sequence": 16,
}


def build(**overrides: Scalar) -> Any:
    scenario = registry.scenario("gqa-transformer")
    return registry.build(scenario, registry.resolve_params(scenario, None, overrides))


def listing(
    layers: int, dim: int, heads: int, kv_heads: int, vocabulary: int, **_: int
) -> dict[str, tuple[int, int]]:
    """The names and sizes of the listing's parameters."""
    kv = dim // heads * kv_heads
    shapes = {"tok_emb.weight": (vocabulary, dim), "head.weight": (vocabulary, dim)}
    for i in range(layers):
        shapes[f"blocks.{i}.attn.c_q.weight"] = (dim, dim)
        shapes[f"blocks.{i}.attn.c_k.weight"] = (kv, dim)
        shapes[f"blocks.{i}.attn.c_v.weight"] = (kv, dim)
        shapes[f"blocks.{i}.attn.proj.weight"] = (dim, dim)
        shapes[f"blocks.{i}.mlp.fc.weight"] = (4 * dim, dim)
        shapes[f"blocks.{i}.mlp.proj.weight"] = (dim, 4 * dim)
    return shapes


def listings_loss(
    state: Any, x: Any, y: Any, layers: int, heads: int, kv_heads: int, **_: int
) -> Any:
    """The listing's forward, from its parameters, in plain arithmetic."""
    import torch

    def norm(h: Any) -> Any:
        return h / (h.square().mean(-1, keepdim=True) + torch.finfo(h.dtype).eps).sqrt()

    def split(h: Any, count: int) -> Any:
        return h.unflatten(-1, (count, -1)).transpose(1, 2)

    h = norm(state["tok_emb.weight"][x])
    hidden = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
    for i in range(layers):
        w = {k.removeprefix(f"blocks.{i}."): v for k, v in state.items()}
        a = norm(h)
        q = norm(split(a @ w["attn.c_q.weight"].T, heads))
        k = norm(split(a @ w["attn.c_k.weight"].T, kv_heads))
        v = split(a @ w["attn.c_v.weight"].T, kv_heads)
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        scores = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(hidden, float("-inf"))
        h = h + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ w["attn.proj.weight"].T
        m = norm(h) @ w["mlp.fc.weight"].T
        m = torch.where(m > 0, m, 0.5 * m).square()
        h = h + m @ w["mlp.proj.weight"].T
    logits = norm(h) @ state["head.weight"].T
    return -logits.log_softmax(-1).gather(-1, y[..., None]).mean()


@pytest.mark.torch
def test_the_plain_model_has_exactly_the_listings_parameters() -> None:
    workload = build(**SMALL)
    shapes = {k: tuple(v.shape) for k, v in workload.call.state_dict().items()}
    assert shapes == listing(**SMALL)


@pytest.mark.torch
def test_the_full_model_is_the_listings() -> None:
    import torch

    with torch.device("meta"):
        workload = build()
    sizes = {"layers": 11, "dim": 512, "heads": 8, "kv_heads": 4, "vocabulary": 4096}
    state = workload.call.state_dict()
    assert {k: tuple(v.shape) for k, v in state.items()} == listing(**sizes)
    assert {v.dtype for v in state.values()} == {torch.bfloat16}
    assert [tuple(x.shape) for x in workload.inputs] == [(32, 2048)] * 2
    assert (workload.mode, workload.autocast) == ("training", "bfloat16")


@pytest.mark.torch
def test_the_plain_model_computes_the_listings_loss() -> None:
    import torch

    torch.manual_seed(0)
    workload = build(**SMALL, dtype="float64")
    expected = listings_loss(workload.call.state_dict(), *workload.inputs, **SMALL)
    torch.testing.assert_close(workload.call(*workload.inputs), expected, rtol=1e-10, atol=0)


@pytest.mark.torch
def test_learned_parameters_start_as_the_plain_model() -> None:
    import torch

    plain, learned = build(**SMALL, dtype="float64"), build(**SMALL, dtype="float64", learned=True)
    missing = learned.call.load_state_dict(plain.call.state_dict(), strict=False).missing_keys
    kinds = {"attn_norm.weight", "mlp_norm.weight", "attn_scale", "mlp_scale", "resid_mix"}
    assert set(missing) == {f"blocks.{i}.{k}" for i in range(3) for k in kinds} | {"norm.weight"}
    torch.testing.assert_close(learned.call(*plain.inputs), plain.call(*plain.inputs))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("learned", "mix", "expected"),
    [
        (False, "auto", False),
        (True, "auto", True),
        (True, False, False),
        (False, True, True),
    ],
)
def test_the_residual_mix_follows_learned_unless_told(
    learned: bool, mix: str | bool, expected: Any
) -> None:
    model = build(**SMALL, learned=learned, residual_mix=mix).call
    assert (model.blocks[0].resid_mix is not None) is expected


@pytest.mark.torch
@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ({"norm_weights": "true"}, {"attn_norm.weight", "mlp_norm.weight"}),
        ({"scales": "true"}, {"attn_scale", "mlp_scale"}),
        ({"residual_mix": "true"}, {"resid_mix"}),
        ({"learned": True, "norm_weights": "false"}, {"attn_scale", "mlp_scale", "resid_mix"}),
    ],
)
def test_each_addition_can_be_had_alone(asked: dict[str, Scalar], kinds: set[str]) -> None:
    plain, model = build(**SMALL).call.state_dict(), build(**SMALL, **asked).call.state_dict()
    added = {f"blocks.{i}.{kind}" for i in range(3) for kind in kinds}
    assert set(model) - set(plain) == added | (
        {"norm.weight"} if "norm_weights" in asked and "learned" not in asked else set()
    )


@pytest.mark.torch
def test_skips_add_the_first_half_in_reverse() -> None:
    import torch

    model = build(**{**SMALL, "layers": 5}, dtype="float64", skips=True).call
    x, y = build(**SMALL).inputs
    seen: list[Any] = []
    for block in model.blocks:
        block.register_forward_hook(lambda _, given, out: seen.append((given[0], out)))
    with torch.no_grad():
        model.skip_weights.copy_(torch.tensor([2.0, 3.0])[:, None].expand(2, 32))
        model(x, y)
    (_, first), (_, second), (_, third), (fourth_in, fourth), (fifth_in, _) = seen
    torch.testing.assert_close(fourth_in, third + 2 * second)
    torch.testing.assert_close(fifth_in, fourth + 3 * first)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("asked", "stream"),
    [
        ({}, "bfloat16"),
        ({"controls": "float32"}, "bfloat16"),
        ({"residual": "float32"}, "float32"),
        ({"dtype": "float32"}, "float32"),
    ],
)
def test_types_of_the_stream_and_of_what_scales_it(asked: dict[str, Scalar], stream: str) -> None:
    import torch

    workload = build(**SMALL, learned=True, skips=True, **asked)
    model, seen = workload.call, []
    model.blocks[2].register_forward_hook(lambda _, given, out: seen.extend([given[0], out]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(*workload.inputs)
    assert {each.dtype for each in seen} == {getattr(torch, stream)}
    controls = {model.skip_weights, model.blocks[0].attn_scale, model.blocks[0].resid_mix}
    wide = "controls" in asked or "dtype" in asked
    assert {each.dtype for each in controls} == {torch.float32 if wide else torch.bfloat16}
    assert model.head.weight.dtype == (torch.float32 if "dtype" in asked else torch.bfloat16)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ({"dim": 500}, r"dim \(500\) to be a multiple of heads \(8\)"),
        ({"layers": 0}, "needs layers of 1 or more, not 0"),
        ({"kv_heads": 3}, r"heads \(8\) to be a multiple of kv-heads \(3\)"),
    ],
)
def test_sizes_that_do_not_fit(override: dict[str, int], told: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(PerfcliError, match=told):
        build(**override)


@pytest.mark.torch
@pytest.mark.parametrize("learned", [False, True])
def test_written_out_norms_are_the_operators(learned: bool) -> None:
    import torch

    sizes: dict[str, Scalar] = {**SMALL, "dtype": "float64", "learned": learned}
    operator, written = build(**sizes, norms="operator"), build(**sizes, norms="written-out")
    written.call.load_state_dict(operator.call.state_dict())
    assert written.call.rms_norm is not operator.call.rms_norm
    torch.testing.assert_close(
        written.call(*operator.inputs), operator.call(*operator.inputs), rtol=1e-12, atol=0
    )


@pytest.mark.torch
def test_norms_are_written_out_where_learned_unless_told() -> None:
    import torch.nn.functional as F

    assert build(**SMALL).call.rms_norm is F.rms_norm
    assert build(**SMALL, learned=True).call.rms_norm is not F.rms_norm
    assert build(**SMALL, learned=True, norms="operator").call.rms_norm is F.rms_norm
