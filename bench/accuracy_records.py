"""What one pair gave, one JSON line per pair, and which pairs a campaign has."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

VERDICTS = ("slower", "faster", "same", "unsure", "none", "failed")


@dataclass(frozen=True, slots=True)
class Campaign:
    """What all pairs of a campaign have in common."""

    scenario: str
    params: tuple[str, ...]
    preset: str
    planted: float
    """Percent by which head is slowed down; 0: both sides are the same."""
    seconds: float
    """Of measuring, both sides together."""
    seed: int
    load: str
    """Pairs beside which the load generator runs: ``half``, ``all`` or ``none``."""


@dataclass(frozen=True, slots=True)
class Pair:
    number: int
    seed: int
    loaded: bool


@dataclass(frozen=True, slots=True)
class Record:
    """What a tool said of one pair. ``None`` is what it does not say."""

    tool: str
    pair: int
    loaded: bool
    planted: float
    scenario: str
    verdict: str
    """One of VERDICTS. ``none``: no difference was reported, which is not to say ``same``."""
    ratio: float | None = None
    """Head over base, as the tool estimates it."""
    low: float | None = None
    """The 95 % interval of the ratio."""
    high: float | None = None
    floor: float | None = None
    rounds: int | None = None
    seconds: float | None = None
    """Of measuring, both sides, as the wall clock has it."""
    wall: float | None = None
    """Of everything, with starting and compiling."""
    why: str = ""
    settings: str = ""

    @property
    def true_ratio(self) -> float:
        return 1 + self.planted / 100


def pairs(campaign: Campaign, count: int) -> Iterator[Pair]:
    """Of every two pairs in a row one is loaded, which one is drawn. The first pairs are the same
    whatever the count, so that a campaign can be continued with more of them."""
    for number in range(count):
        if campaign.load == "half":
            first = random.Random(f"{campaign.seed} {number // 2}").random() < 0.5
            loaded = first == (number % 2 == 0)
        else:
            loaded = campaign.load == "all"
        yield Pair(number, campaign.seed * 10_000 + number, loaded)


def settings(campaign: Campaign) -> str:
    """All that decides a result, to tell campaigns apart."""
    return json.dumps(asdict(campaign), sort_keys=True)


def read(path: Path) -> list[Record]:
    """The file's records; a last line that was cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [Record(**json.loads(line)) for line in lines]


def missing(path: Path, campaign: Campaign, count: int, tools: Sequence[str]) -> list[Pair]:
    """Pairs that the file does not have for all these tools. Raises ValueError where it holds
    another campaign: they would be counted as one."""
    known = read(path)
    others = {record.settings for record in known} - {settings(campaign)}
    if others:
        raise ValueError(f"{path} holds a campaign with other settings: {others.pop()}")
    done = {(record.tool, record.pair) for record in known}
    return [p for p in pairs(campaign, count) if not {(t, p.number) for t in tools} <= done]


def append(path: Path, records: Sequence[Record]) -> None:
    """Adds a line per record, after what a killed campaign left of its last one is cut off."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if not text.endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(asdict(record)) + "\n" for record in records))


def record(
    tool: str, pair: Pair, campaign: Campaign, said: Mapping[str, object], wall: float
) -> Record:
    return Record(
        tool=tool,
        pair=pair.number,
        loaded=pair.loaded,
        planted=campaign.planted,
        scenario=campaign.scenario,
        wall=round(wall, 2),
        settings=settings(campaign),
        **said,  # type: ignore[arg-type]  # verdict, ratio and so on
    )
