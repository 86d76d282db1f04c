"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast, get_args

import typer

from perfcli.errors import PerfcliError
from perfcli.model import Clocks

if TYPE_CHECKING:
    from perfcli.cluster.connection import Cluster
    from perfcli.worker.needs import Needs

Params: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("-p", "--param", metavar="NAME=VALUE", help="Set a parameter of the scenario."),
]
Inputs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME=]SHAPE:DTYPE",
        help="Call a class, an object or a function with this: 8,128:bf16, n=3.",
    ),
]
Script: TypeAlias = Annotated[
    bool, typer.Option("--script", help="Run the file as a script, whatever it looks like.")
]
Steps: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Steps a script runs for. [default: 2]")
]
Words: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGUMENT", help="Arguments of a script; -- may stand before them."),
]
Preset: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Use a set of parameters: smoke, full, …")
]
Target: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Compile for this GPU; it need not be here. [default: h100]"),
]
Device: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="cuda|cpu", help="Use this machine's device. [default: cuda if there is one]"
    ),
]
Dynamic: TypeAlias = Annotated[bool, typer.Option("--dynamic", help="Compile with dynamic shapes.")]
Vary: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=A,B,…",
        help="Also call the model with these values of a parameter: what is compiled again?",
    ),
]
World: TypeAlias = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Compile one rank of a process group of N, one per GPU."),
]
Jobs: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", metavar="N", min=1, help="Compile in N processes. [default: cores]"
    ),
]
Timeout: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=1, help="Give up on a variant after this time."),
]
Fresh: TypeAlias = Annotated[
    bool, typer.Option("--fresh", help="Compile again, even if a stored run is up to date.")
]
Json: TypeAlias = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write JSON; - is stdout.")
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the result in one line, and no progress.")
]
Fake: TypeAlias = Annotated[bool, typer.Option("--fake", hidden=True)]
Calibration: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Estimate times with this calibration. [default: the GPU's]"),
]
TryFixes: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--try-fixes", help="Compile what the findings propose and show whether it helps."
    ),
]
TrustRun: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trust-run",
        help="With --try-fixes: start the Python and use the variables that a stored run names.",
    ),
]
Options: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("-o", "--option", metavar="OPT=VAL", help="Set an Inductor option or a variable."),
]
Python: TypeAlias = Annotated[
    str | None,
    # Named, because typer 0.27.0 takes a metavar that differs from the option in its case alone for
    # the option's name.
    typer.Option("--python", metavar="PYTHON", help="Use this interpreter's torch."),
]
Budget: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.1, help="Measure for at most this long. [default: 20]"),
]
Threads: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Use N threads on the CPU. [default: 1]")
]
Seed: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="Seed for weights, inputs and the order of rounds."),
]
Time: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="both|device|step",
        help="GPU: decide by the device's own time, the step's, or both. [default: both]",
    ),
]
CudaGraph: TypeAlias = Annotated[
    bool, typer.Option("--cuda-graph", help="Time the step as a CUDA graph.")
]
FlushL2: TypeAlias = Annotated[
    bool, typer.Option("--flush-l2", help="GPU: overwrite the L2 cache before each timed step.")
]
AllowEnv: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Measure even if this differs: driver, clocks, cpus, …"),
]
Allow: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ASPECT",
        help="Compare even if this differs: scenario, params, mode, device, target, dynamic.",
    ),
]
NoTime: TypeAlias = Annotated[
    bool, typer.Option("--no-time", help="Compare the code only; measure nothing.")
]

SearchBudget: TypeAlias = Annotated[
    float | None, typer.Option(metavar="SECONDS", min=1, help="Search for at most this long.")
]
MaxVariants: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Compile at most N variants.")
]
Resume: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ID", help="Continue an earlier search.")
]

Config: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Read this configuration. [default: perfcli.toml or pyproject.toml]"
    ),
]
Baseline: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Use this baseline. [default: the one in the configuration]",
    ),
]

