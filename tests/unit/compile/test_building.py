"""Models as users write them, built on the CPU device under fake tensors and, where the code
reads values, with real ones first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses import FakeTensorMode  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402

from perfcli.compile.building import Built, build, build_users_workload  # noqa: E402
from perfcli.errors import UserCodeFailed  # noqa: E402
from perfcli.model import CompileRequest, Variant  # noqa: E402

pytestmark = pytest.mark.torch

HEAD = "import torch\nfrom torch import nn\n\n"
Make = Callable[..., Built]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Builds what a file with the given body declares; everything must come out fake."""

    def built(body: str, **params: str) -> Built:
        file = tmp_path / "model.py"
        file.write_text(HEAD + body)
        request = CompileRequest(str(file), params, None, Variant("v"), "cpu", None)
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        result = build(request, mode)
        for tensor in tensors_of(result):
            assert isinstance(tensor, FakeTensor)
            assert tensor.fake_mode is mode
        return result

    return built


def tensors_of(built: Built) -> list[Any]:
    call = built.workload.call
    module = call if isinstance(call, torch.nn.Module) else torch.nn.Module()
    values = [*built.workload.inputs, *built.workload.kwargs.values()]
    inputs = [value for value in values if isinstance(value, torch.Tensor)]
    return [*module.parameters(), *module.buffers(), *inputs]


# Whether the model can be built under fake tensors, or reads a value and must be built twice.
READS = {"fake": "", "real": "        torch.ones(2).sum().item()\n"}


@pytest.mark.parametrize("way", READS)
def test_parameters_buffers_ties_and_plain_tensors(way: str, make: Make) -> None:
    built = make(
        "class Model(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n" + READS[way] + "        self.embed = nn.Embedding(10, 4)\n"
        "        self.head = nn.Linear(4, 10, bias=False)\n"
        "        self.head.weight = self.embed.weight\n"
        "        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)\n"
        "        self.register_buffer('table', torch.zeros(5, 6).t().to(torch.float16))\n"
        "        self.plain = [torch.ones(7, dtype=torch.int32), 'text']\n"
        "def scenario():\n"
        "    return Model(), torch.tensor([1, 2])\n"
    )
    assert any("reads values" in note for note in built.notes) is (way == "real")
    model: Any = built.workload.call
    assert model.head.weight is model.embed.weight
    assert isinstance(model.embed.weight, torch.nn.Parameter)
    assert {n: p.requires_grad for n, p in model.named_parameters()} == {
        "embed.weight": True,
        "frozen": False,
    }
    assert (model.table.size(), model.table.stride()) == ((6, 5), (1, 6))
    assert model.table.dtype is torch.float16
    plain, text = model.plain
    assert isinstance(plain, FakeTensor)
    assert (plain.shape, plain.dtype, text) == ((7,), torch.int32, "text")
    (index,) = built.workload.inputs
    assert (index.shape, index.dtype) == ((2,), torch.int64)


@pytest.mark.parametrize("way", READS)
def test_a_function_that_closes_over_its_module(way: str, make: Make) -> None:
    built = make(
        "def scenario():\n"
        + READS[way].replace("        ", "    ")
        + "    model = nn.Linear(4, 4)\n"
        "    def step(x):\n"
        "        return model(x).sum()\n"
        "    return step, torch.randn(2, 4)\n"
    )
    call: Any = built.workload.call
    (model,) = (cell.cell_contents for cell in call.__closure__)
    assert isinstance(model.weight, FakeTensor)
    assert isinstance(model.weight, torch.nn.Parameter)


def test_a_bound_method(make: Make) -> None:
    built = make(
        "class Model(nn.Linear):\n"
        "    def step(self, x):\n"
        "        return self(x).sum()\n"
        "def scenario():\n"
        "    torch.ones(1).item()\n"
        "    return Model(4, 4).step, torch.randn(2, 4)\n"
    )
    call: Any = built.workload.call
    assert isinstance(call.__self__.weight, FakeTensor)


