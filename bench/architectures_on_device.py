"""Holds the kernels of all architectures of architectures.toml against a real GPU's.

    python bench/architectures_on_device.py run FOLDER [--python PYTHON] [--names NAME …]
    python bench/architectures_on_device.py report FOLDER [--page docs/architectures.md]

``run`` compiles each architecture, forward and training, on the device with nothing stood in for,
and without it in another process, and writes one file for each into the folder; what is there
already is not compiled again. ``report`` compares them: kernel bodies text for text, names apart;
registers, spilled words and shared memory of every launch configuration; operators. Without a
GPU, ``run --sides offline --target h100`` says whether everything compiles.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import multiprocessing
import os
import re
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from architectures import ARCHITECTURES, TABLE  # noqa: E402

from perfcli.blobs import unpack  # noqa: E402
from perfcli.compile.capture.definition import strip_name  # noqa: E402
from perfcli.errors import PerfcliError  # noqa: E402
from perfcli.machine import targets  # noqa: E402
from perfcli.model import Bundle, Candidate, ExternCall, Target, Variant  # noqa: E402
from perfcli.worker import process  # noqa: E402
from perfcli.workflow.request import build_request  # noqa: E402

SOURCE = Path(__file__).with_name("architectures.py")
MODES = ("forward", "training")
SIDES = ("device", "offline")
# A hash of triton's installation: not a part of the kernel.
_INSTALLATION = re.compile(r"'backend_hash': '[^']*',? ?")


@dataclass(frozen=True, slots=True)
class Task:
    """Says what one process compiles, and where its result goes."""

    name: str
    mode: str
    side: str
    folder: Path
    cache: str
    target: Target
    python: str | None
    gpus: int
    deadline: float
    limit: float

    @property
    def file(self) -> Path:
        return self.folder / f"{self.name}.{self.mode}.{self.side}.json"


def compile_task(task: Task) -> str:
    """Compile, write the result, and return a line that says what came out."""
    left = task.deadline - time.monotonic()
    if left < 10:
        return ""
    # Estimates are not asked for here, and take as long as the rest.
    process.weigh = lambda bundle, _: bundle  # type: ignore[attr-defined, assignment]
    on_device = task.side == "device"
    slot = (multiprocessing.current_process()._identity or (0,))[0]
    env = {"CUDA_VISIBLE_DEVICES": str(slot % task.gpus)} if on_device else {}
    request = build_request(
        str(SOURCE),
        Variant(task.side, env=env, python=task.python),
        params={"name": task.name, "mode": task.mode},
        target=task.target,
        jobs=1,
        on_device=on_device,
        cache_dir=task.cache,
    )
    started = time.monotonic()
    result: dict[str, Any] = {"name": task.name, "mode": task.mode, "side": task.side}
    try:
        bundle = process.compile_in_process(request, timeout_seconds=min(left, task.limit))
        result |= describe(bundle)
    except PerfcliError as error:
        if task.deadline - time.monotonic() < 1:
            return ""  # stopped for want of time, not for its own fault
        result |= {"error": str(error), "detail": error.detail or ""}
    result["seconds"] = round(time.monotonic() - started, 1)
    task.file.write_text(json.dumps(result))
    said = f"{len(result.get('kernels', ())):4d} kernels"
    said = f"{task.name:20s} {task.mode:9s}{task.side:8s}{said} {result['seconds']:6.1f} s"
    return f"{said}  {result['error'].splitlines()[0][:200]}" if "error" in result else said


def describe(bundle: Bundle) -> dict[str, Any]:
    """Return what is compared of a run."""
    texts: dict[str, str] = {}
    kernels = []
    for kernel in bundle.run.kernels:
        body = _INSTALLATION.sub("", strip_name(unpack(bundle.blobs[kernel.source]), kernel.name))
        key = hashlib.sha256(body.encode()).hexdigest()[:16]
        texts[key] = body
        kernels.append(
            {
                "graph": kernel.graph,
                "name": kernel.name,
                "body": key,
                "candidates": [list(_describe_candidate(c)) for c in kernel.candidates],
                "notes": list(kernel.notes),
            }
        )
    run = bundle.run
    return {
        "kernels": kernels,
        "texts": texts,
        "externs": [_describe_extern(call) for call in run.externs],
        "graphs": len(run.graphs),
        "breaks": list(run.graph_breaks),
        "notes": list(run.notes),
        "environment": asdict(run.environment),
    }


def _describe_candidate(found: Candidate) -> tuple[str, str]:
    """Return a launch configuration and its numbers; the driver counts the words of the stack."""
    words = None if found.stack_bytes is None else found.stack_bytes // 4
    config = " ".join(f"{k}={v}" for k, v in sorted(found.config.items()))
    return (
        f"{config} {found.num_warps} warps {found.num_stages} stages",
        f"{found.registers} registers, {words} words, {found.shared_bytes} B",
    )


def _describe_extern(call: ExternCall) -> dict[str, Any]:
    sizes = [
        [" , ".join(f"{b.dtype}{list(b.shape)}" for b in each.buffers), each.count]
        for each in call.calls
    ]
    return {"op": call.op, "graph": call.graph, "count": call.count, "sizes": sizes}


def run(options: argparse.Namespace) -> int:
    started = time.monotonic()
    target = targets.get(options.target) if options.target else targets.this_gpu()
    names = options.names or ARCHITECTURES
    if unknown := [name for name in names if name not in TABLE]:
        print(f"no such architecture: {', '.join(unknown)}", file=sys.stderr)
        return 2
    options.folder.mkdir(parents=True, exist_ok=True)
    sides = options.sides.split(",")
    with tempfile.TemporaryDirectory() as cache:
        tasks = [
            Task(
                name, mode, side, options.folder, cache, target, options.python, options.gpus,
                started + options.seconds, options.limit,
            )
            for name in names for mode in options.modes.split(",") for side in sides
        ]  # fmt: skip
        waiting = [task for task in tasks if not task.file.exists()]
        if waiting:  # alone, so that libraries are read and the stand-in is built once
            print(compile_task(waiting.pop(0)), flush=True)
        with ProcessPoolExecutor(options.parallel) as pool:
            done = [pool.submit(compile_task, task) for task in waiting]
            for future in as_completed(done):
                if said := future.result():
                    print(said, flush=True)
    missing = [task.file.stem for task in tasks if not task.file.exists()]
    print(
        f"{len(tasks) - len(missing)} of {len(tasks)} compiled, {time.monotonic() - started:.0f} s"
    )
    if missing:
        print(f"no time for: {' '.join(missing)}")
    if options.archive is not None:
        write_archive(options.folder, options.archive)
    return 0


def write_archive(folder: Path, archive: Path) -> None:
    """Write all results into one file, without the bodies that both sides have."""
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive, "w:xz", preset=1) as tar:
        for name, mode, found in read_results(folder):
            bodies = [set(each.get("texts", ())) for each in found.values()]
            common = set.intersection(*bodies) if len(bodies) == len(SIDES) else set()
            for side, each in found.items():
                texts = each.get("texts", {})
                kept = {k: text for k, text in texts.items() if k not in common}
                path = Path(scratch, f"{name}.{mode}.{side}.json")
                path.write_text(json.dumps({**each, "texts": kept}))
                tar.add(path, path.name)


def read_results(folder: Path) -> Iterator[tuple[str, str, dict[str, dict[str, Any]]]]:
    """Yield name and mode of what was compiled, with the result of each side."""
    for name in ARCHITECTURES:
        for mode in MODES:
            files = {side: folder / f"{name}.{mode}.{side}.json" for side in SIDES}
            found = {s: json.loads(f.read_text()) for s, f in files.items() if f.exists()}
            if found:
                yield name, mode, found


# --- the comparison ----------------------------------------------------------------------------


@dataclass(slots=True)
class Compared:
    """Counts what is equal in one architecture and mode, and keeps what is not."""

    name: str
    mode: str
    error: str = ""
    kernels: int = 0
    equal: int = 0
    configurations: int = 0
    equal_configurations: int = 0
    operators_equal: bool = True
    differs: tuple[str, ...] = ()
    """Configurations and operators that differ."""
    bodies: tuple[tuple[str, str, str], ...] = ()
    """A kernel's name on the device, its body there, and the one nearest to it; empty where a side
    has none."""
    notes: tuple[str, ...] = ()
    graphs: int = 0
    breaks: int = 0


def compare(name: str, mode: str, found: dict[str, dict[str, Any]]) -> Compared:
    """Compare the kernels of each direction as multisets: graphs may be numbered otherwise."""
    result = Compared(name, mode)
    errors = {side: each["error"] for side, each in found.items() if "error" in each}
    if errors or len(found) < len(SIDES):
        missing = [f"{side}: not compiled" for side in SIDES if side not in found]
        told = [f"{side}: {error.splitlines()[0]}" for side, error in errors.items()]
        result.error = "; ".join([*told, *missing])
        return result
    device, offline = found["device"], found["offline"]
    result.notes, result.graphs = tuple(offline["notes"]), offline["graphs"]
    result.breaks = sum(map(_count_breaks, offline["breaks"]))
    left = list(offline["kernels"])
    rest = []
    differs: list[str] = []
    for kernel in device["kernels"]:
        result.kernels += 1
        twins = [k for k in left if _place(k) == _place(kernel) and k["body"] == kernel["body"]]
        if not twins:
            rest.append(kernel)
            continue
        left.remove(twins[0])
        result.equal += 1
        theirs, ours = dict(kernel["candidates"]), dict(twins[0]["candidates"])
        result.configurations += len(theirs)
        for config in {**theirs, **ours}:
            if theirs.get(config) == ours.get(config):
                result.equal_configurations += 1
            else:
                pair = f"{theirs.get(config)} / {ours.get(config)}"
                differs.append(f"{kernel['name']} {config}: {pair}")
    result.bodies = tuple(_pair_bodies(rest, left, device["texts"], offline["texts"]))
    ours, theirs = _operators(offline), _operators(device)
    result.operators_equal = ours == theirs
    differs += [f"operator on the device only: {op} ×{n}" for op, n in (theirs - ours).items()]
    differs += [f"operator offline only: {op} ×{n}" for op, n in (ours - theirs).items()]
    result.differs = tuple(differs)
    return result


def _count_breaks(reason: str) -> int:
    found = re.search(r"\(×(\d+)\)$", reason)
    return int(found[1]) if found else 1


def _place(kernel: dict[str, Any]) -> str:
    return str(kernel["graph"]).split()[0]


def _operators(side: dict[str, Any]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for call in side["externs"]:
        for sizes, count in call["sizes"] or [["", call["count"]]]:
            counted[f"{call['op']} {sizes}".strip()] += count
    return counted


def _pair_bodies(
    device: Sequence[Any], offline: Sequence[Any], theirs: Any, ours: Any
) -> Iterator[tuple[str, str, str]]:
    left = list(offline)
    for kernel in device:
        text = theirs.get(kernel["body"], "")
        near = max(
            (k for k in left if _place(k) == _place(kernel)),
            key=lambda k: difflib.SequenceMatcher(
                None, text, ours.get(k["body"], "")
            ).quick_ratio(),
            default=None,
        )
        if near is not None:
            left.remove(near)
        yield kernel["name"], text, ours.get(near["body"], "") if near else ""
    for kernel in left:
        yield f"offline only: {kernel['name']}", "", ours.get(kernel["body"], "")


def explain(compared: Compared) -> str:
    """Return in a few words why an architecture's kernels differ."""
    if compared.error:
        return compared.error
    if not compared.bodies and not compared.differs:
        return ""
    if _are_padded_otherwise([d for d in compared.differs if d.startswith("operator")]):
        return "padding of a matrix product, timed on the device"
    return "; ".join(
        [f"{len(compared.bodies)} bodies"] * bool(compared.bodies)
        + [f"{len(compared.differs)} facts"] * bool(compared.differs)
    )


