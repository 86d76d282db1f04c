"""Whatever a file holds, importing it gives a run that can be stored and read, or one clear
error."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from handmade_trace import TraceWriter, training_step

from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.importing.bringing import ImportOptions, bring_in_all
from perfcli.storing import runfile

TOKENS = (
    b"NaN", b"-1", b"1e999", b"null", b'"x"', b"[]", b"{}", b"99999999999999999999999",
    b"\xff\xfe", b"\x00", b'"', b"}", b",", b'{"ph":',
)  # fmt: skip
TEXT = TraceWriter(training_step(), steps=3).text().encode()


def damage(data: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.choice([1, 2, 5, 30])):
        place, kind = chance.randrange(len(data)), chance.random()
        if kind < 0.3:
            data[place] = chance.randrange(256)
        elif kind < 0.5:
            del data[place : place + chance.randrange(1, 200)]
        elif kind < 0.8:
            data[place : place + chance.randrange(6)] = chance.choice(TOKENS)
        else:
            other = chance.randrange(len(data))
            data[place:place] = data[other : other + chance.randrange(1, 500)]
    return bytes(data)


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_trace_is_a_run_or_an_error(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(damage(bytearray(TEXT), random.Random(seed)))
    try:
        (bundle,) = bring_in_all([[path]], ImportOptions(), Notes(quiet=True))
    except PerfcliError as error:
        assert "\n" not in str(error)
        return
    stored = tmp_path / "run.json"
    runfile.write(bundle, stored)
    assert runfile.read(stored).observed == bundle.run.observed
