"""Logs of TORCH_TRACE: whole ones, of several processes, and broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wrappers import text_of, write_event

from perfcli.errors import PerfcliError
from perfcli.importing.sources.leftovers import Leftovers
from perfcli.importing.sources.structured_log import is_log, read_logs

CODE = text_of("rmsnorm_backward_2.13")
OTHER = text_of("user_kernel_2.13")
BREAK = """\
Graph break in user code at /home/user/model.py:29
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call:

Call to `torch._dynamo.graph_break()`
  Explanation: User-inserted graph break. Message: None
"""
LISTING = "class GraphModule(torch.nn.Module):\n    def forward(self):\n        sin = torch.sin(x)"


def read(folder: Path, *texts: str) -> Leftovers:
    """Write logs of one name each and read them."""
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"dedicated_log_torch_trace_{number}.log"
        path.write_text(text)
        paths.append(path)
    return read_logs(paths)


def output_code(text: str, **data: Any) -> str:
    return write_event("inductor_output_code", text, metadata={"filename": "/tmp/x.py"}, **data)


def test_a_log_has_graphs_versions_options_and_graph_breaks(tmp_path: Path) -> None:
    metrics = {
        "pytorch_version": "2.13.0+cu130",
        "triton_version": "3.7.1",
        "python_version": "3.12.3 (main)",
        "inductor_config": json.dumps(
            {"online_softmax": True, "triton.max_tiles": 2, "cpp.cxx": ["g++"]}
        ),
    }
    runnable = "import torch\n# GPU Hardware Info: \n# NVIDIA H200 : 1 \n"
    found = read(
        tmp_path,
        write_event("artifact dynamo_graph_break_reason", BREAK)
        + write_event("artifact fx_graph_runnable", runnable)
        + write_event("artifact inductor_post_grad_graph", LISTING)
        + output_code(CODE)
        + write_event("artifact inductor_provenance_tracking_node_mappings", "{}")
        + write_event("compilation_metrics", metadata=metrics)
        + write_event("chromium_event", "{}"),
    )
    (graph,) = found.graphs
    assert graph.text == CODE
    assert graph.listing == LISTING
    assert graph.mapping == "{}"
    assert (found.torch, found.triton, found.python) == ("2.13.0+cu130", "3.7.1", "3.12.3")
    assert found.gpu == "NVIDIA H200"
    assert found.settings == {"online_softmax": True, "triton.max_tiles": 2}
    assert found.graph_breaks == {"Call to `torch._dynamo.graph_break()`": 1}
    ((place,),) = found.break_places.values()
    assert place.location == "/home/user/model.py:29"
    assert place.explanation == "User-inserted graph break. Message: None"
    assert found.notes == ()


def test_what_was_compiled_again_counts_once(tmp_path: Path) -> None:
    log = output_code(CODE, frame_compile_id=0) + output_code(OTHER, frame_compile_id=1)
    found = read(tmp_path, log + output_code(CODE, frame_id=1))
    assert [graph.text for graph in found.graphs] == [OTHER, CODE]
    assert found.notes == (
        "1 graph of functions that were compiled again left out: a step is counted with what was "
        "compiled last",
    )


def test_of_several_ranks_the_first_is_shown(tmp_path: Path) -> None:
    found = read(tmp_path, output_code(OTHER, rank=1), output_code(CODE, rank=0))
    assert [graph.text for graph in found.graphs] == [CODE]
    assert found.notes == ("the logs are of ranks 0, 1: rank 0 is shown",)
    logs = sorted(tmp_path.iterdir())
    assert [graph.text for graph in read_logs(logs, 1).graphs] == [OTHER]
    with pytest.raises(PerfcliError, match="no log of rank 7: there are 0, 1"):
        read_logs(logs, 7)


def test_of_several_processes_the_latest_is_shown(tmp_path: Path) -> None:
    late = "V1124 01:00:00.000000 7 torch/x.py:1]"
    found = read(tmp_path, output_code(CODE, prefix=late), output_code(OTHER), "")
    assert [graph.text for graph in found.graphs] == [CODE]
    (note,) = found.notes
    assert note.startswith("2 logs of different processes: dedicated_log_torch_trace_0.log is the")


def test_broken_lines_are_counted_and_take_nothing_with_them(tmp_path: Path) -> None:
    log = "nonsense\n" + output_code(CODE)[:-1] + "\nV1123 bad\n"
    log += 'V1123 03:04:39.788000 1 x.py:1] {"a\n' + output_code(OTHER)
    found = read(tmp_path, log)
    assert [graph.text for graph in found.graphs] == [CODE, OTHER]
    assert found.notes == ("dedicated_log_torch_trace_0.log: 3 lines can't be read",)


def test_a_log_that_is_cut_off_keeps_what_is_left_of_the_graph(tmp_path: Path) -> None:
    log = output_code(CODE)
    found = read(tmp_path, log[: len(log) // 2])
    (graph,) = found.graphs
    assert CODE.startswith(graph.text[:-10])
    assert found.notes == (
        "dedicated_log_torch_trace_0.log: the code of 1 graph is not as it was written (cut off or "
        "changed)",
    )


def test_a_log_is_told_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "any name"
    for text, expected in (
        (output_code(CODE), True),
        ("", False),
        ("\n", False),
        ("hello\n", False),
        ("V1123 03:04:39.788000 1 x.py:1] hello\n", False),
    ):
        path.write_text(text)
        assert is_log(path) is expected


def test_junk_in_events_is_passed_over(tmp_path: Path) -> None:
    deep = '{"a":' * 5000
    log = "".join(
        f"V1123 03:04:39.788000 1 x.py:1] {text}\n"
        for text in (
            "[]", "3", '{"artifact": 3}', '{"artifact": {"name": [1]}}', deep,
            '{"inductor_output_code": 1, "has_payload": 3}', '{"compilation_metrics": 3}',
            '{"compilation_metrics": {"inductor_config": 3, "dynamo_config": "["}}',
            '{"rank": "x", "inductor_output_code": {}, "frame_id": [], "has_payload": "x"}',
            '{"inductor_output_code": {}, "frame_id": [], "frame_compile_id": 1, "has_payload": 1}',
        )
    )  # fmt: skip
    (tmp_path / "log").write_bytes(log.encode() + b"\xff\xfe\0\n\t\xff\n")
    assert len(read_logs([tmp_path / "log"]).graphs) <= 2
