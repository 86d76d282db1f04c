"""What a candidate keeps of its cubin's facts, and what the cache keeps of a candidate."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from handmade import H100
from handmade_triton import KERNEL

pytest.importorskip("torch")

import perfcli
from perfcli.compile.binaries import binaries, cache
from perfcli.compile.binaries.binaries import (
    _add_unpipelined,
    _keep_text,
    _sign_files,
    key_caches_by_version,
)
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.binaries.candidate import (
    LINE_CHARACTERS,
    _add_text,
    candidate_of,
    refused_candidate,
)
from perfcli.compile.capture.definition import Definition
from perfcli.facts.binary.cubin import BinaryFacts
from perfcli.model import Candidate, LineCounts

pytestmark = pytest.mark.torch


def test_tiles_are_kept() -> None:
    facts = BinaryFacts(
        registers=32,
        stack_bytes=0,
        shared_bytes=0,
        instructions=9,
        local_loads=0,
        local_stores=0,
        local_loads_in_loops=0,
        local_stores_in_loops=0,
        global_loads={},
        global_stores={},
        tma_loads=3,
        tma_stores=2,
    )
    kernel = SimpleNamespace(metadata=SimpleNamespace(shared=0), asm={"ptx": ""})
    config = SimpleNamespace(kwargs={}, num_warps=4, num_stages=1)
    result = SimpleNamespace(kernel=kernel, config=config)
    candidate = candidate_of(result, facts, H100, "")
    assert (candidate.tma_loads, candidate.tma_stores) == (3, 2)


def test_lines_that_spill_have_their_text() -> None:
    source = f"first\n    tmp0 = tl.load(in_ptr0)  \n{'x' * 500}\nlast"
    lines = {
        "1": LineCounts(global_loads=1),
        "2": LineCounts(local_loads=3),
        "3": LineCounts(local_stores=1),
        "9": LineCounts(local_stores=1),  # not of this text
    }
    texts = {line: counts.text for line, counts in _add_text(lines, source).items()}
    assert texts == {"1": "", "2": "tmp0 = tl.load(in_ptr0)", "3": "x" * LINE_CHARACTERS, "9": ""}
    assert _add_text(lines, source)["2"].local_loads == 3


def test_a_refused_configuration_says_why() -> None:
    config = SimpleNamespace(kwargs={"XBLOCK": 4}, num_warps=8, num_stages=1)
    candidate = refused_candidate(config, "ValueError: too large\nand more")
    assert (candidate.config, candidate.num_warps) == ({"XBLOCK": 4}, 8)
    assert (candidate.registers, candidate.error) == (None, "ValueError: too large")


def test_the_cache_gives_back_what_it_got(tmp_path: Path) -> None:
    lines = {"7": LineCounts(1, 2, 3, 4, "tmp0 = tmp1")}
    candidate = Candidate({"XBLOCK": 1}, 4, 1, registers=32, lines=lines, ptx="name")
    compiled = Compiled((candidate,), {"name": "packed"}, alternatives=(candidate, candidate))
    cache.write(tmp_path / "a" / "entry", compiled)
    assert cache.read(tmp_path / "a" / "entry") == compiled
    assert cache.read(tmp_path / "none") is None


def test_an_older_entry_of_what_does_not_fit_is_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, small = tmp_path / "over", tmp_path / "small"
    over = Compiled((Candidate({}, 4, 3, registers=32, blocks_per_sm=0),), {})
    fits = Compiled((Candidate({}, 4, 3, registers=32, blocks_per_sm=1),), {})
    cache.write(entry, over)
    assert cache.read(entry) == over
    cache.write(small, fits)
    monkeypatch.setattr(cache, "REVISION", cache.REVISION + 1)
    assert cache.read(entry) is None
    assert cache.read(small) == fits


class Tuner:
    """``CachingAutotuner`` as torch 2.13 has it, as far as it is asked."""

    def __init__(self, *results: Any, retries: bool = True) -> None:
        self.compile_results = list(results)
        self.inductor_meta = {"dynamic_disable_pipelining": retries}

    def compile_by_disabling_pipelining(self, config: Any) -> None:
        raise NotImplementedError

    def _precompile_config(self, config: Any) -> Any:
        return compiled(0, config.num_stages, **config.kwargs)


def compiled(shared: int, stages: int, **kwargs: int) -> Any:
    config = SimpleNamespace(kwargs=kwargs, num_warps=4, num_stages=stages)
    kernel = SimpleNamespace(metadata=SimpleNamespace(shared=shared))
    return SimpleNamespace(config=config, kernel=kernel)


OVER = H100.shared_bytes_per_block_optin + 1


def test_the_last_that_does_not_fit_loses_its_pipeline() -> None:
    tuner = Tuner(compiled(OVER, 4, XBLOCK=8), compiled(OVER, 3, XBLOCK=4, NUM_STAGES=3))
    _add_unpipelined(tuner, H100)
    *_, again = tuner.compile_results
    assert len(tuner.compile_results) == 3
    assert (again.config.kwargs, again.config.num_stages) == ({"XBLOCK": 4, "NUM_STAGES": 1}, 1)
    assert tuner.compile_results[1].config.num_stages == 3


@pytest.mark.parametrize(
    "tuner",
    [
        Tuner(compiled(OVER, 3), compiled(OVER - 1, 3)),  # one fits
        Tuner(compiled(OVER, 3), compiled(OVER, 1)),  # the last has no pipeline
        Tuner(compiled(OVER, 3), retries=False),
    ],
)
def test_no_second_try(tuner: Tuner) -> None:
    before = list(tuner.compile_results)
    _add_unpipelined(tuner, H100)
    assert tuner.compile_results == before


def test_torch_before_2_13_does_not_try_again() -> None:
    given = Tuner(compiled(OVER, 3))
    old = SimpleNamespace(compile_results=given.compile_results, inductor_meta={})
    _add_unpipelined(old, H100)
    assert len(old.compile_results) == 1


@pytest.mark.parametrize("launched_by", ["triton", "inductor"])
def test_what_is_compiled_ahead_has_the_configurations_that_follow_from_registers(
    monkeypatch: pytest.MonkeyPatch, launched_by: str
) -> None:
    """Which Inductor adds once the driver has loaded the first ones: else it compiles them then."""

    class Tuner:
        def __init__(self) -> None:
            self.compile_results: list[Any] = []

        def precompile(self, warm_cache_only: bool) -> None:
            assert warm_cache_only
            small, large = SimpleNamespace(shared=0), SimpleNamespace(shared=1 << 30)
            if launched_by == "triton":
                kernels = [
                    SimpleNamespace(metadata=m, asm={"cubin": b"96"}) for m in (small, large)
                ]
            else:
                kernels = [SimpleNamespace(**vars(m), cubin_raw=b"96") for m in (small, large)]
            self.compile_results += [SimpleNamespace(kernel=kernel) for kernel in kernels]

        def _dynamic_scale_rblock(self) -> None:
            registers = [result.kernel.n_regs for result in self.compile_results]
            assert registers == [96, None]  # the driver refuses the second
            self.compile_results.append("scaled")

    target, definition = H100, Definition("double", "triton", "", "reduction")
    kernel = binaries._Kernel(Tuner(), "", "", target)
    monkeypatch.setattr(binaries, "_load", lambda *_: kernel)
    monkeypatch.setattr(binaries, "count_registers", int)
    found = binaries.keep_binaries(definition, target)
    assert [len(found), found[-1]] == [3, "scaled"]


def test_no_process_reads_all_of_triton_and_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes as long as the code of two kernels, and half a gigabyte."""
    import torch
    import triton
    from torch._inductor import codecache
    from triton.runtime import cache as cache_of_triton

    def read_all() -> None:
        raise AssertionError("all files were read")

    monkeypatch.setattr(cache_of_triton, "triton_key", read_all)
    monkeypatch.setattr(codecache, "torch_key", read_all)
    key_caches_by_version()
    part = SimpleNamespace(hash=lambda: "part")
    key = cache_of_triton.get_cache_key(part, part, part, {})  # as triton.compile asks
    assert key.startswith(triton.__version__)
    assert codecache.torch_key() == torch.__version__.encode()


