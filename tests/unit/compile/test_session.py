"""Real torch.compile in real workers, without a GPU. What is expected was counted by hand from
the models in fixtures/models and the sizes of the presets."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from perfcli.blobs import blob_id, unpack
from perfcli.compile.stand_in import decisions
from perfcli.diff.compare import compare
from perfcli.errors import CompileFailed, PerfcliError, UserCodeFailed
from perfcli.facts.operator_work import _base_name
from perfcli.model import Bundle, KernelFacts, Run
from perfcli.rules import graph_breaks, shared_memory_budget

pytestmark = pytest.mark.torch

Compile = Callable[..., Run]
TRAINING = (("mode", "training"),)


def by_graph(run: Run) -> dict[str, list[KernelFacts]]:
    return {g.name: [k for k in run.kernels if k.graph == g.name] for g in run.graphs}


# --- one kernel ------------------------------------------------------------------------------

ROWS, COLUMNS, BF16 = 128, 2048, 2  # the smoke preset


def test_softmax_is_one_kernel_of_two_sweeps(compile_bundle: Callable[..., Bundle]) -> None:
    bundle = compile_bundle("softmax", preset="smoke")
    run = bundle.run
    (kernel,) = run.kernels
    assert kernel.kind == "reduction"
    assert kernel.launches == 1
    assert [launch.name for launch in run.launches] == [kernel.name]
    assert run.externs == ()
    facts = kernel.source_facts
    assert facts is not None
    # Online softmax: once for maximum and sum, once more to write the result.
    assert (facts.loads, facts.stores, facts.loops) == (2, 1, 2)
    assert kernel.bytes_read == kernel.bytes_written == ROWS * COLUMNS * BF16
    assert kernel.bytes_swept == 3 * ROWS * COLUMNS * BF16
    assert kernel.lower_bound_seconds == pytest.approx(2 * ROWS * COLUMNS * BF16 / 3.35e12)
    source = unpack(bundle.blobs[kernel.source])
    assert blob_id(source) == kernel.source
    assert f"def {kernel.name}(" in source


def test_softmax_has_plausible_binaries(compile_bundle: Callable[..., Bundle]) -> None:
    bundle = compile_bundle("softmax", preset="smoke")
    candidates = bundle.run.kernels[0].candidates
    assert candidates
    for candidate in candidates:
        assert candidate.error == ""
        assert 0 < (candidate.registers or 0) <= 255
        assert 0 < (candidate.occupancy or 0) <= 1
        # The source has two loads and a store: no less in the machine code.
        assert sum(candidate.global_loads.values()) >= 2
        assert sum(candidate.global_stores.values()) >= 1
        assert ".entry" in unpack(bundle.blobs[candidate.ptx or ""])
        assert "LDG" in unpack(bundle.blobs[candidate.sass or ""])
        assert "tt.load" in unpack(bundle.blobs[candidate.ttgir or ""])


def test_origins_lead_to_the_models_line(compile_run: Compile) -> None:
    (kernel,) = compile_run("softmax", preset="smoke").kernels
    origin = next(o for o in kernel.origins if o.op == "aten._softmax.default")
    file, _, line = origin.location.rpartition(":")
    assert Path(file).name == "softmax.py"
    assert Path(file).read_text().splitlines()[int(line) - 1].strip() == origin.code
    assert origin.shape == (ROWS, COLUMNS)


def test_shipped_scenarios_are_no_sources_of_the_user(compile_run: Compile) -> None:
    assert compile_run("softmax", preset="smoke").sources == {}


def test_cpu_kernels_have_source_facts_and_no_candidates(compile_run: Compile) -> None:
    run = compile_run("softmax", None, preset="smoke")
    assert run.target is None
    (kernel,) = run.kernels
    assert (kernel.language, kernel.kind) == ("cpp", "cpp")
    assert kernel.candidates == ()
    facts = kernel.source_facts
    assert facts is not None
    assert (facts.vector_loads or 0) > 0
    assert (facts.vector_stores or 0) > 0
    assert kernel.lower_bound_seconds is None


# --- several graphs, several calls -----------------------------------------------------------


def test_a_graph_break_gives_two_graphs_each_way(compile_run: Compile) -> None:
    run = compile_run("broken_graph.py", params=TRAINING)
    assert [g.name for g in run.graphs] == ["forward 0", "backward 0", "forward 1", "backward 1"]
    graphs = by_graph(run)
    assert {name: len(kernels) for name, kernels in graphs.items()} == dict.fromkeys(graphs, 1)
    # In the order of a step: the backward of the last graph comes first.
    assert [launch.graph for launch in run.launches] == [
        "forward 0",
        "forward 1",
        "backward 1",
        "backward 0",
    ]
    assert all(k.launches == 1 for k in run.kernels)
    ((reason, number),) = run.graph_breaks.items()
    assert "graph_break" in reason
    assert "\n" not in reason
    assert number == 1


def test_bytes_of_each_graph(compile_run: Compile) -> None:
    matrix, row = 64 * 256 * 4, 256 * 4
    graphs = by_graph(compile_run("broken_graph.py", params=TRAINING))
    moved = {name: (k.bytes_read, k.bytes_written) for name, (k,) in graphs.items()}
    assert moved == {
        "forward 0": (matrix + row, matrix),  # x * scale
        "forward 1": (matrix, matrix),  # x.sin() + 1
        "backward 1": (2 * matrix, matrix),  # grad * x.cos()
        "backward 0": (2 * matrix, row),  # (grad * x).sum(0)
    }


def test_operations_of_each_graph(compile_run: Compile) -> None:
    values = 64 * 256
    graphs = by_graph(compile_run("broken_graph.py", params=TRAINING))
    assert {name: k.operations for name, (k,) in graphs.items()} == {
        "forward 0": values,  # x * scale
        "forward 1": 2 * values,  # x.sin() + 1
        "backward 1": 2 * values,  # grad * x.cos()
        "backward 0": 2 * values,  # (grad * x).sum(0)
    }


def test_a_function_called_twice_launches_twice(compile_run: Compile) -> None:
    run = compile_run("called_twice.py")
    assert len(run.graphs) == 2
    assert sorted(k.launches for k in run.kernels) == [2, 2]
    assert [launch.graph for launch in run.launches] == ["inference 0", "inference 1"] * 2


def test_a_constant_of_the_model_is_copied_to_the_device(compile_run: Compile) -> None:
    (kernel,) = compile_run("constant_to_device.py").kernels
    assert (kernel.bytes_read, kernel.bytes_written) == (64 * 32 * 2, 64 * 32 * 2)
    assert kernel.source_facts is not None and kernel.source_facts.loads == 1


def test_a_constant_that_is_made_on_the_device(compile_bundle: Callable[..., Bundle]) -> None:
    """``torch.tensor([…], device="cuda")`` is read where it is needed, or part of the code: nothing
    is copied from the CPU. An H200 makes such kernels (torch 2.11, bench/scripts/dlrm.py)."""
    bundle = compile_bundle("constants_on_device.py")
    kernels = by_graph(bundle.run)
    names = [kernel.name for kernel in bundle.run.kernels]
    assert not any("_to_copy" in name or "device_put" in name for name in names)
    assert any("lift_fresh" in kernel.name for kernel in kernels["backward 0"])
    (forward,) = kernels["forward 0"]
    source = unpack(bundle.blobs[forward.source])
    assert source.count("tl.load(") == 3  # the rows' numbers, x and the scale
    assert "0.456" in source


def test_dynamic_shapes_stay_symbols_both_ways(compile_bundle: Callable[..., Bundle]) -> None:
    bundle = compile_bundle("sizes.py", params=TRAINING, dynamic=True)
    run = bundle.run
    assert run.dynamic
    graphs = by_graph(run)
    assert set(graphs) == {"forward 0", "backward 0"}
    matrix, row = 33 * 512 * 4, 512 * 4
    (forward,) = graphs["forward 0"]
    assert (forward.bytes_read, forward.bytes_written) == (matrix + row, matrix)
    for kernel in run.kernels:
        source = unpack(bundle.blobs[kernel.source])
        assert re.search(r"def \w+\([^)]*(xnumel|r0_numel|ks0)", source)
        assert " = 33\n" not in source
    sizes = {s for k in run.kernels for o in k.origins for s in o.shape}
    assert any(isinstance(s, str) for s in sizes)
    assert 512 in sizes
    assert 33 not in sizes


def test_static_shapes_are_numbers(compile_bundle: Callable[..., Bundle]) -> None:
    bundle = compile_bundle("softmax", preset="smoke")
    assert f"xnumel = {ROWS}\n" in unpack(bundle.blobs[bundle.run.kernels[0].source])


# --- kernels and operators that are not Inductor's -------------------------------------------


def test_a_kernel_written_by_hand(compile_bundle: Callable[..., Bundle]) -> None:
    bundle = compile_bundle("written_kernel.py")
    written, generated = bundle.run.kernels
    assert written.kind == "user"
    assert written.name.startswith("scaled_sum")
    assert written.launches == 2
    facts = written.source_facts
    assert facts is not None
    assert (facts.loads, facts.stores) == (2, 1)
    assert (facts.buffers_read, facts.buffers_written) == (2, 1)
    (origin, *more) = written.origins
    assert Path(origin.location.rpartition(":")[0]).name == "written_kernel.py"
    assert "scaled_sum[grid]" in origin.code
    assert len(more) == 1, "one origin for each launch"
    assert written.best
    assert (written.best.registers or 0) > 0
    assert "def scaled_sum(" in unpack(bundle.blobs[written.source])
    assert (written.bytes_read, written.bytes_written) == (800_000, 400_000)
    assert {"count": 100_000, "_grid_0": 98}.items() <= written.scalars.items()
    assert generated.kind == "pointwise"
    assert generated.launches == 1
    # Its input was written in place by the user's kernel; it counts all the same.
    assert generated.bytes_read == generated.bytes_written == 100 * 1000 * 4


def test_operators_that_a_cpu_build_lacks(compile_run: Compile) -> None:
    run = compile_run("gpu_operators.py", params=TRAINING)
    graphs = by_graph(run)
    ops = {o.op for o in graphs["forward 0"][0].origins}
    assert ops == {"aten._fused_rms_norm.default"}
    externs = {(e.op, e.graph): e.count for e in run.externs}
    assert externs == {
        ("aten._grouped_mm.default", "forward 0"): 1,
        # The gradients of both factors.
        ("aten._grouped_mm.default", "backward 0"): 2,
    }


def test_conversions_in_the_users_file_take_effect(compile_bundle: Callable[..., Bundle]) -> None:
    bundle = compile_bundle("gpu_operators.py", params=TRAINING)
    (norm,) = by_graph(bundle.run)["forward 0"]
    rows, columns = 64, 128
    # All in bfloat16 (two bytes), and the reciprocal root mean squares in float32.
    assert norm.bytes_written == rows * columns * 2 + rows * 4
    source = unpack(bundle.blobs[norm.source])
    assert source.count("'*bf16'") == 3  # x, the norm's weight, the result
    assert source.count("'*fp32'") == 1


# --- attention -------------------------------------------------------------------------------

CUDNN, FLASH, EFFICIENT = (
    f"aten._scaled_dot_product_{name}_attention.default" for name in ("cudnn", "flash", "efficient")
)


@pytest.mark.parametrize(
    ("target", "chosen"),
    [("h100", [CUDNN, CUDNN, EFFICIENT]), ("a100", [FLASH, EFFICIENT, EFFICIENT])],
)
def test_attention_takes_the_targets_backend(
    target: str, chosen: list[str], compile_run: Compile
) -> None:
    run = compile_run("attention.py", target)
    assert [launch.name for launch in run.launches if launch.extern] == chosen


def test_operators_say_what_they_are_called_with(compile_run: Compile) -> None:
    run = compile_run("operator_calls.py", "h200")
    calls = {_base_name(extern.op): extern for extern in run.externs}
    rows, width = 8 * 16, 64
    (patches,) = calls["convolution"].calls
    assert patches.work is not None
    assert patches.arguments["stride"] == [8, 8]
    assert patches.work.flops == 2 * rows * width * 3 * 8 * 8
    (attention,) = calls["_scaled_dot_product_cudnn_attention"].calls
    assert attention.work is not None
    assert attention.arguments["is_causal"] is True
    assert attention.work.flops == 4 * 8 * 4 * 16 * (16 * 17 / 2)
    products = calls["mm"].calls
    # The two equal layers are one call, made twice.
    assert sorted((c.count, c.work.flops) for c in products if c.work) == [
        (1, 2 * rows * width * 101),
        (2, 2 * rows * width * width),
    ]
    layer = next(call for call in products if call.count == 2)
    assert [(b.role, b.dtype, b.shape, b.stride) for b in layer.buffers] == [
        ("input", "bfloat16", (rows, width), (width, 1)),
        ("input", "bfloat16", (width, width), (1, width)),
        ("output", "bfloat16", (rows, width), (width, 1)),
    ]
    made = [launch.call for launch in run.launches if _base_name(launch.name) == "mm"]
    assert [products[n].count for n in made if n is not None] == [2, 2, 1]
    named = [launch.operands for launch in run.launches if _base_name(launch.name) == "mm"]
    assert [len(operands) for operands in named] == [3, 3, 3]
    assert len({operands[-1] for operands in named}) == 3


def test_constants_are_folded_in_the_devices_precision(
    compile_bundle: Callable[..., Bundle],
) -> None:
    """-65504, float16's lowest, is no bfloat16: the device rounds it to -65536."""
    bundle = compile_bundle("attention.py", "h100")
    mask = next(k for k in bundle.run.kernels if any("-65504" in o.code for o in k.origins))
    source = unpack(bundle.blobs[mask.source])
    assert "-65536.0" in source
    assert "-65504" not in source


