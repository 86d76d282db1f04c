"""Holds the sectors that perfcli counts for each load and store against those that Nsight Compute
counts on a GPU, instruction by instruction.

    python bench/sectors_on_device.py compile --runs FOLDER [--python P] [--at-once N]
    python bench/sectors_on_device.py measure --runs FOLDER --out FOLDER     (on the GPU, with ncu)
    python bench/sectors_on_device.py join --runs FOLDER --out FOLDER        (what it left, again)
    python bench/sectors_on_device.py table FOLDER/sectors.json

``compile`` compiles the models without a GPU. ``measure`` launches the expected configuration of
each of their kernels once, through Inductor's own launcher, under ``ncu``, and joins what it
counted to the source's lines by the place of each instruction in the machine code. Index tensors
are full of zeros, so that indirect accesses stay in bounds; they are left out of the result.
Ends with 1 where fewer than 95 % of the other accesses are within 5 %.
"""

from __future__ import annotations

import argparse
import copy
import csv
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perfcli.blobs import unpack
from perfcli.errors import PerfcliError
from perfcli.facts.binary.sass import Listing, parse_annotated
from perfcli.machine import targets
from perfcli.model import Candidate, KernelFacts, Scalar, Variant
from perfcli.predict.step import estimate_run
from perfcli.storing import runfile
from perfcli.worker.process import compile_in_process
from perfcli.workflow.request import build_request

HERE = Path(__file__).parent
MODELS = HERE / "estimate_models.py"
STRIDES = HERE / "strided_models.py"
_TOLERANCE, _SHARE = 0.05, 0.95
_SECONDS = 1800
_MOST_OF_A_MODEL = 20
"""Kernels: ncu runs each several times, one pass for each group of counters."""


@dataclass(frozen=True, slots=True)
class _Case:
    """Names a model and the options that it is compiled with."""

    name: str
    scenario: str
    params: Mapping[str, Scalar]
    options: Mapping[str, Any]


def _list_cases() -> Iterator[_Case]:
    training: dict[str, Scalar] = {"mode": "training"}
    gqa: dict[str, Scalar] = {"layers": 2, "batch": 2, **training}
    yield _Case("gqa-transformer", "gqa-transformer", gqa, {})
    yield _Case("cross-entropy", "cross-entropy", {"rows": 1024, **training}, {})
    yield _Case("softmax", "softmax", {"rows": 512, "columns": 50257, **training}, {})
    yield _Case("layernorm", "layernorm", {"rows": 4096, "columns": 4096, **training}, {})
    sizes: Mapping[str, Mapping[str, Scalar]] = {
        "convnext": {"batch": 2},
        "layerscale": {"batch": 2},
        "experts": {"tokens": 1024},
        "decoder": {"batch": 1},
        "graph": {"nodes": 2000, "edges": 16000},
        "relative": {"batch": 1},
    }
    for name, params in sizes.items():
        yield _Case(name, f"{MODELS}:{name}", params, {})
    plain = {"triton.coalesce_tiling_analysis": False}
    for name in ("strided", "selected", "transposed", "blocked", "scaled", "upsampled"):
        yield _Case(name, f"{STRIDES}:{name}", {}, {})
        yield _Case(f"{name}-untiled", f"{STRIDES}:{name}", {}, plain)


# --- without a GPU ---------------------------------------------------------------------------


def _compile(arguments: argparse.Namespace) -> int:
    arguments.runs.mkdir(parents=True, exist_ok=True)
    wanted = [case for case in _list_cases() if arguments.only in case.name]
    with ThreadPoolExecutor(arguments.at_once) as pool:
        for line in pool.map(lambda case: _compile_case(case, arguments), wanted):
            print(line, flush=True)
    return 0


