"""Triton's cache: binaries grouped to kernels, those of other devices and broken ones left out.

What stands in a binary is tested with real ones in ``tests/unit/facts/test_binary.py``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perfcli.blobs import unpack
from perfcli.errors import PerfcliError
from perfcli.facts.binary.cubin import Binary, BinaryFacts
from perfcli.importing.sources import triton_cache
from perfcli.importing.sources.triton_cache import describe_binaries, read_triton_cache
from perfcli.machine import targets

H100 = targets.get("h100")
TTIR = '#loc = loc("/home/user/{file}.py":17:0)\nmodule {{}}\n'
FACTS = BinaryFacts(40, 8, 0, 1, 2, 0, 0, {"128": 3}, {"32": 1}, 0, 0, 100, sass="code")


def write(
    folder: Path, name: str, *, file: str = "cabc", entry: str = "A", **metadata: Any
) -> Path:
    place = folder / entry
    place.mkdir(parents=True)
    described = {
        "name": name,
        "target": {"backend": "cuda", "arch": 90, "warp_size": 32},
        "num_warps": 4,
        "num_stages": 1,
        "shared": 2048,
        "triton_version": "3.6.0",
        **metadata,
    }
    (place / f"{name}.json").write_text(json.dumps(described))
    (place / f"{name}.cubin").write_bytes(b"\x7fELF" + entry.encode())
    (place / f"{name}.ttir").write_text(TTIR.format(file=file))
    (place / f"{name}.ptx").write_text(".version 8.7")
    return place


@pytest.fixture(autouse=True)
def facts(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(binaries: Sequence[Binary], tools: Path) -> list[BinaryFacts]:
        if any(cubin.endswith(b"bad") for cubin, _, _ in binaries):
            raise PerfcliError("nvdisasm failed")
        return [FACTS] * len(binaries)

    monkeypatch.setattr(triton_cache, "read_cubins", read)


def test_configurations_of_one_source_are_one_kernel(tmp_path: Path) -> None:
    write(tmp_path, "triton_poi_0", entry="A")
    write(tmp_path, "triton_poi_0", entry="B", num_warps=8)
    write(tmp_path, "triton_poi_0", entry="C", file="cxyz")
    found = read_triton_cache(tmp_path)
    assert found.triton == "3.6.0"
    kernels, blobs, notes = describe_binaries(found.binaries, "inference 0", H100, tmp_path)
    assert [(k.name, [c.num_warps for c in k.candidates]) for k in kernels] == [
        ("triton_poi_0", [4, 8]),
        ("triton_poi_0", [4]),
    ]
    candidate = kernels[0].candidates[0]
    assert (candidate.registers, candidate.spilled_words, candidate.shared_bytes) == (40, 2, 2048)
    assert candidate.sass is not None
    assert unpack(blobs[candidate.sass]) == "code"
    assert unpack(blobs[kernels[0].source]).startswith('#loc = loc("cabc.py":17:0)')
    assert notes == []


def test_binaries_for_another_device_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "k", entry="A")
    write(tmp_path, "k", entry="B", target={"backend": "cuda", "arch": 80})
    found = read_triton_cache(tmp_path)
    kernels, _, notes = describe_binaries(found.binaries, "inference 0", H100, tmp_path)
    assert [len(kernel.candidates) for kernel in kernels] == [1]
    assert notes == ["1 binary for another GPU than h100 left out"]


def test_a_binary_that_can_not_be_read_takes_no_other_with_it(tmp_path: Path) -> None:
    write(tmp_path, "k", entry="A")
    write(tmp_path, "k", entry="bad")
    found = read_triton_cache(tmp_path)
    kernels, _, notes = describe_binaries(found.binaries, "inference 0", H100, tmp_path)
    assert [len(kernel.candidates) for kernel in kernels] == [1]
    assert notes == ["bad/k.cubin: nvdisasm failed"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"target": None}, {"target": {"arch": "gfx942"}}, {"target": {"arch": -1}},
        {"num_warps": "4"}, {"shared": None}, {"shared": 1 << 40}, {"num_warps": True},
    ],
)  # fmt: skip
def test_descriptions_that_make_no_sense_are_counted(
    tmp_path: Path, metadata: dict[str, Any]
) -> None:
    write(tmp_path, "k", **metadata)
    found = read_triton_cache(tmp_path)
    assert found.binaries == ()
    assert "1 binary can't be read" in found.notes


def test_junk_is_counted(tmp_path: Path) -> None:
    (write(tmp_path, "a", entry="A") / "a.cubin").write_bytes(b"no ELF")
    (write(tmp_path, "b", entry="B") / "b.json").write_text("{" * 10_000)
    found = read_triton_cache(tmp_path)
    assert found.binaries == ()
    assert "2 binaries can't be read" in found.notes
