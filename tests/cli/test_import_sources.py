"""import of what torch.compile leaves behind: kernels of the CPU, which need no compiler, and what
can't be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from wrappers import text_of, write_debug_folder, write_event

CODE = text_of("layernorm_cpu_2.13")
KERNEL = "cpp_fused_gelu_native_layer_norm_0"
HOSTILE = "\x1b[31m<script>alert(1)</script>|`x`"


@pytest.fixture
def code(tmp_path: Path) -> str:
    (tmp_path / "output_code.py").write_text(CODE)
    return "output_code.py"


def test_a_generated_module_is_a_run_for_all_commands(perfcli: Any, code: str) -> None:
    result = perfcli("import", code)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith("1 generated kernel, 1 launch, ")
    assert lines[0].endswith("1 extern call, 1 graph")
    assert lines[1] == "imported · forward · cpu"
    assert "aten.addmm.out" in result.out
    assert perfcli("explain", code).code == 0
    shown = perfcli("inspect-kernel", code, KERNEL)
    assert shown.code == 0
    assert "at::vec::Vectorized<float>::loadu(in_ptr0" in shown.out


def test_two_modules_are_compared(perfcli: Any, code: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(CODE.replace("0.7071067811865476", "0.5"))
    result = perfcli("compare", code, "other.py")
    assert result.code in (0, 3)
    assert KERNEL in result.out
    assert perfcli("compare", code, code).out.startswith("SAME")


def test_a_debug_folder_of_another_torch_names_it(perfcli: Any, tmp_path: Path) -> None:
    write_debug_folder(tmp_path, {"0_forward": CODE}, "2.4.1")
    result = perfcli("import", "torch_compile_debug")
    assert (result.code, result.out.splitlines()[2]) == (0, "torch_compile_debug · torch 2.4.1")


def test_a_log_that_grows_is_read_again(perfcli: Any, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = folder / "dedicated_log_torch_trace_x.log"
    log.write_text(write_event("inductor_output_code", CODE, metadata={}))
    first = perfcli("import", "--quiet", "logs").out
    assert perfcli("import", "--quiet", "logs").out == first
    broken = write_event("artifact dynamo_graph_break_reason", "Reason: print\n")
    log.write_text(log.read_text() + broken)
    result = perfcli("import", "logs")
    assert "graph break" in perfcli("explain", "logs").out
    assert first.strip() not in result.out


def test_the_log_of_a_rank_is_chosen(perfcli: Any, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank in (0, 1):
        log = write_event("inductor_output_code", CODE, metadata={}, rank=rank)
        (folder / f"{rank}.log").write_text(log)
    assert (
        "the logs are of ranks 0, 1: rank 1 is shown"
        in perfcli("import", "logs", "--rank", "1").out
    )
    result = perfcli("import", "logs", "--rank", "2")
    assert (result.code, result.err) == (2, "perfcli: there is no log of rank 2: there are 0, 1\n")


def test_what_can_not_be_read_is_one_line_and_exit_code_2(perfcli: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "output_code.py").write_bytes(os.urandom(4096))
    (tmp_path / "circle").mkdir()
    (tmp_path / "circle" / "again").symlink_to(tmp_path / "circle")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "head.py").write_text("async_compile = AsyncCompile()\n")
    (tmp_path / "log").write_text(write_event("compilation_metrics", metadata={}))
    os.mkfifo(tmp_path / "pipe")
    for name in (
        "empty",
        "junk",
        "junk/output_code.py",
        "circle",
        "loop",
        "head.py",
        "log",
        "pipe",
    ):
        result = perfcli("import", name)
        assert (name, result.code, result.out) == (name, 2, "")
        assert result.err.startswith("perfcli: ")
        assert result.err.count("\n") <= 2, result.err
        assert "Traceback" not in result.err


def test_names_with_markup_do_not_reach_the_terminal(perfcli: Any, tmp_path: Path) -> None:
    code = CODE.replace("input_1", f"input_1{HOSTILE}")
    (tmp_path / f"x{HOSTILE[:5]}.py").write_text(code)
    result = perfcli("import", f"x{HOSTILE[:5]}.py", "--json", "run.json")
    assert result.code == 0
    assert "\x1b" not in result.out
    shown = perfcli("report", result.out.split("inspect-kernel ")[1].split()[0], "--html", "r.html")
    assert "\x1b" not in shown.out


def test_a_cut_off_module_says_what_is_missing(perfcli: Any, tmp_path: Path) -> None:
    (tmp_path / "cut.py").write_text(CODE[: CODE.index(f"{KERNEL}(buf2") + 60])
    result = perfcli("import", "cut.py")
    assert result.code == 0
    assert "cut.py: it is no whole Python" in result.out.replace("\n", " ")