def test_what_a_kernels_text_says_of_triton_is_read_once(tmp_path: Path) -> None:
    """For all processes of this installation, as long as its files are the same."""
    made: list[str] = []

    def read_all() -> str:
        made.append("read")
        return "3.6.0-abc"

    for _ in range(2):  # as in two processes
        assert _keep_text(tmp_path / "keys" / "files", read_all) == "3.6.0-abc"
        _keep_text.cache_clear()
    assert made == ["read"]
    (tmp_path / "keys" / "files").unlink()
    (tmp_path / "keys").rmdir()
    (tmp_path / "keys").write_text("no folder can be made here")
    assert _keep_text(tmp_path / "keys" / "files", read_all) == "3.6.0-abc"


def test_what_imported_the_key_of_torch_has_the_short_one_too() -> None:
    """A kernel is loaded by it."""
    import torch
    from torch._inductor import async_compile

    key: Any = async_compile.torch_key
    try:
        key_caches_by_version()
        assert key() == torch.__version__.encode()
        key_caches_by_version()  # again, in a fork
        assert key() == torch.__version__.encode()
    finally:
        key.clear()


def test_releases_of_one_number_differ_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "backends").mkdir()
    file = tmp_path / "backends" / "compiler.py"
    file.write_text("old")
    os.utime(file, ns=(10**18, 10**18))
    before = _sign_files(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "compiler.pyc").write_text("written when it is imported")
    assert _sign_files(tmp_path) == before
    os.utime(file, ns=(10**18 + 1, 10**18 + 1))
    assert _sign_files(tmp_path) != before
    os.utime(file, ns=(10**18, 10**18))
    file.write_text("newer")
    os.utime(file, ns=(10**18, 10**18))
    assert _sign_files(tmp_path) != before


