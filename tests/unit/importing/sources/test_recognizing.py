"""What of torch a path is, by its content; what is nothing of torch, and what can't be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from wrappers import text_of, write_debug_folder, write_event

from perfcli.errors import PerfcliError
from perfcli.importing.sources.leftovers import MOST_BYTES, list_files
from perfcli.importing.sources.recognizing import read_leftovers, recognize_sources
from perfcli.importing.sources.wrapper import read_wrapper

CODE = text_of("rmsnorm_backward_2.13")
KERNEL = read_wrapper(CODE).kernels[1].definition.source
CACHED = "cnszvdxeaphuk7fawqmfsn7z22requb7q6cbbv4iuw6hlordhnza.py"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_and_folders_are_told_by_their_content(tmp_path: Path) -> None:
    debug = write_debug_folder(tmp_path / "d", {"0_backward": CODE})
    write(tmp_path / "log" / "any", write_event("compilation_metrics", metadata={}))
    write(tmp_path / "cache" / "ns" / CACHED, CODE)
    write(tmp_path / "kernels" / "ns" / CACHED, KERNEL)
    write(tmp_path / "code" / "some.py", CODE)
    write(tmp_path / "triton" / "ABC" / "k.cubin", "x")
    write(tmp_path / "triton" / "ABC" / "k.json", "x")
    expected = {
        debug: "a torch_compile_debug folder",
        next(debug.glob("*/*/*")): "a torch_compile_debug folder",
        tmp_path / "log": "a TORCH_TRACE folder",
        tmp_path / "log" / "any": "a log of TORCH_TRACE",
        tmp_path / "cache": "an Inductor cache folder",
        tmp_path / "kernels": "an Inductor cache folder",
        tmp_path / "kernels" / "ns" / CACHED: "a generated kernel",
        tmp_path / "code": "a folder of output_code.py",
        tmp_path / "code" / "some.py": "an output_code.py",
        tmp_path / "triton": "a Triton cache folder",
    }
    assert {path: recognize_sources(path) for path in expected} == expected


def test_what_is_nothing_of_torch_is_nothing(tmp_path: Path) -> None:
    write(tmp_path / "model.py", "import torch\n\ndef block():\n    return torch.relu, ()\n")
    write(tmp_path / "x" / "y.json", "{}")
    (tmp_path / "junk.py").write_bytes(os.urandom(5000))
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere")
    for name in ("model.py", "x", "junk.py", "empty", "pipe.py", "dangling.py", "missing", "."):
        assert recognize_sources(tmp_path / name) == ""
        with pytest.raises(PerfcliError) as failed:
            read_leftovers(tmp_path / name)
        assert "\n" not in str(failed.value)


def test_a_link_in_a_circle_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "a" / "code.py", CODE)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    assert [path.name for path in list_files(tmp_path)] == ["loop.py", "code.py"]
    assert len(read_leftovers(tmp_path).graphs) == 1


def test_a_debug_folder_has_versions_labels_and_listings(tmp_path: Path) -> None:
    folder = write_debug_folder(tmp_path, {"0_forward": CODE.replace("0_backward", "x")}, "2.11.0")
    (place,) = folder.glob("*/*/*/output_code.py")
    write(place.parent / "fx_graph_transformed.py", "class GraphModule: pass")
    mapping = "inductor_provenance_tracking_node_mappings.json"
    write(place.parent / mapping, '{"cppCodeToPost": {}}')
    found = read_leftovers(folder)
    (graph,) = found.graphs
    assert (found.torch, found.gpu, graph.label) == ("2.11.0", "NVIDIA H200", "0_forward")
    assert graph.listing == "class GraphModule: pass"
    assert graph.mapping == '{"cppCodeToPost": {}}'


def test_versions_that_differ_are_told(tmp_path: Path) -> None:
    write_debug_folder(tmp_path / "a", {"0_forward": CODE}, "2.11.0")
    write_debug_folder(tmp_path / "b", {"0_backward": CODE + "\n"}, "2.13.0")
    assert "written by several versions of torch: 2.11.0, 2.13.0" in read_leftovers(tmp_path).notes


def test_the_same_code_twice_is_one_graph(tmp_path: Path) -> None:
    write(tmp_path / "ns" / CACHED, CODE)
    write(tmp_path / "ns" / f"{CACHED[:-3]}.debug" / "output_code.py", CODE)
    assert len(read_leftovers(tmp_path).graphs) == 1


def test_an_enormous_file_is_left_out_and_told(tmp_path: Path) -> None:
    write(tmp_path / "a.py", CODE)
    large = write(tmp_path / "b.py", CODE)
    with large.open("r+b") as file:
        file.truncate(MOST_BYTES + 1)
    found = read_leftovers(tmp_path)
    assert len(found.graphs) == 1
    assert found.notes == ("b.py is too large to be the code of one graph, or can't be read",)


def test_kernels_without_a_wrapper_are_kernels(tmp_path: Path) -> None:
    write(tmp_path / "ns" / CACHED, KERNEL)
    write(tmp_path / "zz" / CACHED, KERNEL[:-300] + "\n  broken(")
    found = read_leftovers(tmp_path)
    (kernel,) = found.kernels
    assert kernel.name == "triton_poi_fused__fused_rms_norm_backward_1"
    assert kernel.definition.source == KERNEL
    assert found.notes[1] == f"{CACHED} can't be read as a kernel"


def test_pickles_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of fxgraph/ that would write a file is left alone; so are entries that look like
    something else by their name."""
    harm = b"cos\nsystem\n(S'touch harmed'\ntR."
    (tmp_path / "fxgraph" / "ab").mkdir(parents=True)
    (tmp_path / "fxgraph" / "ab" / "entry").write_bytes(harm)
    (tmp_path / "fxgraph" / "ab" / "entry.py").write_bytes(harm)
    write(tmp_path / "ns" / CACHED, CODE)
    monkeypatch.chdir(tmp_path)
    assert len(read_leftovers(tmp_path).graphs) == 1
    assert not (tmp_path / "harmed").exists()