def _compile_case(case: _Case, arguments: argparse.Namespace) -> str:
    path = arguments.runs / f"{case.name}.json"
    if path.exists():
        return f"{case.name}: there"
    request = build_request(
        case.scenario,
        Variant(case.name, case.options, python=arguments.python),
        params=case.params,
        target=targets.get(arguments.target),
        jobs=arguments.jobs,
    )
    try:
        bundle = compile_in_process(request, _SECONDS)
    except PerfcliError as error:
        return f"{case.name}: {error}"
    runfile.write(bundle, path)
    return f"{case.name}: {len(bundle.run.kernels)} kernels"


# --- on the GPU ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Holds a kernel with the configuration that is launched, and its texts."""

    run: str
    number: int
    kernel: KernelFacts
    candidate: Candidate
    source: str
    listing: Listing
    file: str


def _list_chosen(folder: Path) -> Iterator[_Chosen]:
    """Yield kernels whose sectors were counted, the same source once, some of each model."""
    seen: set[str] = set()
    for path in sorted(folder.glob("*.json")):
        run, blobs = estimate_run(runfile.read(path)), runfile.read_blobs(path)
        taken = 0
        for number, kernel in enumerate(run.kernels):
            candidate = kernel.shown
            if candidate is None or candidate.work is None or kernel.source_hash in seen:
                continue
            if candidate.sass is None or candidate.ttgir is None or taken == _MOST_OF_A_MODEL:
                continue
            seen.add(kernel.source_hash)
            taken += 1
            place = re.search(r'#loc = loc\("([^"]*)"', unpack(blobs[candidate.ttgir]))
            yield _Chosen(
                path.stem,
                number,
                kernel,
                candidate,
                unpack(blobs[kernel.source]),
                parse_annotated(unpack(blobs[candidate.sass])),
                Path(place[1]).name if place else "",
            )


def _replay(arguments: argparse.Namespace) -> int:
    """Launch each kernel once, and write which ones were, in this order; as one of ``--of``
    processes, compile a share of them, and launch none."""
    import torch

    launched: list[tuple[str, int]] = []
    failed: list[str] = []
    folder = arguments.out.parent / "replayed"
    folder.mkdir(parents=True, exist_ok=True)
    for place, chosen in enumerate(_list_chosen(arguments.runs)):
        if arguments.of and place % arguments.of != arguments.share:
            continue
        try:
            tuner = _load(chosen, folder)
            if not arguments.of:
                _launch(tuner, chosen.kernel, torch)
                launched.append((chosen.run, chosen.number))
        except Exception as error:  # whatever goes wrong with one, the others are measured
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            failed.append(f"{chosen.run} {chosen.kernel.name}: {reason}")
        torch.cuda.empty_cache()
    if not arguments.of:
        arguments.out.write_text(json.dumps({"launched": launched, "failed": failed}))
    return 0