def _are_padded_otherwise(operators: Sequence[str]) -> bool:
    """Return whether operators of either side are the same where sizes are rounded up to what
    Inductor pads them to."""
    sides: dict[str, Counter[str]] = {"device": Counter(), "offline": Counter()}
    for text in operators:
        side, _, call = text.removeprefix("operator ").removeprefix("on the ").partition(" only: ")
        operator, _, count = call.rpartition(" ×")
        rounded = re.sub(r"(\w+)\[([\d, ]+)\]", _round_up, operator)
        sides[side][rounded] += int(count)
    return bool(operators) and sides["device"] == sides["offline"]


def _round_up(found: re.Match[str]) -> str:
    lane = 4 if found[1] == "float32" else 8
    return f"{found[1]}{[-(-int(n) // lane) * lane for n in found[2].split(',')]}"


def report(options: argparse.Namespace) -> int:
    results = list(read_results(options.folder))
    compared = [compare(*each) for each in results]
    for each in compared:
        print(_line(each))
        for text in each.differs[: options.most]:
            print(f"    {text}")
        for name, theirs, ours in each.bodies[: options.most]:
            print(f"    {name}")
            lines = difflib.unified_diff(
                ours.splitlines(), theirs.splitlines(), "offline", "device", n=0
            )
            print("\n".join(f"      {line[:200]}" for line in list(lines)[: options.lines]))
    print("\n".join(summarize(compared)))
    if options.page is not None:
        environments = [
            side["environment"]
            for *_, found in results
            for side in found.values()
            if "environment" in side
        ]
        options.page.write_text(make_page(compared, environments[0]))
    bad = [each for each in compared if each.error or each.bodies or each.differs]
    return 1 if bad or not compared else 0