HANDED_OVER = """
import os, shutil, sys
from pathlib import Path
from perfcli.compile import session
from perfcli.machine import environment, targets

cache_dir, target = Path(sys.argv[1]), targets.get("h200")
keep = session.import_for_target(target, environment.cache_dir())
from torch._inductor import config
from torch._inductor.codecache import PyCodeCache
from torch._inductor.async_compile import _load_triton_kernel_from_source
from perfcli.compile.binaries import binaries
from perfcli.compile.capture.definition import Definition

source, kept = Path(sys.argv[2]).read_text(), cache_dir / "triton"
static = config.use_static_cuda_launcher
DEFINITION = Definition("double", "triton", source, "pointwise")

def compile_for_a_report():
    PyCodeCache.cache_clear()  # as in a process that never saw the kernel
    config.use_static_cuda_launcher = static
    binaries.prepare_process(print)
    (made,) = binaries.compile_kernels([DEFINITION], target, cache_dir)
    assert made.candidates and not made.error, made.error
    return {path.name for path in kept.iterdir()}

def load_to_be_measured():
    PyCodeCache.cache_clear()
    config.use_static_cuda_launcher = static
    _load_triton_kernel_from_source("double", source).precompile(warm_cache_only=True)
    return {path.name for path in kept.iterdir()}

made = compile_for_a_report()
assert load_to_be_measured() == made, "something was compiled again"
shutil.rmtree(kept)
assert compile_for_a_report() == made, "what a report knows is not there to be measured"
print(len(made) > 0)
"""


def test_what_is_compiled_for_a_report_is_loaded_to_be_measured(tmp_path: Path) -> None:
    (tmp_path / "handed.py").write_text(HANDED_OVER)
    (tmp_path / "kernel.txt").write_text(KERNEL)
    places = {
        "PYTHONPATH": str(Path(perfcli.__file__).parents[1]),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }
    done = subprocess.run(
        [sys.executable, str(tmp_path / "handed.py"), str(tmp_path), str(tmp_path / "kernel.txt")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **places},
    )
    assert done.stdout == "True\n", done.stderr
