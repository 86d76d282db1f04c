"""What ``perfcli tune`` chooses without a GPU, and what that is worth on one.

    python bench/tune.py --search FILE [--python PYTHON] [--target h200] [--at-once N]
                         [--models A,B] [--budget SECONDS]
    python bench/tune.py --measure FILE --out FILE [--seconds N]      on the GPU
    python bench/tune.py --table FILE                                 what --measure wrote

``--search`` runs ``perfcli tune`` for each of ``tune_models.py`` and writes what it chose and all
single options that generate code of their own; models whose answer is there are left out, and
searches that were ended go on (what they know is kept beside FILE). No GPU is used, wherever it
runs. ``--measure`` takes that file, and needs torch with CUDA and perfcli's sources, no network.
A model has a process, a large one several, which share its variants: the chosen options, other sets
that came near, and all single options, those that may gain most first. A process compiles its
model's default and one variant after the other. When launch configurations are chosen, and when a
variant is timed, it has the device to itself: round by round the default and the variant take turns
in random order, by the sum of their kernels' times (torch.profiler), generated ones and all. What
is measured is written as it comes. For the models of ``SEARCHED_HERE``, which call no library,
``coordinate_descent_tuning`` and ``max_autotune`` are timed as well, with the seconds that they
take to be tuned, during which a device is held.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from tune_models import MODELS, Model

ROOT = Path(__file__).resolve().parents[1]
KEPT = (
    *("verdict", "options", "against_default", "torch", "tried", "alone", "shares"),
    *("cost", "failures", "stopped"),
)
SEARCHES = {
    "coordinate descent": {"coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "coordinate_descent_tuning": True},
}
"""What tunes on the device alone; ``mode="max-autotune"`` sets both options."""
SEARCHED_HERE = ("softmax", "softmax-training", "cross-entropy", "column-sum")
MOST_WRONG = 0.05
"""The most by which a result may differ from the default's, as a part of the largest there: several
roundings to bfloat16."""
MOST_FOR_ONE = 15
"""Single options that one process compiles; of a model with more three share them."""
GRACE = 5.0
"""Seconds after the end in which a process may still write what it has."""

# --- without a GPU ----------------------------------------------------------------------------


def search(asked: argparse.Namespace) -> None:
    known = json.loads(asked.search.read_text()) if asked.search.exists() else {}
    wanted = asked.models.split(",") if asked.models else [model.name for model in MODELS]
    missing = [model for model in MODELS if model.name in wanted and model.name not in known]
    with ThreadPoolExecutor(asked.at_once) as pool:
        for model, found in zip(missing, pool.map(lambda m: tune(m, asked), missing), strict=True):
            if found is None:
                print(f"{model.name}: no answer", flush=True)
                continue
            known[model.name] = found
            asked.search.write_text(json.dumps(known, indent=1))
            print(model.name, found["verdict"], found["options"], flush=True)


def tune(model: Model, asked: argparse.Namespace) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "perfcli", "tune", *model.words, "--target", asked.target]
    command += ["--python", asked.python] if asked.python else []
    command += ["--budget", str(asked.budget)] if asked.budget else []
    jobs = max(len(os.sched_getaffinity(0)) // asked.at_once, 1)
    folder = asked.search.with_suffix("") / model.name
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / "found.json").absolute()
    path.unlink(missing_ok=True)
    command += ["-j", str(jobs), "--json", str(path)]
    with (folder / "log").open("w") as log:
        # A folder of its own: what is stored is not this repository's.
        subprocess.run(command, check=False, cwd=folder, env=with_root(), stdout=log, stderr=log)
    if not path.exists():
        print((folder / "log").read_text()[-2000:], file=sys.stderr)
        return None
    found = json.loads(path.read_text())
    return {key: found[key] for key in KEPT}


def with_root() -> dict[str, str]:
    """Return the environment in which perfcli is that of this repository."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


# --- on the GPU: one model ---------------------------------------------------------------------


