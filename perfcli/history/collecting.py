"""Makes entries of what the other commands leave behind: stored runs, and the JSON that compare and
gate write. A stored run is taken as a comparison with itself, so that there is one way."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfcli import units
from perfcli.diff.compare import gather_evidence
from perfcli.errors import PerfcliError
from perfcli.history.commits import describe_commit
from perfcli.history.entry import Entry, Point, Subject, encode_points
from perfcli.history.series import PEAK
from perfcli.loading import registry
from perfcli.loading.references import parse_reference
from perfcli.model import Report, Run
from perfcli.storing import store
from perfcli.workflow.obtain import load_stored

STEP = ""
"""The kernel group of the whole step."""
_SIDES = ("base", "head")
MEASURED, ESTIMATED = "kernel_time", "estimated_seconds"
_KERNEL_METRICS = ("bytes_moved", "spilled_words")
_NUMBER = re.compile(r"_\d+$")
_MOST_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class Collected:
    """Holds an entry, and the files that it names by their SHA-256."""

    entry: Entry
    files: Mapping[str, bytes] = field(default_factory=dict)


def collect(what: str, commit: str, label: str) -> list[Collected]:
    """Return the entries of a stored run (its file, id, or beginning of its id), or of a file that
    compare or gate wrote. ``commit``: the revision that was compiled; empty: that of the reference,
    else what is checked out. Raises PerfcliError for what is neither, and for a revision that is
    not there."""
    document = _read_document(Path(what))
    kind = document.get("perfcli") if document is not None else "run"
    try:
        if kind == "run":
            return [_collect_run(what, commit, label)]
        if kind == "comparison" and document:
            return [_collect(document, _find_files(document), commit, label)]
        if kind == "gate" and document:
            compared = [each["comparison"] for each in document["checks"] if each["comparison"]]
            return [_collect(each, _find_files(each), commit, label) for each in compared]
    except (KeyError, TypeError, AttributeError) as error:
        raise PerfcliError(f"{what} lacks what this version writes ({error!r})") from error
    raise PerfcliError(
        f"{what} is JSON of {kind or 'another program'}: a stored run, or a file that compare "
        "--json or gate --json wrote, is expected"
    )


def _collect_run(what: str, commit: str, label: str) -> Collected:
    stored = load_stored(what)
    if stored.path is None:
        raise PerfcliError(f"{what} is not stored as a file: a history keeps runs by their files")
    return _collect(_describe_alone(stored.run), {"head": stored.path}, commit, label)


def _read_document(path: Path) -> dict[str, Any] | None:
    """Return the JSON in a file; None where there is no such file."""
    if not path.is_file():
        return None
    if path.stat().st_size > _MOST_BYTES:
        raise PerfcliError(f"{path} is larger than any document of perfcli")
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise PerfcliError(f"{path} is not JSON ({error})") from error
    return document if isinstance(document, dict) else {}


def _describe_alone(run: Run) -> dict[str, Any]:
    render = registry.load_declared("reports", "json", Report).render
    document: dict[str, Any] = json.loads(render(gather_evidence(run, run)))
    return document | {"timing": None}


def _find_files(document: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of both runs, where they are stored here; a gate's JSON names none."""
    found = {}
    for side in ("base", "head"):
        path = store.locate(document[side].get("id") or "")
        if path is not None:
            found[side] = path
    return found


def _collect(
    document: Mapping[str, Any], paths: Mapping[str, Path], commit: str, label: str
) -> Collected:
    head = document["head"]
    run = store.read(paths["head"]) if "head" in paths else None
    files = {side: path.read_bytes() for side, path in paths.items() if path.is_file()}
    digests = {side: hashlib.sha256(content).hexdigest() for side, content in files.items()}
    scenario, revision = _name_scenario(head["scenario"])
    points = list(_list_points(document))
    measured = any(each.kind == "measured" for each in points)
    entry = Entry(
        subject=Subject(
            scenario=scenario,
            params=dict(sorted(head["params"].items())),
            mode=head["mode"],
            device=head["device"],
            target=head["target"] or "",
            dynamic=head["dynamic"],
            world=run.world if run else 1,
            inputs=run.inputs if run else (),
            label=label,
        ),
        commit=describe_commit(
            *(commit or revision, Path.cwd(), run.sources if run else {}),
            created=head.get("created") or "",
        ),
        created=head.get("created") or "",
        circumstances=dict(sorted(_list_circumstances(document, run))),
        run=digests.get("head", ""),
        control=digests.get("base", "") if measured else "",
        points=tuple(each for each in points if not each.kernel),
        kernels=encode_points([each for each in points if each.kernel]),
    )
    kept = {digests[side]: files[side] for side in digests if side == "head" or measured}
    return Collected(entry, kept)


def _name_scenario(typed: str) -> tuple[str, str]:
    """Return a scenario as a series names it, and the revision that it was typed with: its file by
    the path from the top of the repository, wherever perfcli was called."""
    reference = parse_reference(typed)
    if not reference.path:
        return typed, ""
    path = os.path.relpath(os.path.realpath(reference.path), _find_top(Path.cwd()))
    path = reference.path if path.startswith("..") else path
    return reference.move(Path(path).as_posix()).text, reference.revision


def _find_top(folder: Path) -> Path:
    """Return the top of the repository around a folder, else the folder."""
    real = folder.resolve()
    return next((each for each in (real, *real.parents) if (each / ".git").exists()), real)


# --- numbers --------------------------------------------------------------------------------------