@pytest.mark.parametrize("item", ["", "    torch.ones(1).item()\n"])
def test_keyword_arguments(item: str, make: Make) -> None:
    built = make(
        "def model(x, *, mask, scale):\n    return x * mask * scale\n"
        "def scenario():\n" + item + "    return model, {'x': torch.randn(3), "
        "'mask': torch.ones(3, dtype=torch.bool), 'scale': 2.0}\n"
    )
    kwargs = built.workload.kwargs
    assert kwargs["mask"].dtype is torch.bool
    assert kwargs["scale"] == 2.0
    assert kwargs["x"].shape == (3,)


@pytest.mark.parametrize("item", ["", "    torch.ones(1).item()\n"])
def test_conversions(item: str, make: Make) -> None:
    built = make(
        "def scenario():\n"
        + item
        + "    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))\n"
        "    return model.bfloat16().to('cpu'), torch.randn(2, 4).to(torch.bfloat16)\n"
    )
    model: Any = built.workload.call
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert model[1].running_mean.dtype is torch.bfloat16
    assert model[1].num_batches_tracked.dtype is torch.int64
    assert built.workload.inputs[0].dtype is torch.bfloat16


def test_an_input_that_needs_a_gradient_still_does(make: Make) -> None:
    built = make(
        "def scenario():\n"
        "    torch.ones(1).item()\n"
        "    return torch.sin, torch.randn(2, requires_grad=True)\n"
    )
    assert built.workload.inputs[0].requires_grad


def test_one_tensor_given_twice_stays_one(make: Make) -> None:
    built = make(
        "def scenario():\n"
        "    x = torch.randn(2)\n"
        "    x.sum().item()\n"
        "    return torch.add, (x, x)\n"
    )
    first, second = built.workload.inputs
    assert first is second


def test_users_numpy(make: Make) -> None:
    pytest.importorskip("numpy")
    built = make(
        "def scenario():\n"
        "    import numpy\n"
        "    table = torch.from_numpy(numpy.arange(6.0).reshape(2, 3))\n"
        "    return torch.sin, table.float()\n"
    )
    assert built.workload.inputs[0].shape == (2, 3)
    assert built.workload.inputs[0].dtype is torch.float32


def test_big_random_inputs_are_not_filled(make: Make) -> None:
    built = make(
        "def scenario():\n"
        "    torch.ones(1).item()\n"
        "    return torch.add, (torch.randn(1024, 1024), torch.randint(0, 9, (1024, 512)))\n"
    )
    left, right = built.workload.inputs
    assert (left.shape, left.dtype) == ((1024, 1024), torch.float32)
    assert (right.shape, right.dtype) == ((1024, 512), torch.int64)


def test_initialisers_are_skipped_and_put_back(make: Make) -> None:
    before = torch.nn.init.kaiming_uniform_
    built = make("def scenario():\n    return nn.Linear(100_000, 100_000), torch.randn(1)\n")
    assert built.workload.call.weight.shape == (100_000, 100_000)  # type: ignore[attr-defined]
    assert torch.nn.init.kaiming_uniform_ is before


def test_the_users_own_failure_is_told(make: Make) -> None:
    with pytest.raises(UserCodeFailed, match="ZeroDivisionError") as raised:
        make("def scenario():\n    return 1 / 0\n")
    assert "return 1 / 0" in raised.value.detail
    assert "building.py" not in raised.value.detail


MODULE = "nn.Linear(4, 4)"
INPUT = "torch.randn(2, 4)"
GRADIENT = "torch.randn(2, 4, requires_grad=True)"


@pytest.mark.parametrize("item", ["", "    torch.ones(1).item()\n"])
@pytest.mark.parametrize(
    ("returned", "what"),
    [
        (f"{MODULE}, {INPUT}", "parameters"),
        (f"{MODULE}.forward, {INPUT}", "parameters"),
        (f"{MODULE}.requires_grad_(False), {GRADIENT}", "inputs"),
        (f"torch.sin, {{'input': {GRADIENT}}}", "inputs"),
        (f"torch.sin, ({GRADIENT},), {{}}", "inputs"),
    ],
)
def test_gradients_that_nothing_is_done_with_are_noted(
    make: Make, item: str, returned: str, what: str
) -> None:
    built = make(f"def scenario():\n{item}    return {returned}\n")
    assert built.workload.mode == "forward"
    assert built.notes[-1] == (
        f"{what} require gradients, compiled forward only: give -p mode=training, or return "
        "(module, inputs, 'training')"
    )


