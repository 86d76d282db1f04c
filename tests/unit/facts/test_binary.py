from __future__ import annotations

import functools
import importlib.util
import re
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.facts.binary import cubin as cubin_module
from perfcli.facts.binary.cubin import (
    Binary,
    count_registers,
    find_tools,
    read_cubin,
    read_cubins,
    sections,
)

SOURCE = Path(__file__).parents[2] / "fixtures" / "triton_kernels.py"
Compile = Callable[..., Any]


def line_of(text: str, start: str = "") -> int:
    """1-based line of the first line with ``text``, from the line with ``start`` on."""
    lines = SOURCE.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if start in line)
    return next(i for i, line in enumerate(lines) if i >= first and text in line) + 1


@pytest.fixture(scope="module")
def tools() -> Path:
    triton = pytest.importorskip("triton")
    return find_tools(Path(triton.__file__).parent)


@pytest.fixture(scope="module", autouse=True)
def listed_once() -> Iterator[None]:
    """nvdisasm takes half a second to start: each file is listed once with the same options."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cubin_module, "_disassemble", functools.cache(cubin_module._disassemble))
        yield


@pytest.fixture(scope="module")
def build() -> Compile:
    """Compiles a kernel of the fixture file for an architecture that need not be there."""
    pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    spec = importlib.util.spec_from_file_location("triton_kernels", SOURCE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["triton_kernels"] = module
    spec.loader.exec_module(module)

    def run(name: str, pointers: str, constants: dict[str, int], arch: int = 90) -> Any:
        kernel = getattr(module, name)
        types = [t.strip() for t in pointers.split(",")]
        names = [a for a in kernel.arg_names if a not in constants]
        signature = dict(zip(names, types + ["i32"] * (len(names) - len(types)), strict=True))
        aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(names))}
        source = ASTSource(kernel, signature, constants, attrs=aligned)
        return compile(
            source,
            target=GPUTarget("cuda", arch, 32),
            options={"num_warps": 4, "debug": name == "angles"},
        )

    return run


@pytest.fixture(scope="module")
def spilling(build: Compile) -> Any:
    return build("spilling", "*fp32, *fp32, *fp32", {"R": 16, "B": 1024})


def disassemble(cubin: bytes, tools: Path, tmp_path: Path) -> str:
    """The listing of the other tool, with absolute branch targets and no line table."""
    path = tmp_path / "kernel.cubin"
    path.write_bytes(cubin)
    command = [str(tools / "cuobjdump"), "-sass", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def instructions(listing: str) -> dict[int, str]:
    """Address to opcode and operands."""
    found = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(?:@\S+\s+)?([A-Z][^;]*);", listing)
    return {int(address, 16): text.strip() for address, text in found}


@pytest.mark.torch
def test_a_copy_moves_whole_vectors(build: Compile, tools: Path) -> None:
    kernel = build("copy", "*bf16, *bf16", {"B": 1024})
    facts = read_cubin(kernel.asm["cubin"], tools, SOURCE.name)
    assert facts.global_loads == {"128": 1}
    assert facts.global_stores == {"128": 1}
    assert (facts.local_loads, facts.local_stores, facts.stack_bytes) == (0, 0, 0)
    assert facts.shared_bytes == 0


@pytest.mark.torch
@pytest.mark.parametrize(
    ("types", "width"), [("*i8, *i8", "8"), ("*fp16, *fp16", "16"), ("*fp32, *fp32", "32")]
)
def test_widths_of_single_elements(build: Compile, tools: Path, types: str, width: str) -> None:
    # 128 threads and 128 elements: one each.
    kernel = build("copy", types, {"B": 128})
    facts = read_cubin(kernel.asm["cubin"], tools, SOURCE.name)
    assert (facts.global_loads, facts.global_stores) == ({width: 1}, {width: 1})


@pytest.mark.torch
def test_counts_agree_with_the_other_tool(spilling: Any, tools: Path, tmp_path: Path) -> None:
    cubin = spilling.asm["cubin"]
    facts = read_cubin(cubin, tools, SOURCE.name)
    code = instructions(disassemble(cubin, tools, tmp_path))
    names = Counter(text.split(" ")[0].split(".")[0] for text in code.values())
    assert names["LDL"] > 0, "this kernel is here to spill"
    assert facts.local_loads == names["LDL"]
    assert facts.local_stores == names["STL"]
    assert sum(facts.global_loads.values()) == names["LDG"]
    assert sum(facts.global_stores.values()) == names["STG"]
    assert facts.instructions == len(code) - names["NOP"]


@pytest.mark.torch
def test_spills_inside_the_loop(spilling: Any, tools: Path, tmp_path: Path) -> None:
    cubin = spilling.asm["cubin"]
    facts = read_cubin(cubin, tools, SOURCE.name)
    code = instructions(disassemble(cubin, tools, tmp_path))
    # One loop, laid out in one piece: from the target of its backward branch to that branch.
    branches = {
        address: int(text.split()[-1], 16)
        for address, text in code.items()
        if text.startswith("BRA") and int(text.split()[-1], 16) < address
    }
    assert len(branches) == 1
    ((last, first),) = branches.items()
    inside = [text for address, text in code.items() if first <= address <= last]
    assert facts.local_loads_in_loops == sum(text.startswith("LDL") for text in inside)
    assert facts.local_stores_in_loops == sum(text.startswith("STL") for text in inside)
    assert 0 < facts.local_loads_in_loops < facts.local_loads


@pytest.mark.torch
def test_resources_are_those_of_the_tool(spilling: Any, tools: Path, tmp_path: Path) -> None:
    cubin = spilling.asm["cubin"]
    path = tmp_path / "kernel.cubin"
    path.write_bytes(cubin)
    command = [str(tools / "cuobjdump"), "-res-usage", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = read_cubin(cubin, tools, "kernel.py")
    assert f"REG:{found.registers} STACK:{found.stack_bytes} " in text
    assert count_registers(cubin) == found.registers
    assert found.stack_bytes > 0
    assert found.shared_bytes == 0, "the 1 KiB that the system reserves is not the kernel's"


@pytest.mark.torch
def test_lines(spilling: Any, tools: Path) -> None:
    """Every instruction of a line stands there, inlined functions on the line that calls them."""
    facts = read_cubin(spilling.asm["cubin"], tools, str(SOURCE), spilling.asm["ptx"])
    call = facts.lines[str(line_of("a = fetch"))]
    # 16 x 1024 elements by 128 threads, four at a time.
    assert call.global_loads == facts.lines[str(line_of("tl.load(w"))].global_loads == 32
    assert facts.lines[str(line_of("a * s + total"))].global_stores == 32
    assert str(line_of("return tl.load(pointer")) not in facts.lines
    rows = facts.lines.values()
    assert sum(row.global_loads for row in rows) == sum(facts.global_loads.values())
    assert sum(row.global_stores for row in rows) == sum(facts.global_stores.values())
    assert sum(row.local_loads for row in rows) == facts.local_loads
    assert sum(row.local_stores for row in rows) == facts.local_stores


@pytest.mark.torch
def test_lines_of_another_file_do_not_count(spilling: Any, tools: Path) -> None:
    assert read_cubin(spilling.asm["cubin"], tools, "other.py").lines == {}


@pytest.mark.torch
def test_asynchronous_copies_are_global_loads(build: Compile, tools: Path, tmp_path: Path) -> None:
    cubin = build("pipelined", "*fp16, *fp32, *fp32", {"B": 1024}).asm["cubin"]
    facts = read_cubin(cubin, tools, SOURCE.name)
    code = instructions(disassemble(cubin, tools, tmp_path)).values()
    copies = [text for text in code if text.startswith("LDGSTS")]
    wide = sum(text.startswith("LDGSTS.E.BYPASS.128") for text in copies)
    assert wide > 0
    assert facts.global_loads == {"128": wide, "32": len(copies) - wide}


@pytest.mark.torch
def test_tiles_by_tma(build: Compile, tools: Path) -> None:
    kernel = build("tiles", "*fp16, *fp16", {"B": 64})
    facts = read_cubin(kernel.asm["cubin"], tools, SOURCE.name, kernel.asm["ptx"])
    assert (facts.tma_loads, facts.tma_stores) == (1, 1)
    assert (facts.global_loads, facts.global_stores) == ({}, {})
    assert facts.lines[str(line_of("source.load"))].global_loads == 1
    assert facts.lines[str(line_of("target.store"))].global_stores == 1


@pytest.mark.torch
@pytest.mark.parametrize("arch", [80, 89, 90, 100, 120])
def test_architectures(build: Compile, tools: Path, arch: int) -> None:
    kernel = build("copy", "*bf16, *bf16", {"B": 1024}, arch)
    facts = read_cubin(kernel.asm["cubin"], tools, SOURCE.name, kernel.asm["ptx"])
    assert facts.global_loads == {"128": 1}
    assert 0 < facts.registers <= 64
    assert set(facts.lines) == {str(line_of("tl.store", start="def copy"))}


@pytest.fixture(scope="module")
def several(build: Compile, spilling: Any) -> list[Binary]:
    """Cubins with loops, inlined functions, local memory, relocations and calls, and their PTX."""
    kernels = [
        build("copy", "*bf16, *bf16", {"B": 1024}),
        spilling,
        build("copy", "*bf16, *bf16", {"B": 128}),
        build("pipelined", "*fp16, *fp32, *fp32", {"B": 1024}),
        build("tiles", "*fp16, *fp16", {"B": 64}),
        build("angles", "*fp32, *fp32", {"B": 512}),
    ]
    return [(kernel.asm["cubin"], SOURCE.name, kernel.asm["ptx"]) for kernel in kernels]


@pytest.mark.torch
@pytest.mark.parametrize("with_ptx", [True, False])
def test_what_is_read_at_once_is_what_each_is_alone(
    several: list[Binary],
    tools: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_ptx: bool,
) -> None:
    binaries = [(cubin, file, ptx if with_ptx else None) for cubin, file, ptx in several]
    alone = [read_cubin(cubin, tools, file, ptx) for cubin, file, ptx in binaries]
    run = cubin_module._run
    runs: list[str] = []

    def count(tool: Path, *arguments: str) -> str:
        runs.append(tool.name)
        return run(tool, *arguments)

    monkeypatch.setattr(cubin_module, "_run", count)
    assert read_cubins(binaries, tools) == alone
    assert runs.count("nvdisasm") == 1
    assert any(facts.local_loads_in_loops for facts in alone)
    assert any("CALL" in facts.sass for facts in alone)


@pytest.mark.torch
def test_what_cannot_share_a_file_is_read_apart(build: Compile, tools: Path) -> None:
    """Other architectures have another encoding."""
    kernels = [build("copy", "*bf16, *bf16", {"B": 1024}, arch) for arch in (80, 90, 80)]
    binaries = [(kernel.asm["cubin"], SOURCE.name, kernel.asm["ptx"]) for kernel in kernels]
    found = read_cubins(binaries, tools)
    assert found == [read_cubin(cubin, tools, file, ptx) for cubin, file, ptx in binaries]
    assert found[0] == found[2] != found[1]


@pytest.mark.torch
def test_the_listing_names_no_folders(spilling: Any, tools: Path) -> None:
    facts = read_cubin(spilling.asm["cubin"], tools, SOURCE.name, spilling.asm["ptx"])
    assert f"// {SOURCE.name}:{line_of('tl.load(w')}\n" in facts.sass
    assert str(SOURCE.parent) not in facts.sass
    assert len(re.findall(r"\bLDL\b", facts.sass)) == facts.local_loads


@pytest.mark.torch
def test_the_hash_is_that_of_the_code_alone(build: Compile, tools: Path) -> None:
    cubin = build("copy", "*bf16, *bf16", {"B": 1024}).asm["cubin"]
    wider = build("copy", "*fp32, *fp32", {"B": 1024}).asm["cubin"]
    renamed = cubin.replace(SOURCE.name.encode(), SOURCE.name.upper().encode())
    assert renamed != cubin

    def code_hash(binary: bytes) -> str:
        return read_cubin(binary, tools, SOURCE.name).code_hash

    assert code_hash(cubin) == code_hash(renamed) != code_hash(wider)


def write_tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_missing_tools(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match="expected nvdisasm and cuobjdump in"):
        find_tools(tmp_path)


def test_a_failing_tool(tmp_path: Path) -> None:
    write_tool(tmp_path, "cuobjdump", "echo no such thing >&2; exit 3")
    with pytest.raises(PerfcliError, match=r"cuobjdump cannot read .* \(exit status 3\)") as error:
        read_cubin(b"", tmp_path, "kernel.py")
    assert error.value.detail == "no such thing"


def test_a_tool_that_says_something_else(tmp_path: Path) -> None:
    write_tool(tmp_path, "cuobjdump", "echo hello")
    with pytest.raises(PerfcliError, match="expected REG, STACK and SHARED"):
        read_cubin(b"", tmp_path, "kernel.py")


def test_no_cubin() -> None:
    with pytest.raises(PerfcliError, match="expected a cubin"):
        sections(b"hello")
    with pytest.raises(PerfcliError, match="expected a whole cubin"):
        sections(b"\x7fELF\x02\x01" + b"\0" * 30)
