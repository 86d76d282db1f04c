"""How often verdicts are wrong, and how far estimates are off: perfcli and other tools on fresh
pairs of workers, with nothing planted or a known slowdown, half of them on a busy machine.

    python bench/accuracy.py perfcli --pairs 60 --plant 3 --out planted.jsonl
    python bench/accuracy.py tools --pairs 20 --out tools.jsonl
    python bench/accuracy.py summary planted.jsonl tools.jsonl

Each pair is written as soon as it is done; the same command again goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import accuracy_perfcli
import accuracy_records as records
import accuracy_tools
from accuracy_records import Campaign, Pair, Record
from accuracy_setup import Tools, tools_in
from accuracy_table import table
from accuracy_tools import Said
from accuracy_workers import Door, doors
from load_generator import load

PERFCLI = "perfcli"
Through = Callable[[Sequence[Door], float, Path, Tools], Said]


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.what == "summary":
        print(table([record for file in arguments.files for record in records.read(file)]), end="")
        return 0
    campaign = Campaign(
        scenario=arguments.scenario,
        params=tuple(arguments.param),
        preset=arguments.preset,
        planted=arguments.plant,
        seconds=arguments.budget,
        seed=arguments.seed,
        load=arguments.load,
    )
    if arguments.what == "tools":
        tools = tools_in(arguments.tools)
        names = [tools.pyperf, tools.hyperfine, *tools.pytest_benchmark]
        _run(campaign, arguments, names, lambda pair: through_tools(campaign, pair, tools))
    else:
        _run(campaign, arguments, [PERFCLI], lambda pair: through_perfcli(campaign, pair))
    print(table(records.read(arguments.out)), end="")
    return 0


def through_perfcli(campaign: Campaign, pair: Pair) -> list[Record]:
    started = time.monotonic()
    said = accuracy_perfcli.measured(campaign, pair)
    return [records.record(PERFCLI, pair, campaign, said, time.monotonic() - started)]


def through_tools(campaign: Campaign, pair: Pair, tools: Tools) -> list[Record]:
    """All tools on the same pair of workers, in an order that is drawn."""
    order: list[tuple[Through, Sequence[str]]] = [
        (accuracy_tools.pyperf, (tools.pyperf,)),
        (accuracy_tools.hyperfine, (tools.hyperfine,)),
        (accuracy_tools.pytest_benchmark, tools.pytest_benchmark),
    ]
    random.Random(pair.seed).shuffle(order)
    started = time.monotonic()
    done: list[Record] = []
    with doors(campaign, pair) as sides:
        for tool, names in order:
            for name, said in _through(tool, names, sides, campaign.seconds, tools):
                wall = time.monotonic() - started
                done.append(records.record(name, pair, campaign, said, wall))
    return done


def _through(
    tool: Through, names: Sequence[str], sides: Sequence[Door], seconds: float, tools: Tools
) -> Said:
    """What the tool says; where it fails, that it did: the campaign goes on."""
    with tempfile.TemporaryDirectory(prefix="perfcli-accuracy-") as folder:
        try:
            return tool(sides, seconds, Path(folder), tools)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return [(name, {"verdict": "failed", "why": str(error)[-500:]}) for name in names]


def _run(
    campaign: Campaign,
    arguments: argparse.Namespace,
    names: Sequence[str],
    measure: Callable[[Pair], list[Record]],
) -> None:
    try:
        left = records.missing(arguments.out, campaign, arguments.pairs, names)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    for pair in left:
        with load(pair.seed, pair.loaded):
            done = measure(pair)
        records.append(arguments.out, done)
        for record in done:
            sys.stderr.write(_line(record))


def _line(record: Record) -> str:
    ratio = "" if record.ratio is None else f"{record.ratio - 1:+.2%}"
    load = "loaded" if record.loaded else "quiet"
    return f"{record.pair:3} {load:6} {record.tool}: {record.verdict} {ratio} {record.why}\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="what", required=True)
    for name, pairs in ((PERFCLI, 60), ("tools", 20)):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, required=True, help="JSON lines, added to")
        command.add_argument("--pairs", type=int, default=pairs)
        command.add_argument("--budget", type=float, default=20, help="seconds, both sides")
        command.add_argument("--plant", type=float, default=0, help="percent, head is slowed down")
        command.add_argument("--scenario", default="softmax")
        command.add_argument("-p", "--param", action="append", default=[])
        command.add_argument("--preset", default="smoke")
        command.add_argument("--load", choices=("half", "none", "all"), default="half")
        command.add_argument("--seed", type=int, default=1)
    commands.choices["tools"].add_argument(
        "--tools", type=Path, default=Path(".venv-accuracy"), help="made where it is missing"
    )
    commands.add_parser("summary").add_argument("files", type=Path, nargs="+")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
