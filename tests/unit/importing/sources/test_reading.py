"""What was left behind as a run: kernels, launches, bytes, notes; bad folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from wrappers import CountingCompiler, text_of, write_debug_folder, write_event

from perfcli import diagnosis
from perfcli.blobs import unpack
from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.importing.sources.reading import SourceOptions, read_sources
from perfcli.importing.sources.wrapper import read_wrapper
from perfcli.machine import targets
from perfcli.machine.environment import probe
from perfcli.model import Bundle, KernelsRequest, Run
from perfcli.storing import store

H200 = targets.get("h200")
MIX_ORDER = "triton_per_fused__fused_rms_norm__fused_rms_norm_backward_0"
CAST = "triton_poi_fused__fused_rms_norm_backward_1"


def read(
    path: Path, compiler: CountingCompiler | None = None, target: str = "h200", **options: object
) -> Bundle:
    asked = SourceOptions(
        targets.get(target) if target else None,
        compiler=compiler or CountingCompiler(),
        **options,  # type: ignore[arg-type]
    )
    return read_sources([path], asked, Notes(quiet=True))


def write(path: Path, name: str) -> Path:
    path.write_text(text_of(name))
    return path


def run_of(path: Path, name: str, **options: object) -> Run:
    return read(write(path / "output_code.py", name), **options).run  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["2.11", "2.13"])
def test_kernels_have_bytes_sizes_and_binaries(tmp_path: Path, version: str) -> None:
    """By hand: the mix-order kernel reads x and the gradient (32768 × 8192 bf16), one float32 per
    row, the weight; writes the gradient of x, and a workspace of 2048 × 8192 float32."""
    run = run_of(tmp_path, f"rmsnorm_backward_{version}")
    first, second = run.kernels
    rows, columns, parts = 32768, 8192, 2048
    assert (first.name, first.kind, first.graph) == (MIX_ORDER, "mix-order-reduction", "backward 0")
    assert first.sizes == {"x": rows, "r0_": columns}
    assert first.bytes_read == 2 * rows * columns * 2 + rows * 4 + columns * 2
    assert first.bytes_written == rows * columns * 2 + parts * columns * 4
    assert first.finishing_bytes == parts * columns * 4 + columns * 4
    assert second.bytes_read == columns * 4
    assert second.bytes_written == columns * 2
    assert [k.candidates[0].registers for k in run.kernels] == [16, 32]
    assert first.source_facts is not None
    assert [b.role for b in first.buffers] == ["input"] * 4 + ["output", "workspace"]
    assert [(each.name, each.finishing) for each in run.launches] == [
        (MIX_ORDER, False),
        ("aten.sum.dim_IntList", True),
        (CAST, False),
    ]
    assert run.externs == ()
    assert (run.mode, run.device, run.scenario) == ("training", "cuda", "imported")
    assert run.variant.name == "output_code.py"


def test_operators_have_work(tmp_path: Path) -> None:
    """By hand: the gradient of the weight is 2 · 4 · 64 · 32 · 32 · 3 · 9 operations."""
    run = run_of(tmp_path, "convolution_backward_2.13")
    found = {each.op: each for each in run.externs}
    convolution = found["aten.convolution_backward.default"].calls[0]
    assert convolution.work is not None
    assert convolution.work.flops == 2 * 4 * 64 * 32 * 32 * 3 * 9
    assert convolution.arguments["padding"] == [1, 1]
    products = found["aten.mm.out"]
    assert products.count == 2
    assert [c.work.flops for c in products.calls if c.work] == [2 * 4 * 10 * 65536] * 2
    assert run.launches[0].operands == ("tangents_1", "primals_9", "buf0")


def test_dynamic_sizes_have_the_values_of_the_example(tmp_path: Path) -> None:
    run = run_of(tmp_path, "softmax_dynamic_2.11")
    (kernel,) = run.kernels
    assert run.dynamic
    assert kernel.sizes == {"x": 4096, "r0_": 5000}
    assert kernel.dynamic_sizes == ("x", "r0_")
    assert kernel.bytes_moved == 2 * 4096 * 5000 * 2


def test_kernels_of_the_cpu_need_no_target(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    run = run_of(tmp_path, "layernorm_cpu_2.13", compiler=compiler, target="")
    (kernel,) = run.kernels
    assert (run.device, run.target, kernel.language) == ("cpu", None, "cpp")
    assert kernel.source_facts is not None
    assert kernel.source_facts.loads > 0
    assert [b.argument for b in kernel.buffers][:2] == ["in_out_ptr0", "in_out_ptr1"]
    assert compiler.asked == []


def test_the_run_can_be_stored_and_explained(tmp_path: Path) -> None:
    bundle = read(write(tmp_path / "output_code.py", "rmsnorm_backward_2.13"))
    path = store.save(bundle, tmp_path / "runs")
    run = store.read(path)
    assert run == bundle.run
    diagnosis.explain(run)
    assert unpack(bundle.blobs[run.kernels[0].source]).startswith("import triton\n")


def test_graphs_come_in_the_order_of_a_step(tmp_path: Path) -> None:
    code = text_of("rmsnorm_backward_2.13")

    def relabelled(label: str) -> str:
        return code.replace("AOT ID: ['0_backward']", f"AOT ID: ['{label}']")

    labels = ["1_backward", "0_forward", "0_backward", "1_forward"]
    folder = write_debug_folder(tmp_path, {label: relabelled(label) for label in labels})
    run = read(folder).run
    assert [graph.name for graph in run.graphs] == [
        "forward 0", "forward 1", "backward 0", "backward 1",
    ]  # fmt: skip
    assert len(run.kernels) == 8
    assert [kernel.launches for kernel in run.kernels] == [1] * 8
    launched = [launch.graph for launch in run.launches if not launch.extern]
    assert launched == [name for graph in run.graphs for name in [graph.name] * 2]


def test_another_torch_is_named(tmp_path: Path) -> None:
    folder = write_debug_folder(tmp_path, {"0_backward": text_of("rmsnorm_backward_2.11")}, "2.4.1")
    run = read(folder, target="").run
    assert run.environment.torch == "2.4.1"
    assert run.environment.gpu == "NVIDIA H200"
    assert run.target == H200
    (note,) = run.notes
    assert note.startswith(f"written by torch 2.4.1, compiled again by torch {probe().torch} and")


def test_a_target_that_is_asked_for_is_compiled_for(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    run = run_of(tmp_path, "rmsnorm_backward_2.13", target="a100", compiler=compiler)
    (request,) = compiler.asked
    assert request.target == targets.get("a100")
    for kernel in request.kernels:
        assert "multi_processor_count=108, cc=80, major=8" in kernel.source
    assert run.notes[0] == (
        "the sources were generated for a GPU of compute capability 9.0 with 132 multiprocessors, "
        "compiled for a100"
    )


def test_a_kernel_that_does_not_compile_keeps_its_source_and_says_why(tmp_path: Path) -> None:
    compiler = CountingCompiler({f"def {CAST}": "CompilationError: at 3:1\nno such op"})
    run = run_of(tmp_path, "rmsnorm_backward_2.13", compiler=compiler)
    good, bad = run.kernels
    assert good.best is not None
    assert bad.best is None
    assert bad.source_facts is not None
    assert bad.bytes_moved is not None
    assert [c.error for c in bad.candidates] == ["CompilationError: at 3:1: no such op"]
    assert "1 kernel known by the source alone: CompilationError: at 3:1: no such op" in run.notes


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (
            "CompilationError: at 17:11:\n    x = 1\n    tmp0 = tl.loaded_nonsense(x)\n"
            "           ^\nAttributeError(\"module 'tl' has no attribute 'loaded_nonsense'\")",
            "CompilationError: at 17:11: "
            "AttributeError(\"module 'tl' has no attribute 'loaded_nonsense'\")",
        ),
        (
            "PTXASError: PTXAS error: codegen error\n`ptxas` stderr:\nptxas fatal : too many\n\n"
            "Repro command: ptxas -v x.ptx\n",
            "PTXASError: PTXAS error: codegen error: ptxas fatal : too many",
        ),
        ("ValueError: 3", "ValueError: 3"),
        (" \n", "it did not compile"),
    ],
)
def test_the_reason_of_a_failed_compilation_is_one_line(
    tmp_path: Path, error: str, shown: str
) -> None:
    compiler = CountingCompiler({f"def {CAST}": error})
    run = run_of(tmp_path, "rmsnorm_backward_2.13", compiler=compiler)
    assert [c.error for c in run.kernels[1].candidates] == [shown]


def test_a_kernel_that_may_not_run_is_not_sent_to_the_compiler(tmp_path: Path) -> None:
    driver = "triton_helpers.set_driver_to_gpu()"
    head, _, rest = text_of("rmsnorm_backward_2.13").rpartition(driver)
    path = tmp_path / "output_code.py"
    path.write_text(f"{head}import os; os.system('touch harmed'){rest}")
    compiler = CountingCompiler()
    run = read(path, compiler).run
    ((kernel,),) = [request.kernels for request in compiler.asked]
    assert kernel.name == MIX_ORDER
    assert run.kernels[1].candidates[0].error.startswith("not compiled: it imports what no")


def test_a_worker_that_dies_leaves_the_sources(tmp_path: Path) -> None:
    class Dying(CountingCompiler):
        def built(self, request: KernelsRequest):  # type: ignore[no-untyped-def]
            yield next(super().built(request))
            raise WorkerFailed("the worker was killed by signal 9")

    run = run_of(tmp_path, "rmsnorm_backward_2.13", compiler=Dying())
    assert [kernel.best is not None for kernel in run.kernels] == [True, False]
    assert run.kernels[1].source_facts is not None


def test_only_kernels_that_a_trace_launches_are_compiled(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    run_of(tmp_path, "rmsnorm_backward_2.13", compiler=compiler, wanted=frozenset({CAST}))
    (request,) = compiler.asked
    assert [kernel.name for kernel in request.kernels] == [CAST]


def test_kernels_without_a_wrapper_are_launched_once(tmp_path: Path) -> None:
    definition = read_wrapper(text_of("softmax_dynamic_2.11")).kernels[0].definition
    (tmp_path / "c1.py").write_text(definition.source)
    (tmp_path / "c2.py").write_text(definition.source.replace("tl.load", "tl.load  "))
    run = read(tmp_path).run
    assert [(k.graph, k.launches) for k in run.kernels] == [("inference 0", 1), ("inference 1", 1)]
    assert (
        "nothing tells what a step launches: each kernel is counted as launched once" in run.notes
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("output_code.py", "async_compile = AsyncCompile()\n"),
        ("output_code.py", "async_compile = AsyncCompile()\n\0\0\0"),
        ("output_code.py", "async_compile = AsyncCompile()\ndef call(args):\n    return ()\n"),
        ("x.log", write_event("compilation_metrics", metadata={})),
    ],
)
def test_what_holds_no_kernel_is_an_error_of_one_line(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(PerfcliError, match=r"holds no kernel that torch\.compile") as failed:
        read(path)
    assert "\n" not in str(failed.value)
    assert failed.value.exit_code == 2


def test_what_is_missing_of_a_cut_off_file_is_told(tmp_path: Path) -> None:
    text = text_of("rmsnorm_backward_2.13")
    path = tmp_path / "output_code.py"
    path.write_text(text[: text.index(f"{CAST}.run(") + len(CAST) + 8])
    run = read(path).run
    assert [kernel.launches for kernel in run.kernels] == [1, 0]
    assert any(note.startswith("output_code.py: it is no whole Python: line") for note in run.notes)


@pytest.mark.parametrize(
    ("cut", "kernels", "missing"),
    [
        (f"def {CAST}(", [MIX_ORDER], f"output_code.py: the source of {CAST} is cut off"),
        ("        with torch.cuda", [MIX_ORDER, CAST], "output_code.py: it is cut off: its function"
         " call returns nothing"),
    ],
)  # fmt: skip
def test_a_lone_module_without_launches_yields_its_kernels(
    tmp_path: Path, cut: str, kernels: list[str], missing: str
) -> None:
    text = text_of("rmsnorm_backward_2.13")
    path = tmp_path / "output_code.py"
    path.write_text(text[: text.index(cut)])
    run = read(path).run
    assert [(kernel.name, kernel.launches) for kernel in run.kernels] == [(k, 0) for k in kernels]
    assert all(kernel.best is not None for kernel in run.kernels)
    assert missing in run.notes
    assert any(note.startswith("no launch can be read") for note in run.notes)


def test_names_with_markup_and_control_characters_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m<b>|x"
    folder.mkdir()
    run = read(write(folder / "o\nut.py", "rmsnorm_backward_2.13")).run
    assert run.variant.name == "o\nut.py"