def summarize(compared: Sequence[Compared]) -> list[str]:
    """Return the sums over all architectures."""
    compiled = [each for each in compared if not each.error]
    equal, kernels = sum(c.equal for c in compiled), sum(c.kernels for c in compiled)
    same, all_ = (
        sum(c.equal_configurations for c in compiled),
        sum(c.configurations for c in compiled),
    )
    return [
        f"{len({c.name for c in compared})} architectures, {len(compiled)} of {len(compared)} "
        "steps compile on both sides",
        f"{equal} of {kernels} kernel bodies are equal ({100 * equal / max(kernels, 1):.2f} %)",
        f"{same} of {all_} launch configurations have equal registers, spilled words and shared "
        "memory",
        f"{sum(c.operators_equal for c in compiled)} of {len(compiled)} steps call the same "
        "operators with the same sizes",
    ]


def _line(c: Compared) -> str:
    bodies = f"{c.equal:4d}/{c.kernels:<4d} bodies"
    configurations = f"{c.equal_configurations:4d}/{c.configurations:<4d} configurations"
    return f"{c.name:20s} {c.mode:9s}{bodies} {configurations}  {explain(c)[:160]}"


def make_page(compared: Sequence[Compared], environment: dict[str, Any]) -> str:
    """Return the table as docs/architectures.md has it."""
    lines = [
        "| architecture | library | mode | graphs | breaks | bodies | configurations | differs |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for c in compared:
        library = TABLE[c.name]["library"]
        if c.error:
            lines.append(f"| {c.name} | {library} | {c.mode} | | | | | {_escape(c.error)} |")
            continue
        numbers = f"{c.graphs} | {c.breaks} | {c.equal} of {c.kernels}"
        numbers += f" | {c.equal_configurations} of {c.configurations}"
        lines.append(f"| {c.name} | {library} | {c.mode} | {numbers} | {_escape(explain(c))} |")
    head = [
        f"`make architectures` on {datetime.now(UTC):%Y-%m-%d}, torch {environment['torch']}, "
        f"triton {environment['triton']}, Python {environment['python']}.",
        "",
        *(f"* {text}" for text in summarize(compared)),
        "",
    ]
    return "\n".join([*head, *lines]) + "\n"


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    asked = commands.add_parser("run")
    asked.add_argument("folder", type=Path)
    asked.add_argument("--names", nargs="+", help="only these architectures")
    asked.add_argument("--modes", default="training,forward")
    asked.add_argument("--sides", default="device,offline")
    asked.add_argument("--target", help="a GPU that is not here; left out: the one that is")
    asked.add_argument("--python", help="an interpreter with another torch")
    asked.add_argument("--parallel", type=int, default=os.cpu_count() or 2)
    asked.add_argument("--gpus", type=int, default=1, help="shared out among processes")
    asked.add_argument(
        "--seconds", type=float, default=36000, help="in all; later ones are left out"
    )
    asked.add_argument("--limit", type=float, default=600, help="seconds for one")
    asked.add_argument("--archive", type=Path, help="all results in one file, .tar.xz")
    told = commands.add_parser("report")
    told.add_argument("folder", type=Path)
    told.add_argument("--page", type=Path, help="write the table as Markdown")
    told.add_argument("--most", type=int, default=3, help="differences shown of each")
    told.add_argument("--lines", type=int, default=12, help="lines shown of each body's difference")
    options = parser.parse_args()
    return run(options) if options.command == "run" else report(options)


if __name__ == "__main__":
    raise SystemExit(main())