@pytest.mark.parametrize(
    ("arguments", "returned", "params"),
    [
        ("", f"{MODULE}, {INPUT}, 'forward'", {}),
        ("", f"{MODULE}, {INPUT}, 'training'", {}),
        ("", f"{MODULE}, {INPUT}", {"mode": "training"}),
        ("", f"{MODULE}, {INPUT}", {"mode": "forward"}),
        ("mode='forward'", f"{MODULE}, {INPUT}", {}),
        ("", f"Workload({MODULE}, ({INPUT},))", {}),
        ("", f"{MODULE}.eval(), {INPUT}", {}),
        ("", f"{MODULE}.eval(), {GRADIENT}", {}),
        ("", f"{MODULE}.requires_grad_(False), {INPUT}", {}),
        ("", f"torch.sin, {INPUT}", {}),
    ],
)
def test_a_mode_that_was_chosen_or_needs_no_gradients_is_not_noted(
    make: Make, arguments: str, returned: str, params: dict[str, str]
) -> None:
    head = "from perfcli.model import Workload\n"
    built = make(f"{head}def scenario({arguments}):\n    return {returned}\n", **params)
    assert built.notes == ()


# --- what is refused, and which failure is told ------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "returned", "recorded"),
    [
        ("", "'training'", {"mode": "training"}),
        ("mode='forward'", "'training'", {"mode": "forward"}),  # what it means is the function's
        ("", "{}", {"mode": "forward"}),
    ],
)
def test_a_run_records_the_mode_that_the_function_returned(
    tmp_path: Path, signature: str, returned: str, recorded: dict[str, str]
) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"def build({signature}):\n    return abs, (), {returned}\n")
    request = CompileRequest(f"{path}:build", {}, None, Variant("v"), "cpu", None)
    assert build_users_workload(request).params == recorded


def test_the_first_failure_is_told_where_the_second_comes_of_it(make: Make) -> None:
    with pytest.raises(UserCodeFailed) as raised:
        make(
            "STARTED = []\n"
            "import sys\n"
            "def scenario():\n"
            "    if hasattr(sys, 'perfcli_test_started'):\n"
            "        del sys.perfcli_test_started\n"
            "        raise RuntimeError('started twice')\n"
            "    sys.perfcli_test_started = True\n"
            "    if STARTED == []:\n"
            "        raise OSError('no weights here')\n"
            "    return nn.Linear(4, 4), torch.randn(2, 4)\n"
        )
    assert str(raised.value).endswith("does not build: OSError: no weights here")
    assert raised.value.detail.endswith("on the CPU, it failed with RuntimeError: started twice")


def test_a_failure_for_want_of_values_gives_way_to_the_other(make: Make) -> None:
    with pytest.raises(UserCodeFailed, match="ValueError: two is too much"):
        make(
            "def scenario():\n"
            "    if torch.ones(2).sum().item() == 2:\n"
            "        raise ValueError('two is too much')\n"
            "    return nn.Linear(4, 4), torch.randn(2, 4)\n"
        )


def test_a_models_own_compile_is_kept(make: Make) -> None:
    built = make(
        "def scenario():\n"
        "    model = nn.Linear(4, 4).eval()\n"
        "    model.compile(mode='max-autotune', dynamic=False)\n"
        "    return model, torch.randn(2, 4)\n"
    )
    (note,) = built.notes
    assert note.startswith("Linear is compiled as the model says at ")
    assert note.endswith("torch.compile(mode='max-autotune', dynamic=False)")


def test_what_is_compiled_elsewhere_does_not_count(make: Make) -> None:
    built = make(
        "@torch.compile\n"
        "def plain(x): return x\n"
        "def scenario():\n"
        "    model = nn.Linear(4, 4).eval()\n"
        "    inner = torch.compile(abs, backend='eager')\n"
        "    again = torch.compile(plain)\n"
        "    return model, torch.randn(2, 4)\n"
    )
    told = "the model's own torch.compile(backend='eager') is not followed (×1)"
    assert [note.partition(": ")[0] for note in built.notes] == [told]
    assert torch.compile.__module__ == "torch"
