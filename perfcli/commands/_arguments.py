"""Options that several commands share, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Params: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("-p", "--param", metavar="NAME=VALUE", help="A parameter of the scenario."),
]
Preset: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="A set of parameters: smoke, full, …")
]
Target: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The GPU to compile for; no GPU is needed. [default: h100]"),
]
Device: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="cuda|cpu", help="The device in this machine. [default: cuda where there is one]"
    ),
]
Dynamic: TypeAlias = Annotated[bool, typer.Option("--dynamic", help="Compile with dynamic shapes.")]
Jobs: TypeAlias = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="N", min=1, help="Compiler processes. [default: cores]"),
]
Timeout: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=1, help="Give up on a variant after this long."),
]
Fresh: TypeAlias = Annotated[
    bool, typer.Option("--fresh", help="Compile even if nothing changed since a stored run.")
]
Json: TypeAlias = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write JSON too; - is stdout.")
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only the result in one line, no progress.")
]
Fake: TypeAlias = Annotated[bool, typer.Option("--fake", hidden=True)]
TryFixes: TypeAlias = Annotated[
    bool,
    typer.Option("--try-fixes", help="Compile what the findings propose and show if it helps."),
]
Options: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("-o", "--option", metavar="OPT=VAL", help="An Inductor option, or a variable."),
]
Python: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PYTHON", help="The interpreter that has torch.")
]
Budget: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.1, help="How long to measure at most. [default: 20]"),
]
Threads: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Threads on the CPU. [default: 1]")
]
Seed: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="Of weights, inputs, and the order of rounds."),
]
CudaGraph: TypeAlias = Annotated[
    bool, typer.Option("--cuda-graph", help="Time the step as a CUDA graph.")
]
FlushL2: TypeAlias = Annotated[
    bool, typer.Option("--flush-l2", help="GPU: write over L2 before each timed step.")
]
AllowEnv: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Measure though this differs: driver, clocks, cpus, …"),
]
Allow: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ASPECT",
        help="Compare though this differs: scenario, params, mode, device, target, dynamic.",
    ),
]
