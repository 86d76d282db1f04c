"""AMD code objects, put together by hand as LLVM's AMDGPU user guide describes them."""

from __future__ import annotations

import struct

import msgspec
import pytest

from perfcli.errors import PerfcliError
from perfcli.facts.binary.hsaco import read_hsaco

KERNEL = {
    ".name": "row_sum",
    ".vgpr_count": 62,
    ".agpr_count": 0,
    ".sgpr_count": 24,
    ".vgpr_spill_count": 5,
    ".sgpr_spill_count": 0,
    ".private_segment_fixed_size": 24,
    ".group_segment_fixed_size": 512,
    ".uses_dynamic_stack": False,
}

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


def code_object(metadata: object, kind: int = 32, text: bytes = b"code") -> bytes:
    content = msgspec.msgpack.encode(metadata)
    padded = content + b"\0" * (-len(content) % 4)
    other = struct.pack("<III", 4, 4, 1) + b"GNU\0" + b"abcd"
    note = other + struct.pack("<III", 7, len(content), kind) + b"AMDGPU\0\0" + padded
    return elf({".note": note, ".text": text})


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


def test_resources_are_those_of_the_note() -> None:
    facts = read_hsaco(code_object({"amdhsa.kernels": [KERNEL]}), ASSEMBLY)
    assert (facts.vector_registers, facts.scalar_registers) == (62, 24)
    assert (facts.spilled_words, facts.stack_bytes, facts.shared_bytes) == (5, 24, 512)


def test_memory_instructions_are_counted_by_width() -> None:
    facts = read_hsaco(code_object({"amdhsa.kernels": [KERNEL]}), ASSEMBLY)
    assert facts.global_loads == {"128": 2, "64": 1, "32": 1, "16": 2, "8": 1}
    assert facts.global_stores == {"96": 1}
    assert (facts.local_loads, facts.local_stores) == (1, 2)


def test_the_hash_is_that_of_the_code_alone() -> None:
    renamed = {**KERNEL, ".name": "another"}
    one, other, third = (
        read_hsaco(code_object({"amdhsa.kernels": [kernel]}, text=text), "").code_hash
        for kernel, text in ((KERNEL, b"code"), (renamed, b"code"), (KERNEL, b"edoc"))
    )
    assert one == other != third


@pytest.mark.parametrize(
    "broken",
    [
        code_object({"amdhsa.kernels": [KERNEL]}, kind=31),
        code_object({"amdhsa.kernels": [KERNEL, KERNEL]}),
        code_object({"amdhsa.version": [1, 2]}),
        code_object("nothing"),
    ],
)
def test_a_file_without_one_kernels_metadata_is_refused(broken: bytes) -> None:
    with pytest.raises(PerfcliError, match="metadata of one kernel"):
        read_hsaco(broken, "")