# --- options ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mix_order", [True, False])
def test_an_option_reaches_the_backward(mix_order: bool, compile_run: Compile) -> None:
    shape = (*TRAINING, ("rows", 32768), ("columns", 2048))
    options = () if mix_order else (("triton.mix_order_reduction", False),)
    run = compile_run("rmsnorm", params=shape, options=options)
    assert dict(run.variant.options) == dict(options)
    kinds = {k.kind for k in by_graph(run)["backward 0"]}
    assert ("mix-order-reduction" in kinds) is mix_order


def test_an_option_that_this_torch_lacks(compile_run: Compile) -> None:
    with pytest.raises(CompileFailed) as raised:
        compile_run("softmax", preset="smoke", options=(("triton.no_such_thing", 1),))
    assert str(raised.value) == "this torch has no option triton.no_such_thing"


def test_independent_operations_in_one_combo_kernel(compile_run: Compile) -> None:
    apart = compile_run("independent.py")
    together = compile_run("independent.py", options=(("combo_kernels", True),))
    assert [k.kind for k in apart.kernels] == ["pointwise"] * 3
    (combo,) = together.kernels
    assert combo.kind == "combo"
    assert [o.op for o in combo.origins] == [o.op for k in apart.kernels for o in k.origins]
    matrices = (64 + 128 + 192) * 1000 * 4
    assert (combo.bytes_read, combo.bytes_written) == (matrices, matrices)
    assert sorted(b.bytes for b in combo.buffers if b.role == "input") == [
        rows * 1000 * 4 for rows in (64, 128, 192)
    ]
    (group,) = compare(apart, together).groups
    assert (group.match.relation, len(group.match.base), group.match.head) == ("fused", 3, (0,))