def _load(chosen: _Chosen, folder: Path) -> Any:
    """Return Inductor's launcher of the one configuration, compiled. Raises LookupError where it
    does not have it."""
    candidate = chosen.candidate
    name = f"replayed_{chosen.run}_{chosen.number}".replace("-", "_")
    path = folder / f"{name}.py"
    path.write_text(chosen.source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tuner = next(
        value for value in vars(module).values() if type(value).__name__.endswith("Autotuner")
    )
    wanted = [config for config in tuner.configs if _is_same(config, candidate)]
    if not wanted:  # one that Inductor adds when it has seen the others' registers
        wanted = [copy.copy(tuner.configs[0])]
        wanted[0].kwargs = dict(candidate.config)
        wanted[0].num_warps, wanted[0].num_stages = candidate.num_warps, candidate.num_stages
    tuner.configs = wanted[:1]
    tuner.precompile()
    # It may have added configurations of its own, and would time them all.
    tuner.launchers = [each for each in tuner.launchers if _is_same(each.config, candidate)][:1]
    if not tuner.launchers:
        raise LookupError(f"none of its launchers has {dict(candidate.config)}")
    return tuner


def _launch(tuner: Any, kernel: KernelFacts, torch: Any) -> None:
    buffers = {buffer.argument: buffer for buffer in kernel.buffers}
    numbers = {f"{axis}numel": size for axis, size in kernel.sizes.items()} | dict(kernel.scalars)
    given: list[Any] = []
    for argument, kind in tuner.triton_meta["signature"].items():
        if kind == "constexpr":
            continue
        if argument in buffers:
            given.append(_make_tensor(buffers[argument], torch))
        elif kind.startswith("*"):
            raise LookupError(f"the buffer of {argument} is not known")
        else:
            given.append(numbers[argument])
    torch.cuda.synchronize()
    tuner.run(*given, stream=torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()


def _is_same(config: Any, candidate: Candidate) -> bool:
    same = all(config.kwargs.get(name) == size for name, size in candidate.config.items())
    return (
        same
        and config.num_warps == candidate.num_warps
        and config.num_stages == candidate.num_stages
    )


def _make_tensor(buffer: Any, torch: Any) -> Any:
    pairs = zip(buffer.shape, buffer.stride, strict=True)
    extent = 1 + sum((size - 1) * abs(stride) for size, stride in pairs if size)
    return torch.zeros(extent, dtype=getattr(torch, buffer.dtype), device="cuda")


_METRICS = (
    "inst_executed",
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
)


def _measure(arguments: argparse.Namespace) -> int:
    arguments.out.mkdir(parents=True, exist_ok=True)
    report, order = arguments.out / "sectors.ncu-rep", arguments.out / "launched.json"
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(arguments.out / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(arguments.out / "inductor"),
    }
    replay = [sys.executable, __file__, "replay", "--runs", str(arguments.runs)]
    replay += ["--out", str(order)]
    several = max(1, min(14, len(os.sched_getaffinity(0)) - 2))
    ahead = [
        subprocess.Popen([*replay, "--share", str(n), "--of", str(several)], env=environment)
        for n in range(several)
    ]
    for process in ahead:
        process.wait()
    command = [
        "ncu", "--clock-control", "none", "--cache-control", "none", "-k", "regex:^triton_",
        "--metrics", ",".join(_METRICS), "-f", "-o", str(report.with_suffix("")),
        *replay,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    print("\n".join((done.stdout + done.stderr).strip().splitlines()[-5:]), flush=True)
    if not order.exists() or not report.exists():
        print("nothing was profiled")
        return 2
    for page, more in (("raw", ()), ("source", ("--print-source", "sass"))):
        shown = ["ncu", "--import", str(report), "--page", page, "--csv", *more]
        with (arguments.out / f"{page}.csv").open("w") as file:
            subprocess.run(shown, stdout=file, check=True)
    return _join_all(arguments)


def _join_all(arguments: argparse.Namespace) -> int:
    """Join what ``measure`` left in ``--out`` with the runs; the table is shown."""
    said = json.loads((arguments.out / "launched.json").read_text())
    chosen = {(each.run, each.number): each for each in _list_chosen(arguments.runs)}
    launched = [chosen[run, number] for run, number in said["launched"]]
    actions = list(_read_actions(arguments.out))
    rows: list[dict[str, Any]] = []
    problems = [*said["failed"]]
    if len(actions) != len(launched):
        problems.append(f"{len(launched)} kernels were launched, {len(actions)} profiled")
    for each, action in zip(launched, actions, strict=False):
        try:
            rows += _join(each, action)
        except (PerfcliError, LookupError, ValueError) as error:
            problems.append(f"{each.run} {each.kernel.name}: {error}")
    document = {"accesses": rows, "problems": problems}
    (arguments.out / "sectors.json").write_text(json.dumps(document, indent=1))
    return _show(document)


@dataclass(frozen=True, slots=True)
class _Action:
    """Holds what ncu counted for one launch: of the whole kernel, and by address."""

    name: str
    totals: Mapping[str, float]
    by_address: Mapping[int, Mapping[str, float]]
    code: Mapping[int, str]
    """Address to the text of its instruction."""


def _read_actions(folder: Path) -> Iterator[_Action]:
    """Yield the launches of ``raw.csv``, a row each behind one of units, and ``source.csv``, a part
    each with the name, a header and the instructions."""
    with (folder / "raw.csv").open(newline="") as file:
        totals = list(csv.DictReader(file))[1:]
    with (folder / "source.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    starts = [n for n, row in enumerate(rows) if row[:1] == ["Kernel Name"]]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(rows)], strict=True)):
        header, *instructions = rows[start + 1 : end]
        named = [dict(zip(header, row, strict=False)) for row in instructions if len(row) > 1]
        yield _Action(
            rows[start][1],
            {name: _number(totals[number].get(name, "")) for name in _METRICS},
            {int(e["Address"], 16): {n: _number(e[n]) for n in _METRICS[:3]} for e in named},
            {int(e["Address"], 16): e["Source"] for e in named},
        )


def _number(text: str) -> float:
    return float(text.replace(",", "") or 0)


_KINDS = {"LDG": "load", "LD": "load", "LDGSTS": "load", "STG": "store", "ST": "store"}
_ATOMIC = ("RED", "REDG", "ATOM", "ATOMG")


def _join(chosen: _Chosen, action: _Action) -> list[dict[str, Any]]:
    """Return a row for each line that loads or stores. Raises ValueError where the machine code is
    not the one that was counted."""
    from perfcli.facts.work.timeline import _Code

    code = _Code(chosen.listing, chosen.file)
    measured: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    # What pads functions is not in every listing.
    addresses = [a for a in sorted(action.by_address) if action.code[a].strip() != "NOP"]
    places = [n for n, i in enumerate(chosen.listing.instructions) if i.name != "NOP"]
    if len(addresses) != len(places):
        raise ValueError(f"{len(addresses)} instructions on the GPU, {len(places)} compiled")
    for address, place in zip(addresses, places, strict=True):
        found = action.by_address[address]
        instruction = chosen.listing.instructions[place]
        name, text = instruction.name, action.code[address]
        if name not in text:
            raise ValueError(f"instruction {place}, {instruction.opcode}, is {text} on the GPU")
        kind = "atomic" if name in _ATOMIC else _KINDS.get(name)
        if kind is None:
            continue
        for metric, number in found.items():
            measured[code.lines[place], kind][metric] += number
    work = chosen.candidate.work
    assert work is not None
    counted: dict[tuple[int, str], list[Any]] = defaultdict(list)
    for access in work.accesses or ():
        counted[access.line, access.kind].append(access)
    rows = []
    for line, kind in sorted({*measured, *counted}):
        own, theirs = counted.get((line, kind), []), measured.get((line, kind), {})
        rows.append(
            {
                "run": chosen.run,
                "kernel": chosen.kernel.name,
                "config": {**chosen.candidate.config, "warps": chosen.candidate.num_warps},
                "line": line,
                "kind": kind,
                "text": _line_of(chosen.source, line),
                "indirect": any(each.indirect for each in own),
                "known": bool(own) and all(each.known for each in own),
                "requests": sum(each.requests for each in own) * work.blocks,
                "sectors": sum(each.sectors for each in own) * work.blocks,
                "needed": sum(each.needed for each in own) * work.blocks,
                "accesses": [asdict(each) for each in own],
                "ncu_executed": theirs.get(_METRICS[0], 0.0),
                "ncu_sectors": theirs.get(_METRICS[1], 0.0),
                "ncu_ideal": theirs.get(_METRICS[2], 0.0),
                "ncu_kernel": {name: action.totals.get(name) for name in _METRICS[3:]},
            }
        )
    return rows


def _line_of(source: str, line: int) -> str:
    lines = source.splitlines()
    return lines[line - 1].strip()[:120] if 0 < line <= len(lines) else ""


# --- what came of it -------------------------------------------------------------------------


def _confirm_requests(rows: Sequence[dict[str, Any]]) -> None:
    """Set how many requests the GPU made for each row. By instruction ncu counts warps that have no
    active thread as well, for which L1 sees no request; where a kernel's counted requests agree
    with those that its L1 saw, by loads and stores, the counted ones are taken."""
    counted: dict[tuple[str, str, str], float] = defaultdict(float)
    for row in rows:
        counted[row["run"], row["kernel"], row["kind"]] += row["requests"]
    for row in rows:
        name = {"load": _METRICS[4], "store": _METRICS[6]}.get(row["kind"], "")
        seen = row["ncu_kernel"].get(name) or 0.0
        agreed = _is_near(counted[row["run"], row["kernel"], row["kind"]], seen)
        row["ncu_requests"] = row["requests"] if agreed else row["ncu_executed"]


def _error_of(row: Mapping[str, Any]) -> float | None:
    """Return how far sectors per request are off, relative; None where one side has none."""
    if not row["ncu_requests"] or not row["requests"]:
        return None
    measured = row["ncu_sectors"] / row["ncu_requests"]
    counted = row["sectors"] / row["requests"]
    return abs(counted / measured - 1) if measured else None


def _show(document: Mapping[str, Any]) -> int:
    for problem in document["problems"]:
        print(f"left out: {problem}")
    rows: list[dict[str, Any]] = document["accesses"]
    _confirm_requests(rows)
    judged = [row for row in rows if row["known"] and not row["indirect"]]
    errors = [(error, row) for row in judged if (error := _error_of(row)) is not None]
    within = [row for error, row in errors if error <= _TOLERANCE]
    totals = [row for _, row in errors if _is_near(row["sectors"], row["ncu_sectors"])]
    needed = [row for _, row in errors if _is_near(row["needed"], row["ncu_ideal"])]
    kernels = {(row["run"], row["kernel"]) for _, row in errors}
    models = {row["run"].removesuffix("-untiled") for _, row in errors}
    print(
        f"{len(kernels)} kernels of {len(models)} models, {len(rows)} lines that load or store, "
        f"{len(rows) - len(judged)} of them indirect or unknown, {len(judged) - len(errors)} that "
        "only one side has"
    )
    share = len(within) / len(errors) if errors else 0.0
    print(
        f"sectors per request within 5 %: {len(within)} of {len(errors)} ({share:.1%}); sectors "
        f"in all within 5 %: {len(totals)}; sectors needed: {len(needed)}"
    )
    for error, row in sorted(errors, key=lambda pair: -pair[0])[:25]:
        if error > _TOLERANCE:
            print(_write_row(row))
    for row in judged:
        if _error_of(row) is None:
            print(_write_row(row))
    return 0 if share >= _SHARE else 1


def _is_near(counted: float, measured: float) -> bool:
    return abs(counted - measured) <= _TOLERANCE * measured


def _write_row(row: Mapping[str, Any]) -> str:
    counted = row["sectors"] / row["requests"] if row["requests"] else 0.0
    measured = row["ncu_sectors"] / row["ncu_requests"] if row["ncu_requests"] else 0.0
    return (
        f"  {row['run'][:18]:18} {row['kernel'][:40]:40} {row['kind']:6} {counted:6.2f} "
        f"{measured:6.2f}  requests {row['requests']:.0f} {row['ncu_executed']:.0f}  "
        f"{row['line']}: {row['text'][:70]}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    compiling = commands.add_parser("compile")
    compiling.add_argument("--runs", type=Path, required=True)
    compiling.add_argument("--python")
    compiling.add_argument("--target", default="h200")
    compiling.add_argument("--at-once", type=int, default=1)
    compiling.add_argument("--jobs", type=int, default=2)
    compiling.add_argument("--only", default="")
    for name in ("measure", "replay", "join"):
        on_device = commands.add_parser(name)
        on_device.add_argument("--runs", type=Path, required=True)
        on_device.add_argument("--out", type=Path, required=True)
        on_device.add_argument("--share", type=int, default=0)
        on_device.add_argument("--of", type=int, default=0)
    commands.add_parser("table").add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "compile":
        return _compile(arguments)
    if arguments.command == "replay":
        return _replay(arguments)
    if arguments.command == "measure":
        return _measure(arguments)
    if arguments.command == "join":
        return _join_all(arguments)
    return _show(json.loads(arguments.file.read_text()))


if __name__ == "__main__":
    raise SystemExit(main())
