"""AMD's assembly and code objects, put together by hand as triton 3.7 writes them for gfx942."""

from __future__ import annotations

import struct

import pytest

from perfcli.errors import PerfcliError
from perfcli.facts.binary.hsaco import read_hsaco

METADATA = """\
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           4
        .vgpr_count:     1
    .group_segment_fixed_size: 512
    .kernarg_segment_align: 8
    .max_flat_workgroup_size: 256
    .name:           row_sum
    .private_segment_fixed_size: 24
    .sgpr_count:     24
    .sgpr_spill_count: 0
    .symbol:         row_sum.kd
    .uses_dynamic_stack: false
    .vgpr_count:     62
    .vgpr_spill_count: 5
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
"""
ASSEMBLY = """\
row_sum:
	global_load_dwordx4 v[0:3], v8, s[2:3]
	global_load_dwordx4 v[4:7], v8, s[2:3] offset:16
	buffer_load_dwordx2 v[0:1], v8, s[0:3], 0 offen
	buffer_load_dword v9, v8, s[0:3], 0 offen
	global_load_ushort v9, v8, s[2:3]
	global_load_short_d16_hi v9, v8, s[2:3]
	global_load_ubyte v9, v8, s[2:3]
	scratch_load_dword v1, off, off
	scratch_store_dword off, v1, off
	scratch_store_dwordx2 off, v[1:2], off
	global_store_dwordx3 v8, v[0:2], s[2:3]
	ds_read_b128 v[0:3], v4
"""


CODE = b"code"


def elf(sections: dict[str, bytes]) -> bytes:
    """A 64-bit little-endian ELF file with these sections and their names."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in [*sections, ".shstrtab"])
    bodies = [*sections.items(), (".shstrtab", names)]
    body, headers = b"", [b"\0" * 64]
    for name, data in bodies:
        place = names.index(name.encode() + b"\0")
        header = struct.pack("<IIQQQQIIQQ", place, 1, 0, 0, 64 + len(body), len(data), 0, 0, 1, 0)
        headers.append(header)
        body += data
    start = b"\x7fELF\x02\x01".ljust(16, b"\0") + b"\0" * 24
    start += struct.pack("<Q", 64 + len(body)) + b"\0" * 10
    start += struct.pack("<HHH", 64, len(headers), len(headers) - 1)
    return start + body + b"".join(headers)


def code_object(text: bytes = CODE) -> bytes:
    return elf({".text": text})


def test_resources_are_those_of_the_metadata() -> None:
    facts = read_hsaco(code_object(), ASSEMBLY + METADATA)
    assert (facts.vector_registers, facts.scalar_registers) == (62, 24)
    assert (facts.spilled_words, facts.stack_bytes, facts.shared_bytes) == (5, 24, 512)


def test_memory_instructions_are_counted_by_width() -> None:
    facts = read_hsaco(code_object(), ASSEMBLY + METADATA)
    assert facts.global_loads == {"128": 2, "64": 1, "32": 1, "16": 2, "8": 1}
    assert facts.global_stores == {"96": 1}
    assert (facts.local_loads, facts.local_stores) == (1, 2)


def test_the_hash_is_that_of_the_code_alone() -> None:
    one, other, third = (
        read_hsaco(code_object(text), metadata).code_hash
        for text, metadata in (
            (CODE, METADATA),
            (CODE, METADATA.replace("row_sum", "another")),
            (b"edoc", METADATA),
        )
    )
    assert one == other != third


@pytest.mark.parametrize(
    "broken",
    [
        "",
        METADATA.replace("    .vgpr_count:     62\n", ""),
        METADATA.replace(
            "amdhsa.target", "  - .vgpr_count: 1\n    .vgpr_count:     63\namdhsa.target"
        ),
        METADATA.replace(".end_amdgpu_metadata", ""),
    ],
)
def test_an_assembly_without_one_kernels_metadata_is_refused(broken: str) -> None:
    with pytest.raises(PerfcliError, match="metadata of one kernel") as raised:
        read_hsaco(code_object(), ASSEMBLY + broken)
    assert ".vgpr_count" in raised.value.detail