Executor: TypeAlias = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="local|ray",
        help="Compile on this machine, or on a Ray cluster (extra ray).",
    ),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Use this Ray cluster. [default: a local one]"),
]
Memory: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[SCENARIO=]SIZE",
        help="What compiling needs: 4GiB. Machines with less are not asked. [default: 2GiB]",
    ),
]


def split_places(typed: str | None) -> tuple[str | None, tuple[int, ...]]:
    """Return the device and its two numbers of ``cuda:0,cuda:1``, or what was typed and none.
    Raises PerfcliError where a number is missing, or both are the same."""
    device, places = split_devices(typed, "two GPUs for base and head")
    if len(places) not in (0, 2):
        raise PerfcliError(
            f"--device {typed}: cuda, cpu, or two GPUs for base and head are expected, as in "
            "cuda:0,cuda:1 (--a-device and --b-device choose GPUs that stay)"
        )
    return device, places


def split_devices(typed: str | None, several: str = "GPUs") -> tuple[str | None, tuple[int, ...]]:
    """Return the device and the numbers of ``cuda:0,cuda:1,…``, or what was typed and none. Raises
    PerfcliError where a number is missing or there twice; ``several`` says what is expected."""
    if typed is None or ("," not in typed and ":" not in typed):
        return typed, ()
    found = [re.fullmatch(r"(cuda|cpu):(\d+)", part.strip()) for part in typed.split(",")]
    places = [(each[1], int(each[2])) for each in found if each]
    if len(set(places)) < len(found) or len({device for device, _ in places}) > 1:
        raise PerfcliError(
            f"--device {typed}: cuda, cpu, or {several} are expected, as in cuda:0,cuda:1"
        )
    return places[0][0], tuple(number for _, number in places)


def choose_clocks(typed: str | None) -> Clocks | None:
    """Return whose time decides, None where nothing was typed. Raises PerfcliError."""
    if typed is None:
        return None
    for known in get_args(Clocks):
        if typed == known:
            return cast("Clocks", known)
    raise PerfcliError(f"--time {typed}: both, device or step is expected")


def use_calibration(path: Path | None) -> None:
    """Estimate with this file from now on, if one is given. Raises PerfcliError for one that can't
    be used."""
    if path is not None:
        from perfcli.predict.calibration import choose_calibration

        choose_calibration(path)


def choose_cluster(executor: str, address: str | None) -> Cluster | None:
    """Return where runs are compiled; None: on this machine. Raises PerfcliError."""
    if executor not in ("local", "ray"):
        raise PerfcliError(f"--executor is local or ray, not {executor!r}")
    if executor == "local":
        if address:
            raise PerfcliError(f"--address {address} is of a Ray cluster: --executor ray")
        return None
    from perfcli.cluster.connection import Cluster

    return Cluster(address or "")


def read_needs(texts: Sequence[str]) -> Needs:
    """Return the memory that compilations need, typed as ``4GiB`` or ``SCENARIO=64GiB``. Raises
    PerfcliError."""
    from perfcli.worker.needs import Needs

    memory: dict[str, int] = {}
    binary: set[str] = set()
    for text in texts:
        scenario, _, size = text.rpartition("=")
        found = _SIZE.fullmatch(size.strip())
        if found is None:
            raise PerfcliError(f"--memory is a size, 4GiB or SCENARIO=64GB, not {text!r}")
        unit = found["unit"].upper()
        memory[scenario] = int(float(found["number"]) * _BYTES[unit])
        (binary.add if unit.endswith("IB") else binary.discard)(scenario)
    return Needs(memory, frozenset(binary))


_BYTES = {"": 1, "MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 1 << 20, "GIB": 1 << 30}
_BYTES |= {"TIB": 1 << 40}
_SIZE = re.compile(rf"(?P<number>\d+(\.\d+)?) ?(?P<unit>{'|'.join(_BYTES)})", re.IGNORECASE)