def _list_points(document: Mapping[str, Any]) -> Iterator[Point]:
    totals = document["totals"]
    for metric, change in totals.items():
        if change["head"] is not None and metric != "lower_bound_seconds":
            basis = _name_pieces(totals) if metric == PEAK else ""
            yield Point("static", STEP, metric, change["head"], basis)
    kernels = [each for group in document["groups"] for each in group["head"]]
    for name, values in _sum_by_group(kernels).items():
        yield from (Point("static", name, metric, value) for metric, value in values.items())
    yield from _list_estimates(document, kernels)
    if document["timing"]:
        yield from _list_ratios(document)


def _name_pieces(totals: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what an estimate of peak memory can't be compared without: it is that of the largest
    graph, and leaves out what a model in several pieces holds besides. Empty where nothing breaks
    the model up."""
    breaks, graphs = (totals.get(name, {}).get("head") for name in ("graph_breaks", "graphs"))
    return units.plural(graphs, "graph") if breaks and graphs else ""


def name_group(name: str, graph: str) -> str:
    """Return the name of a kernel group: what a kernel is called but for its number, which changes
    with every kernel before it."""
    return f"{graph} {_NUMBER.sub('', name)}"


def _sum_by_group(kernels: list[Mapping[str, Any]]) -> Mapping[str, Mapping[str, float]]:
    sums: dict[str, dict[str, float]] = defaultdict(dict)
    for kernel in kernels:
        values = sums[name_group(kernel["name"], kernel["graph"])]
        best = kernel["best"] or {}
        swept = kernel["bytes_read"], kernel["bytes_written"]
        moved = None if None in swept else sum(swept) * kernel["launches"]
        for metric, value in zip(_KERNEL_METRICS, (moved, best.get("spilled_words")), strict=True):
            if value is not None:
                values[metric] = values.get(metric, 0) + value
    return sums


def _list_estimates(
    document: Mapping[str, Any], kernels: list[Mapping[str, Any]]
) -> Iterator[Point]:
    """Yield the estimated seconds of a step, and of each kernel group: where all of it has any."""
    step = (document["estimate"] or {}).get("head")
    if not step or step["missing"] or not step["constants"]:
        return
    constants = step["constants"]
    # Equal code gives equal numbers, whatever it was compared with.
    seconds = step.get("alone_seconds") or step["seconds"]
    yield Point("estimated", STEP, ESTIMATED, seconds, constants, step["low"], step["high"])
    sums: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        if kernel["estimate"]:
            name = name_group(kernel["name"], kernel["graph"])
            sums[name] += kernel["estimate"]["seconds"] * kernel["launches"]
    for name, seconds in sums.items():
        yield Point("estimated", name, ESTIMATED, seconds, constants)


def _list_ratios(document: Mapping[str, Any]) -> Iterator[Point]:
    """Yield the ratios to the base, which is the control: the step's, by the clock that decided,
    and those of kernel groups that both sides have."""
    timing = document["timing"]
    control = _name_control(document)
    step = timing["device"] if timing["clock"] == "device" else timing["step"]
    if step["ratio"] is not None:
        metric = f"{timing['clock']}_time"
        yield Point("measured", STEP, metric, step["ratio"], control, step["low"], step["high"])
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in timing["groups"]:
        if each["group"] is not None and each["ratio"] is not None:
            group = document["groups"][each["group"]]
            sides = [{name_group(k["name"], k["graph"]) for k in group[side]} for side in _SIDES]
            if len(sides[0]) == len(sides[1]) == 1:
                total = seconds[min(sides[1])]
                total[0] += each["base"]
                total[1] += each["head"]
    for name, (base, head) in seconds.items():
        yield Point("measured", name, MEASURED, head / base, control)


def _name_control(document: Mapping[str, Any]) -> str:
    """Return what a control is called, with a hash of its code: another code is another control."""
    base = document["base"]
    hashes = [k["source_hash"] for group in document["groups"] for k in group["base"]]
    externs = [[each["op"], each["graph"], each["count"]] for each in base["externs"]]
    code = json.dumps([sorted(hashes), sorted(externs)]).encode()
    name, revision = _name_scenario(base["scenario"])
    at = f"@{revision}" if revision else ""
    return f"{name}{at} {base['variant']['name']} {hashlib.sha256(code).hexdigest()[:8]}"


# --- what may be behind a change ------------------------------------------------------------------


def _list_circumstances(document: Mapping[str, Any], run: Run | None) -> Iterator[tuple[str, str]]:
    head = document["head"]
    yield "torch", head["torch"]
    yield "triton", head["triton"] or ""
    for name, value in {**head["variant"]["options"], **head["variant"]["env"]}.items():
        yield f"option {name}", json.dumps(value)
    if run is not None:
        yield from _list_surroundings(run)
    if document["timing"]:
        machine = document["timing"]["sides"].get("head", {}).get("machine", {})
        for name in ("device", "driver"):
            if machine.get(name):
                yield f"measured on {name}", str(machine[name])


def _list_surroundings(run: Run) -> Iterator[tuple[str, str]]:
    environment = run.environment
    yield "python", environment.python
    yield "perfcli", environment.perfcli
    for name in ("ptxas", "driver", "gpu"):
        if value := getattr(environment, name):
            yield name, value
    for name, value in environment.variables.items():
        yield f"variable {name}", value
    for name, setting in run.settings.items():
        yield f"default of {name}", json.dumps(setting)
    for call in run.compiled:
        yield f"torch.compile of {call.name}", call.settings or "defaults"
