"""What ``perfcli tune`` chooses without a GPU, and what that is worth on one.

    python bench/tune.py --search FILE [--python PYTHON] [--target h200] [--at-once N]
    python bench/tune.py --measure FILE --out FILE [--seconds N]      on the GPU
    python bench/tune.py --table FILE                                 what --measure wrote

``--search`` runs ``perfcli tune`` for each of ``tune_models.py`` and writes what it chose and all
single options that generate code of their own; models whose answer is there are left out, and
searches that were ended go on (what they know is kept beside FILE). No GPU is used, wherever it
runs. ``--measure`` takes that file, and needs torch with CUDA and perfcli's sources, no network.
Each model has a process, which compiles the default, the chosen options, other sets that came near
and all single options, those that may gain most first; they take turns on the device when launch
configurations are chosen. Once all are compiled, or two thirds of the seconds are spent, one
process after the other has the device to itself: it times its variants round by round in random
order, by the sum of its kernels' times (torch.profiler), generated ones and all.
``coordinate_descent_tuning`` and ``max_autotune`` are compiled and timed beside them, with the
seconds that they take to be tuned, during which a device is held.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
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
LONGEST = 40.0
"""Seconds that one of these may take for a model: it is not begun with less."""
MOST_WRONG = 0.05
"""The most by which a result may differ from the default's, as a part of the largest there: several
roundings to bfloat16."""
FIRST = 12
"""Sets that are compiled before these."""

# --- without a GPU ----------------------------------------------------------------------------


def search(asked: argparse.Namespace) -> None:
    known = json.loads(asked.search.read_text()) if asked.search.exists() else {}
    missing = [model for model in MODELS if model.name not in known]
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


def variants_of(found: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and options, what matters most first."""
    yield "default", {}
    if found["options"]:
        yield "chosen", found["options"]
    alone = sorted(found["alone"], key=lambda each: each["estimated"]["low"])
    for number, each in enumerate([*found["tried"], *alone]):
        if number == FIRST:
            yield "coordinate descent", SEARCHES["coordinate descent"]
        if each["options"] != found["options"]:
            yield name_set(each["options"]), each["options"]
    yield "max-autotune", SEARCHES["max-autotune"]


def name_set(options: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={json.dumps(value)}" for name, value in options.items())


def measure_one(name: str, found: Mapping[str, Any], asked: argparse.Namespace) -> dict[str, Any]:
    """Compile and time the variants of one model. Times are those of ``time.monotonic``, which all
    processes of a machine share. A line on stdin gives the device, until the time that it says."""
    import tune_device

    model = next(each for each in MODELS if each.name == name)
    ready_by = float(asked.ready_by)
    with tune_device.lend(model, str(asked.out.with_suffix(".turn"))) as device:
        for label, options in variants_of(found):
            least = LONGEST if label in SEARCHES else 0.0
            if label in device.ready:
                continue
            if time.monotonic() < ready_by - least or label in ("default", "chosen"):
                device.prepare(label, options, label in SEARCHES)
        print("ready", flush=True)
        return device.measure(float(sys.stdin.readline()))


# --- on the GPU: all of them -------------------------------------------------------------------


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    found = json.loads(asked.measure.read_text())
    ready_by, end = began + asked.seconds * 0.62, began + asked.seconds
    workers = [(name, start(name, asked, ready_by)) for name in found]
    result: dict[str, Any] = {"models": {}, "search": found}
    for name, worker in workers:
        assert worker.stdout
        if "ready\n" not in iter(worker.stdout.readline, ""):
            print(f"{name}: ended before it was ready, see its log", flush=True)
    prepared = time.monotonic() - began
    for number, (name, worker) in enumerate(workers):
        share = (end - time.monotonic()) / (len(workers) - number)
        try:
            out, _ = worker.communicate(f"{time.monotonic() + share}\n", timeout=max(share, 1) + 20)
            result["models"][name] = json.loads(out.splitlines()[-1])
        except (subprocess.TimeoutExpired, ValueError, IndexError, BrokenPipeError) as error:
            worker.kill()
            print(f"{name}: {type(error).__name__}", flush=True)
        asked.out.write_text(json.dumps(result, indent=1))  # as far as it came
    result["seconds"] = {"prepared": prepared, "all": time.monotonic() - began}
    asked.out.write_text(json.dumps(result, indent=1))
    return result


def start(name: str, asked: argparse.Namespace, ready_by: float) -> subprocess.Popen[str]:
    log = asked.out.with_name(f"{asked.out.stem}-{name}.log").open("w")
    command = [sys.executable, __file__, "--measure", str(asked.measure), "--model", name]
    command += ["--ready-by", str(ready_by), "--out", str(asked.out)]
    environment = {**with_root(), "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        env=environment,
    )  # fmt: skip


# --- the table ---------------------------------------------------------------------------------


def table(result: Mapping[str, Any]) -> str:
    rows = [row for name, each in result["models"].items() if (row := row_of(name, each, result))]
    lines = [
        "| model | options | estimated | measured | all kernels | best single | share of its gain "
        "| coordinate descent | max-autotune |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
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
    right = {label: variant for label, variant in each.items() if is_right(variant)}
    times = {label: variant for label, variant in right.items() if variant.get("generated")}
    if "default" not in times:
        return None
    base = times["default"]
    eager = [label for label, variant in right.items() if variant.get("generated") == 0]
    if eager:
        print(f"{name}: no generated kernel was seen of {', '.join(eager)}", file=sys.stderr)
    gain = {label: base["generated"] / v["generated"] for label, v in times.items()}
    found = result["search"][name]
    alone = [name_set(single["options"]) for single in found["alone"]]
    singles = {name: gain[name] for name in alone if name in gain}
    if (options := name_set(found["options"])) in alone and "chosen" in gain:
        singles[options] = gain["chosen"]
    best = max(singles, key=lambda n: singles[n], default="")
    options = options or "default"
    chosen = gain.get("chosen", 1.0) if found["options"] else 1.0
    ours = times.get("chosen", base)
    ratio = found["against_default"]
    most = max(singles.get(best, 1.0), 1.0)
    share = math.log(chosen) / math.log(most) if most > 1.005 else None
    interval = ", ".join(f"{ratio[end] - 1:+.1%}" for end in ("low", "high"))
    cells = [name, options, f"{ratio['ratio'] - 1:+.1%} [{interval}]"]
    cells += [f"{1 / chosen - 1:+.1%}", f"{ours['all'] / base['all'] - 1:+.1%}"]
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
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=210)
    parser.add_argument("--table", type=Path)
    for name in ("--model", "--ready-by"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.search:
        search(asked)
    if asked.model:
        found = json.loads(asked.measure.read_text())[asked.model]
        print(json.dumps(measure_one(asked.model, found, asked)))
    elif asked.measure:
        print(table(measure(asked)))
    if asked.table:
        print(table(json.loads(asked.table.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