def test_what_does_not_fit_is_compiled_again_without_its_pipeline(compile_run: Compile) -> None:
    shape = (*TRAINING, ("rows", 32768), ("columns", 8192), ("dtype", "float32"))
    run = compile_run("rmsnorm", "l40s", params=shape)
    (kernel,) = by_graph(run)["backward 0"]
    assert run.target
    over, again = kernel.candidates
    assert (over.shared_bytes or 0) > run.target.shared_bytes_per_block_optin
    assert over.blocks_per_sm == 0
    assert over.config["NUM_STAGES"] > 1
    assert again.config == {**over.config, "NUM_STAGES": 1}
    assert kernel.best == again
    (finding,) = shared_memory_budget.RULE.of_run(run)
    assert (finding.severity, finding.amount) == ("warning", over.shared_bytes)


def test_an_option_keeps_it_from_being_compiled_again(compile_run: Compile) -> None:
    shape = (*TRAINING, ("rows", 32768), ("columns", 8192), ("dtype", "float32"))
    options = (("triton.dynamic_disable_pipelining", False),)
    run = compile_run("rmsnorm", "l40s", params=shape, options=options)
    (kernel,) = by_graph(run)["backward 0"]
    assert [c.blocks_per_sm for c in kernel.candidates] == [0]
    (finding,) = shared_memory_budget.RULE.of_run(run)
    assert finding.severity == "error"