def variants_of(name: str, found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return options by name, what matters most first."""
    variants = {"chosen": found["options"]} if found["options"] else {}
    alone = sorted(found["alone"], key=lambda each: (each["estimated"] or {"low": 2.0})["low"])
    for each in (*found["tried"], *alone):
        if each["options"] != found["options"]:
            variants[name_set(each["options"])] = each["options"]
    return variants | (SEARCHES if name in SEARCHED_HERE else {})


def name_set(options: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={json.dumps(value)}" for name, value in options.items())


def count_parts(found: Mapping[str, Any]) -> int:
    return 1 if len(found["alone"]) <= MOST_FOR_ONE else 3


def measure_part(name: str, part: int, found: Mapping[str, Any], asked: argparse.Namespace) -> None:
    """Compile and time every so-manieth variant of one model until the end, a time of
    ``time.monotonic``, which all processes of a machine share; write what is known after each."""
    import tune_device

    model = next(each for each in MODELS if each.name == name)
    variants = [*variants_of(name, found).items()][part :: count_parts(found)]
    path = part_file(asked.out, name, part)
    with tune_device.lend(model, str(asked.out.with_suffix(".turn"))) as device:
        device.prepare_default()
        for label, options in variants:
            if time.monotonic() > asked.end:
                break
            searches = label in SEARCHES
            is_end = searches or label == "chosen"
            device.try_variant(label, options, is_end=is_end, searches=searches)
            path.write_text(json.dumps(device.found))


def part_file(out: Path, name: str, part: int) -> Path:
    return out.with_name(f"{out.stem}-{name}-{part}.json")


# --- on the GPU: all of them -------------------------------------------------------------------


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    asked.end = began + asked.seconds
    found = json.loads(asked.measure.read_text())
    parts = [(name, part) for name, each in found.items() for part in range(count_parts(each))]
    workers = {each: start(*each, asked) for each in parts}
    for (name, part), worker in workers.items():
        try:
            worker.wait(max(asked.end + GRACE - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        if worker.returncode:
            print(f"{name} {part}: ended with {worker.returncode}, see its log", flush=True)
    models: dict[str, Any] = {name: {} for name in found}
    for name, part in parts:
        path = part_file(asked.out, name, part)
        models[name] |= json.loads(path.read_text()) if path.exists() else {}
    seconds = time.monotonic() - began
    result = {"models": models, "search": found, "seconds": seconds}
    asked.out.write_text(json.dumps(result, indent=1))
    return result


def start(name: str, part: int, asked: argparse.Namespace) -> subprocess.Popen[bytes]:
    log = asked.out.with_name(f"{asked.out.stem}-{name}-{part}.log").open("w")
    command = [sys.executable, __file__, "--measure", str(asked.measure), "--out", str(asked.out)]
    command += ["--model", name, "--part", str(part), "--end", str(asked.end)]
    environment = {**with_root(), "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


# --- the table ---------------------------------------------------------------------------------


def table(result: Mapping[str, Any]) -> str:
    rows = [row for name, each in result["models"].items() if (row := row_of(name, each, result))]
    lines = [
        "| model | options | estimated | measured | all kernels | single options measured "
        "| best one | share of its gain | coordinate descent | max-autotune |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += ["| " + " | ".join(row["cells"]) + " |" for row in rows]
    chosen = [row["chosen"] for row in rows]
    wrong = [
        f"{name} {label}"
        for name, variants in result["models"].items()
        for label, variant in variants.items()
        if not is_right(variant)
    ]
    best = [row["best"] for row in rows]
    if rows:
        gained, possible = geometric_mean(chosen), geometric_mean(best)
        share = math.log(gained) / math.log(possible) if possible > 1 else 1.0
        lines += [
            "",
            f"geometric mean of the gain: chosen {gained:.3f}, best single option {possible:.3f} "
            f"({share:.0%} of it, as logarithms); slower than default by more than 1 %: "
            f"{sum(1 / each > 1.01 for each in chosen)} of {len(chosen)}",
            f"wrong results: {', '.join(wrong) or 'none'}",
            "device seconds, all models: tune without a GPU 0; "
            + "; ".join(f"{way} {spent(result, way):.0f}" for way in ("every option", *SEARCHES)),
        ]
    return "\n".join(lines)


def row_of(name: str, each: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any] | None:
    times = {n: v for n, v in each.items() if is_right(v) and v.get("generated")}
    if eager := [label for label, variant in each.items() if variant.get("generated") == 0]:
        print(f"{name}: no generated kernel was seen of {', '.join(eager)}", file=sys.stderr)
    gain = {label: v["default_generated"] / v["generated"] for label, v in times.items()}
    found = result["search"][name]
    alone = [name_set(single["options"]) for single in found["alone"]]
    singles = {name: gain[name] for name in alone if name in gain}
    options = name_set(found["options"])
    if options in alone and "chosen" in gain:
        singles[options] = gain["chosen"]
    if not gain or (options and "chosen" not in gain):
        return None
    best = max(singles, key=lambda n: singles[n], default="")
    chosen = gain.get("chosen", 1.0)
    ratio = found["against_default"]
    most = max(singles.get(best, 1.0), 1.0)
    share = math.log(chosen) / math.log(most) if most > 1.005 else None
    interval = ", ".join(f"{ratio[end] - 1:+.1%}" for end in ("low", "high"))
    ours = times.get("chosen")
    every = ours["all"] / ours["default_all"] if ours else 1.0
    cells = [name, options or "default", f"{ratio['ratio'] - 1:+.1%} [{interval}]"]
    cells += [f"{1 / chosen - 1:+.1%}", f"{every - 1:+.1%}", f"{len(singles)} of {len(alone)}"]
    cells += [f"{best} {1 / singles[best] - 1:+.1%}" if best else "–"]
    cells += [f"{share:.0%}" if share is not None else "–"]
    cells += [f"{1 / gain[n] - 1:+.1%}" if n in gain else "–" for n in SEARCHES]
    return {"cells": cells, "chosen": chosen, "best": most}


def is_right(variant: Mapping[str, Any]) -> bool:
    """Return whether its results are the default's, but for roundings."""
    return bool(variant.get("error", 0.0) <= MOST_WRONG)


def spent(result: Mapping[str, Any], what: str) -> float:
    """Return the seconds for which a device is held to tune in this way, the models one by one."""
    total = 0.0
    for name, each in result["models"].items():
        alone = {name_set(single["options"]) for single in result["search"][name]["alone"]}
        for label, variant in each.items():
            if label == what or (what == "every option" and label in alone):
                total += variant.get("prepare_seconds", 0.0) + variant.get("timing_seconds", 0.0)
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--search", type=Path)
    parser.add_argument("--python", default="", help="the interpreter whose torch is tuned")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--budget", type=float, help="seconds of searching for each model")
    parser.add_argument("--at-once", type=int, default=1, help="models that are searched at once")
    parser.add_argument("--models", help="a,b: search these alone")
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=210)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.search:
        search(asked)
    if asked.model:
        found = json.loads(asked.measure.read_text())[asked.model]
        measure_part(asked.model, asked.part, found, asked)
    elif asked.measure:
        print(table(measure(asked)))
    if asked.table:
        print(table(json.loads(asked.table.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
