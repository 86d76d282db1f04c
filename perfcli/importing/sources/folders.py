"""Reads the folders in which torch.compile leaves generated code: ``torch_compile_debug``, and
Inductor's cache. Entries of the cache that are pickles are never opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfcli import units
from perfcli.compile.capture.definition import read_module
from perfcli.importing.sources.leftovers import (
    MOST_FILES,
    Leftovers,
    WrittenGraph,
    list_files,
    read_head,
    read_text,
)
from perfcli.importing.sources.structured_log import read_versions
from perfcli.importing.sources.wrapper import WrittenKernel

_MARK = re.compile(rb"^async_compile = AsyncCompile\(\)", re.MULTILINE)
_KERNEL = re.compile(rb"^@triton_heuristics\.\w+\(", re.MULTILINE)
_DEBUG = re.compile(r"^model_.*?(\d+_(?:forward|backward|inference))", re.DOTALL)
_CACHED = re.compile(r"^c[a-z2-7]{20,}\.py$")
_RUNNABLE, _LISTING = "fx_graph_runnable.py", "fx_graph_transformed.py"
_MAPPING = "inductor_provenance_tracking_node_mappings.json"


def is_wrapper(path: Path) -> bool:
    """Return whether a file is a module that Inductor wrote for a graph."""
    return bool(_MARK.search(read_head(path)))


def is_kernel(path: Path) -> bool:
    """Return whether a file is a kernel that Inductor wrote, by itself."""
    return bool(_KERNEL.search(read_head(path)))


def name_folder(path: Path) -> str:
    """Return what a folder is that holds a generated module or kernel."""
    if path.name == "output_code.py" and _DEBUG.match(path.parent.name):
        return "a torch_compile_debug folder"
    return "an Inductor cache folder" if _CACHED.match(path.name) else "a folder of output_code.py"


def find_code(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder that are generated modules or kernels."""
    for path in list_files(folder):
        if path.suffix == ".py" and (is_wrapper(path) or is_kernel(path)):
            yield path


def read_file(path: Path) -> Leftovers:
    """Return one generated module, with what its neighbours tell."""
    return _read([path], path.parent, 0)


def read_folder(folder: Path) -> Leftovers:
    """Return all generated modules in a folder, or where there is none all kernels."""
    found = [path for path in list_files(folder) if path.suffix == ".py"]
    modules = [path for path in found if is_wrapper(path)]
    if modules:
        return _read(modules, folder, len(found))
    return read_kernels([path for path in found if is_kernel(path)])


def read_kernels(paths: Sequence[Path]) -> Leftovers:
    """Return kernels that lie there without the module that launches them."""
    kernels: list[WrittenKernel] = []
    notes = ["nothing tells what a step launches: each kernel is counted as launched once"]
    for path in paths:
        text = read_text(path)
        definition = read_module(text.strip()) if text else None
        if definition is None:
            notes.append(f"{path.name} can't be read as a kernel")
        else:
            kernels.append(WrittenKernel(definition.name, definition))
    return Leftovers(kernels=tuple(kernels), notes=tuple(notes))


def _read(modules: list[Path], folder: Path, seen: int) -> Leftovers:
    graphs: dict[str, WrittenGraph] = {}
    versions: dict[str, None] = {}
    gpus: dict[str, None] = {}
    notes: list[str] = []
    for path in modules:
        place = path.relative_to(folder).as_posix()
        text = read_text(path)
        if text is None:
            notes.append(f"{place} is too large to be the code of one graph, or can't be read")
            continue
        names = (_RUNNABLE, _LISTING, _MAPPING) if path.name == "output_code.py" else ()
        neighbours = (read_text(path.parent / name) or "" for name in names)
        runnable, listing, mapping = [*neighbours, "", "", ""][:3]
        version, gpu = read_versions(runnable)
        versions |= {version: None} if version else {}
        gpus |= {gpu: None} if gpu else {}
        label = _DEBUG.match(path.parent.name)
        # Inductor's cache has a second copy of what it writes for debugging.
        known = graphs.get(text)
        if known is None or (listing and not known.listing):
            graphs[text] = WrittenGraph(text, place, label[1] if label else "", listing, mapping)
    if seen >= MOST_FILES:
        notes.append(f"only the first {units.count(MOST_FILES)} files of the folder were looked at")
    if len(versions) > 1:
        notes.append(f"written by several versions of torch: {', '.join(versions)}")
    return Leftovers(
        graphs=tuple(graphs.values()),
        torch=next(iter(versions), ""),
        gpu=next(iter(gpus), ""),
        notes=tuple(notes),
    )