# --- what only a device or values could decide ------------------------------------------------


def test_attention_in_a_checkpointed_block(compile_run: Compile) -> None:
    run = compile_run("checkpointed.py:attention")
    attention = [e.op for e in run.externs if "attention" in e.op]
    assert {g.direction for g in run.graphs} == {"forward", "backward"}
    # Once in the forward; again, and its backward, in the backward.
    assert len(attention) == 3
    # Each is read with its own arguments, though it runs with a random state of its own.
    forward, recomputed = (e for e in run.externs if e.op.endswith("attention.default"))
    assert {forward.graph, recomputed.graph} == {"forward 0", "backward 0"}
    (call,), (again,) = forward.calls, recomputed.calls
    assert call.work == again.work
    assert call.work is not None
    assert call.work.family == "attention"
    assert call.work.sizes["queries"] == 128
    assert call.arguments["dropout_p"] == 0.0


@pytest.mark.parametrize(
    ("words", "columns", "noted"),
    [
        (50257, 50264, [decisions.PADDED.format(1)]),
        (50264, 50264, []),
        (12, 12, [decisions.SHORT.format(1)]),
    ],
)
def test_a_product_is_padded_where_that_is_estimated_to_pay(
    words: int, columns: int, noted: list[str], compile_run: Compile
) -> None:
    """Inductor on an H200 pads 1000 × 2048 by 2048 × 50257: 1.9 ms as it is, 1.1 ms padded."""
    run = compile_run("odd_vocabulary.py", "h200", params=(("words", words),))
    (product,) = (extern for extern in run.externs if _base_name(extern.op) == "mm")
    (call,) = product.calls
    assert call.work is not None
    assert call.work.sizes["n"] == columns
    assert [note for note in run.notes if note.startswith("padding of")] == noted


