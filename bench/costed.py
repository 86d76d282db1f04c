"""What findings say that they cost, with the cures that they propose, for a GPU to be held against:
``python bench/costed.py --out costs.json [--python OTHER] [--target h200]``.

Each case is compiled without a GPU, once as it is and once with each cure that its findings
propose. The file says what the findings cost, and what the estimate of the cured run says that the
cure gains; ``cures_on_device.py --costs costs.json`` measures what it gains.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Costed:
    """A scenario with something wrong: by itself, or by options."""

    scenario: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool = False


HOST = "PC6"
"""Findings about the host's time: the device's does not show what they cost."""
OFF = {"split_reductions": False}
CASES = (
    Costed("total", options=OFF),
    Costed("norm_and_amax", options=OFF),
    Costed("columns", options=OFF),
    Costed("columns", {"rows": 262144, "columns": 96}, OFF),
    Costed("rows", options=OFF),
    Costed("rows", {"rows": 64, "columns": 262144}, OFF),
    Costed("columns", {"rows": 640, "columns": 256}),
    Costed("rows", {"rows": 128, "columns": 20000}),
    Costed("largest"),
    Costed("softmax", {"rows": 16384, "columns": 50304}, {"online_softmax": False}),
    Costed("softmax", {"rows": 8192, "columns": 131072}, {"online_softmax": False}),
    Costed("softmax", {"rows": 4, "columns": 1048576}),
    Costed("softmax", {"rows": 32, "columns": 131072}, OFF),
    Costed("softmax", {"rows": 32768, "columns": 50257}),
    Costed("rmsnorm", {"rows": 8192, "columns": 50257}),
    Costed("softmax", {"rows": 8192, "columns": 50304}, dynamic=True),
    Costed("rmsnorm", {"mode": "training"}, {"triton.mix_order_reduction": False}),
    Costed("rmsnorm", {"rows": 16384, "columns": 768}, {"triton.persistent_reductions": False}),
    Costed("layernorm", {"rows": 8, "columns": 1048576}, OFF),
    Costed("cross-entropy", {}, {"online_softmax": False}),
)


def total(elements: int = 100_000_000) -> Any:
    import torch

    return lambda x: (x.float() * 2).sum(), (torch.randn(elements, dtype=torch.bfloat16),)


def largest(elements: int = 20_000_000) -> Any:
    import torch

    return lambda x: x.argmax(), (torch.randn(elements, dtype=torch.bfloat16),)


def columns(rows: int = 65536, columns: int = 512) -> Any:
    import torch

    return lambda x: x.float().sum(0), (torch.randn(rows, columns, dtype=torch.bfloat16),)


def rows(rows: int = 16, columns: int = 1_048_576) -> Any:
    import torch

    return lambda x: x.float().pow(2).mean(1), (torch.randn(rows, columns, dtype=torch.bfloat16),)


def norm_and_amax(rows: int = 4096, columns: int = 4096) -> Any:
    import torch

    def call(x: Any, weight: Any) -> Any:
        y = torch.nn.functional.layer_norm(x, (x.shape[-1],), weight)
        return y, y.abs().amax()

    dtype = torch.bfloat16
    return call, (torch.randn(rows, columns, dtype=dtype), torch.randn(columns, dtype=dtype))


def refer_to(case: Costed) -> str:
    own = case.scenario in globals()
    return f"{HERE.name}/costed.py:{case.scenario}" if own else case.scenario


def compile_run(
    case: Costed, options: Mapping[str, Any], asked: argparse.Namespace, folder: Path
) -> Any:
    """Return the run, estimated."""
    from perfcli.predict.step import estimate_run
    from perfcli.storing import runfile, store

    reference = refer_to(case)
    own = ":" in reference
    place = f"{HERE.parent}/{reference}" if own else reference
    command = ["run", place, "--target", asked.target, "--quiet"]
    command += [f"-p{name}={value}" for name, value in case.params.items()]
    command += [f"-o{name}={json.dumps(value)}" for name, value in options.items()]
    command += ["--dynamic"] * case.dynamic + ["--python", asked.python]
    done = subprocess.run(
        [sys.executable, "-m", "perfcli", *command],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    path = store.locate(done.stdout.strip(), folder / store.FOLDER)
    if done.returncode or path is None:
        raise RuntimeError(done.stderr.strip()[-500:])
    return estimate_run(runfile.read(path))


def list_cures(run: Any) -> list[dict[str, Any]]:
    """Return each different cure of a run, with what all findings cost that propose it."""
    from perfcli import diagnosis

    found: dict[str, dict[str, Any]] = {}
    for finding in diagnosis.explain(run):
        if finding.cost is None or finding.explained_by or finding.code.startswith(HOST):
            continue
        for cure in finding.cures:
            key = json.dumps(dict(cure.options), sort_keys=True)
            kernels = set(finding.kernels)
            entry = found.setdefault(
                key, {"cure": dict(cure.options), "codes": [], "cost": 0.0, "low": 0.0,
                      "high": 0.0, "share": 0.0, "kernels": []},
            )  # fmt: skip
            if kernels.isdisjoint(entry["kernels"]):  # a kernel counts once
                for name in ("low", "high", "share"):
                    entry[name] += getattr(finding.cost, name) or 0.0
                entry["cost"] += finding.cost.seconds
            entry["codes"].append(finding.code)
            entry["kernels"] += finding.kernels
    return list(found.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--only", default="", help="scenarios that hold this text")
    parser.add_argument("--skip", type=int, default=0, help="cases")
    parser.add_argument("--folder", type=Path, help="where runs are stored")
    asked = parser.parse_args(arguments)
    from perfcli.predict.savings import estimate_total

    folder = asked.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    for case in (each for each in CASES[asked.skip :] if asked.only in each.scenario):
        given = {"scenario": refer_to(case), "params": dict(case.params), "dynamic": case.dynamic,
                 "options": dict(case.options)}  # fmt: skip
        try:
            run = compile_run(case, case.options, asked, folder)
            before = estimate_total(run)
            cures = list_cures(run)
            for entry in cures:
                cured = compile_run(case, {**case.options, **entry["cure"]}, asked, folder)
                after = estimate_total(cured)
                known = before is not None and after is not None
                entry["compiled"] = (before or 0.0) - (after or 0.0) if known else None
                entry["step"] = before
        except RuntimeError as error:
            print(f"{case.scenario}: {error}", file=sys.stderr)
            continue
        entries += [{**given, **entry} for entry in cures]
        what = " ".join(f"{n}={v}" for n, v in {**case.params, **case.options}.items())
        for entry in cures:
            compiled = "–" if entry["compiled"] is None else f"{entry['compiled'] * 1e6:.1f} µs"
            told = f"{'+'.join(entry['codes'])} {entry['cost'] * 1e6:.1f} µs, compiled {compiled}"
            print(f"{case.scenario} {what}: {told} with {entry['cure']}", flush=True)
        if not cures:
            print(f"{case.scenario} {what}: no cure", flush=True)
        asked.out.write_text(json.dumps(entries, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
