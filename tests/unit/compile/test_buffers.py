"""What kernels' arguments address: counted by hand from the models and their sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from perfcli.compile.capture.buffers import NOTHING, correct_roles, read_operands, user_operands
from perfcli.model import Access, Buffer, KernelFacts, Run, SourceFacts
from perfcli.predict.step import estimate_step

Compile = Callable[..., Run]
TRAINING = (("mode", "training"),)
ROWS, COLUMNS, BF16, F32 = 128, 2048, 2, 4  # the smoke preset


def by_argument(kernel: KernelFacts) -> dict[str, Buffer]:
    return {buffer.argument: buffer for buffer in kernel.buffers}


def test_what_fails_is_unknown() -> None:
    assert read_operands(SimpleNamespace(numels={"x": None})) == NOTHING
    assert user_operands(SimpleNamespace()) == NOTHING


def test_only_what_is_loaded_is_in_place() -> None:
    names = ("in_out_ptr0", "in_out_ptr1", "in_out_ptr2")
    buffers = tuple(Buffer(name, name, "inplace", "float32", (8,), (1,), 32) for name in names)
    accesses = (
        Access("load", "in_out_ptr0", 1, 0, 0),
        Access("store", "in_out_ptr0", 2, 0, 0),
        Access("store", "in_out_ptr1", 3, 0, 0),
        Access("atomic", "in_out_ptr2", 4, 0, 0),
    )
    facts = SourceFacts(1, 0, 2, 0, 1, 0, 0, accesses, {}, 1, 3)
    assert [b.role for b in correct_roles(buffers, facts)] == ["inplace", "output", "inplace"]
    assert correct_roles(buffers, None) == buffers
    untraced = replace(facts, accesses=(*accesses, Access("load", "", 5, 0, 0)))
    assert correct_roles(buffers, untraced) == buffers


@pytest.mark.torch
def test_a_buffer_made_and_overwritten_in_one_kernel_is_an_output(compile_run: Compile) -> None:
    shape = (("rows", 8192), ("columns", 1024), ("mode", "training"))
    forward = compile_run("rmsnorm", params=shape).kernels[0]
    # The mean of squares becomes its inverse root in place, and is never loaded.
    assert by_argument(forward)["in_out_ptr0"].role == "output"
    assert by_argument(forward)["in_out_ptr0"].shape == (8192, 1)


@pytest.mark.torch
def test_a_reduction_over_rows(compile_run: Compile) -> None:
    (kernel,) = compile_run("rmsnorm", preset="smoke").kernels
    assert kernel.sizes == {"x": ROWS, "r0_": COLUMNS}
    assert kernel.dynamic_sizes == ()
    matrix = ("bfloat16", (ROWS, COLUMNS), (COLUMNS, 1), ROWS * COLUMNS * BF16)
    row = ("bfloat16", (COLUMNS,), (1,), COLUMNS * BF16)
    assert kernel.buffers == (
        Buffer("in_ptr0", "arg0_1", "input", *matrix, graph_input=True, graph_output=False),
        Buffer("in_ptr1", "arg1_1", "input", *row, graph_input=True, graph_output=False),
        Buffer("out_ptr1", "buf1", "output", *matrix, graph_output=True),
    )
    read = sum(b.bytes for b in kernel.buffers if b.role == "input")
    assert read == kernel.bytes_read


@pytest.mark.torch
def test_a_mix_order_kernel_has_a_workspace(compile_run: Compile) -> None:
    shape = (("rows", 8192), ("columns", 1024), ("mode", "training"))
    kernels = compile_run("rmsnorm", params=shape).kernels
    (kernel,) = (k for k in kernels if k.kind == "mix-order-reduction")
    assert kernel.sizes == {"x": 8192, "r0_": 1024}
    (workspace,) = (b for b in kernel.buffers if b.role == "workspace")
    # One partial sum of a row per block of RSPLIT_SIZE rows, in float32.
    (split,) = {c.config["RSPLIT_SIZE"] for c in kernel.candidates} or {0}
    assert (workspace.argument, workspace.dtype) == ("ws_ptr", "float32")
    assert workspace.shape == (8192 // split * 1024,)
    assert workspace.bytes == 8192 // split * 1024 * F32


@pytest.mark.torch
def test_arguments_are_those_of_the_source(compile_run: Compile) -> None:
    shape = (("rows", 8192), ("columns", 1024), ("mode", "training"))
    for kernel in compile_run("rmsnorm", params=shape).kernels:
        assert kernel.source_facts is not None
        used = {access.pointer for access in kernel.source_facts.accesses}
        assert used == set(by_argument(kernel)), kernel.name


@pytest.mark.torch
def test_a_buffer_has_one_name_in_all_kernels(compile_run: Compile) -> None:
    run = compile_run("sizes.py", dynamic=True, params=TRAINING)
    first, second = (k for k in run.kernels if k.graph == "backward 0")
    assert by_argument(first)["out_ptr0"].name == by_argument(second)["in_ptr1"].name
    assert not by_argument(second)["in_ptr1"].graph_input
    assert by_argument(second)["in_ptr0"].graph_input  # saved by the forward


@pytest.mark.torch
def test_symbols_have_hints(compile_run: Compile) -> None:
    run = compile_run("sizes.py", dynamic=True, params=TRAINING)
    softmax, *_, columns = run.kernels
    assert (softmax.sizes, softmax.dynamic_sizes) == ({"x": 33, "r0_": 512}, ("x",))
    assert (columns.sizes, columns.dynamic_sizes) == ({"x": 512, "r0_": 33}, ("r0_",))
    assert by_argument(softmax)["in_ptr0"].shape == (33, 512)


@pytest.mark.torch
def test_sizes_that_only_values_tell_are_unknown(compile_run: Compile) -> None:
    """torch makes up 8192 for them. The mask is of the input's size, which is known."""
    options = (("dynamo.capture_dynamic_output_shape_ops", True),)
    run = compile_run("picked.py", target="h200", options=options)
    mask, total, mapped = run.kernels
    assert (mask.sizes, mask.unknown_sizes) == ({"x": 4096}, ())
    assert (total.unknown_sizes, mapped.unknown_sizes) == (("r0_",), ("x",))
    (index,) = (extern for extern in run.externs if "index" in extern.op)
    assert all(call.work is None for call in index.calls)
    step = estimate_step(replace(run, weighed=True))
    assert step is not None
    assert [estimate is None for estimate in step.kernels][1:] == [True, True]
    assert step.missing[-1] == (f"{mapped.name}: its size depends on values that only a run knows")


@pytest.mark.torch
def test_a_kernel_written_by_hand(compile_run: Compile) -> None:
    written, generated = compile_run("written_kernel.py").kernels
    roles = {name: b.role for name, b in by_argument(written).items()}
    assert roles == {"left": "input", "right": "input", "out": "output"}
    assert {b.bytes for b in written.buffers} == {100 * 1000 * F32}
    # A pointwise kernel reduces over nothing.
    assert generated.sizes == {"x": 100 * 1000}


@pytest.mark.torch
def test_a_kernel_in_cpp(compile_run: Compile) -> None:
    # A precompiled header takes longer than the only kernel that would need it.
    options = (("cpp_cache_precompile_headers", False),)
    (kernel,) = compile_run("softmax", None, preset="smoke", options=options).kernels
    assert kernel.sizes == {}
    sizes = {b.role: b.bytes for b in kernel.buffers if b.dtype == "bfloat16"}
    assert sizes == {"input": ROWS * COLUMNS * BF16, "output": ROWS * COLUMNS * BF16}