@pytest.mark.parametrize("option", ["max_autotune", "coordinate_descent_tuning"])
def test_a_split_size_that_would_be_timed(option: str, compile_run: Compile) -> None:
    shape = (("rows", 8192), ("columns", 1024), ("mode", "training"))
    usual = compile_run("rmsnorm", params=shape)
    run = compile_run("rmsnorm", params=shape, options=((option, True),))
    (timed,) = (k for k in run.kernels if k.kind == "mix-order-reduction")
    (kept,) = (k for k in usual.kernels if k.kind == "mix-order-reduction")
    assert {c.config["RSPLIT_SIZE"] for c in timed.candidates} == {
        c.config["RSPLIT_SIZE"] for c in kept.candidates
    }
    assert any(note.startswith("split sizes of mix-order reductions") for note in run.notes)


def test_what_is_different_is_taken_as_half(compile_run: Compile) -> None:
    run = compile_run("unknown_sizes.py:distinct")
    sizes = {size for kernel in run.kernels for size in kernel.sizes.values()}
    # 251 of 501 indices times 32, all 501 of the inverse, 32 of 64 rows times 32
    assert sizes == {251 * 32, 501, 32 * 32}
    (note,) = [each for each in run.notes if each.startswith("sizes that depend on tensor values")]
    about, cure = note.split("; ")
    assert about.endswith("outside of a graph: taken as half (×2)")
    option = cure.removeprefix("-o ").removesuffix(" may keep what asks for them inside")
    name, _, value = option.partition("=")
    cured = compile_run("unknown_sizes.py:distinct", options=((name, value == "true"),))
    assert not any(each.startswith("sizes that depend") for each in cured.notes)


def test_a_function_that_is_left_alone_has_its_line(compile_run: Compile) -> None:
    run = compile_run("unknown_sizes.py:experts")
    assert run.kernels == ()
    (finding,) = graph_breaks.RULE.of_run(run)
    assert finding.origin is not None
    assert finding.origin.code == "(token,) = torch.where(chosen == number)"
    assert [dict(cure.options) for cure in finding.cures] == [
        {"dynamo.capture_dynamic_output_shape_ops": True}
    ]


# --- what goes wrong -------------------------------------------------------------------------


def test_a_model_that_raises(compile_run: Compile) -> None:
    with pytest.raises(UserCodeFailed) as raised:
        compile_run("raises.py")
    assert "ValueError: expected 3 dimensions, got 2" in str(raised.value)
    assert "\n" not in str(raised.value)
    files = set(re.findall(r'File "([^"]+)"', raised.value.detail))
    assert {Path(file).name for file in files} == {"raises.py"}
    assert "raise ValueError" in raised.value.detail


@pytest.mark.parametrize("what", ["product", "convolution"])
def test_operands_of_different_types_fail_as_on_the_device(what: str, compile_run: Compile) -> None:
    """An H200 refuses the product when it runs; fake tensors alone do not (torch 2.11 to 2.13)."""
    said = {
        "product": "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: ",
        "convolution": "RuntimeError: Input type (torch.bfloat16) and weight type (torch.float32)",
    }
    with pytest.raises(UserCodeFailed) as raised:
        compile_run(f"mixed_types.py:{what}")
    assert said[what] in str(raised.value)


def test_a_graph_that_inductor_cannot_compile_is_named(compile_run: Compile) -> None:
    with pytest.raises(CompileFailed) as raised:
        compile_run("no_lowering.py")
    # The first graph compiles; the one after the graph break does not.
    assert str(raised.value).startswith("Inductor could not compile inference 1: ")
    assert "nobody wrote this lowering" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_no_output_that_needs_a_gradient(compile_run: Compile) -> None:
    with pytest.raises(PerfcliError, match=r"nothing to back-propagate.*mode=step"):
        compile_run("called_twice.py", params=TRAINING)


# --- the same again --------------------------------------------------------------------------


def test_compiling_twice_gives_the_same(compile_run: Compile, tmp_path: Path) -> None:
    """In a fork of a process that has torch imported, and in a fresh one with an empty cache."""
    compile_it = functools.partial(compile_run, "rmsnorm", params=TRAINING)
    first, second = compile_it(), compile_it(cache=tmp_path / "cache")
    assert "mix-order-reduction" in {kernel.kind for kernel in first.kernels}
    assert [k.source_hash for k in first.kernels] == [k.source_hash for k in second.kernels]
    hashes = [[c.binary_hash for c in k.candidates] for k in first.kernels]
    assert all(hashes)
    assert None not in [each for of_kernel in hashes for each in of_kernel]
    assert hashes == [[c.binary_hash for c in k.candidates] for k in second.kernels]
    assert first.launches == second.launches
    assert first.externs == second.externs


def test_a_choice_that_only_the_device_can_make_is_counted_once(compile_run: Compile) -> None:
    shape = (("rows", 32768), ("columns", 4096))
    run = compile_run("rmsnorm", params=shape, options=(("triton.multi_kernel", 1),))
    # A looped and a persistent kernel of the same norm, of which a step launches one.
    assert {k.kind for k in run.kernels} == {"reduction", "persistent-reduction"}
    assert len(run.kernels) == 2
    assert sorted(k.launches for k in run.kernels) == [0, 1]
    assert len(run.launches) == 1
    assert any("on the device" in note for note in run.notes)
