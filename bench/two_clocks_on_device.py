"""What two clocks find on a real GPU: identical models, and models with one more kernel.

    python bench/two_clocks_on_device.py [--seconds N] [--budget SECONDS] [--planted PERCENT …]
                                         [--names NAME …] [--seed N] [--out FILE]
                                         [--sizes FILE]

Fresh processes for each batch: two sides of each model of ``two_clocks_models.py``, and one for
each planted share, whose added kernel is as large as the device's own time of the first pair asks
for. All of a batch get ready at the same time, taking turns on the device; then pairs are measured
one after another, by the very code of ``compare`` (``interleave.pair``, ``stats.timing``): base and
head (nothing is planted), and each of both with what is planted. Batches follow each other until
the seconds are spent. ``--sizes``: the file of an earlier run, which knows how large the added
kernels are, so that the first batch need not measure that. Prints false alarms, the UNSURE share
and what was found, for each clock and for the verdict; writes every pair as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from two_clocks_models import BUSY, NAMES  # noqa: E402

from perfcli.errors import PerfcliError  # noqa: E402
from perfcli.interleave.pair import PairPlan, Race  # noqa: E402
from perfcli.model import (  # noqa: E402
    Ask,
    MeasureRequest,
    Prepared,
    Round,
    RoundKind,
    Scalar,
    SideName,
    Timing,
    Turn,
    Variant,
)
from perfcli.stats import floor, stopping  # noqa: E402
from perfcli.stats.timing import _name_clock, judge_clocks  # noqa: E402
from perfcli.worker.live import LiveWorker, Starter  # noqa: E402
from perfcli.workflow.request import build_request  # noqa: E402

MODELS = Path(__file__).with_name("two_clocks_models.py")
BYTES_OF_EXTRA = 8
"""That the added kernel moves for each float: it reads and writes it."""
LEAST_EXTRA = 1024
GETTING_READY = 90.0
"""Seconds that a batch is expected to get ready in, before the first one says."""


@dataclass(slots=True)
class Side:
    """Holds one live worker, which serves several pairs, one after the other."""

    request: MeasureRequest
    worker: LiveWorker
    prepared: Prepared | None = None
    failure: str = ""

    def get_ready(self) -> None:
        try:
            self.prepared = self.worker.prepare()
        except PerfcliError as error:
            self.failure = f"{error} {error.detail[-600:]}"


class Again:
    """Serves a race as a worker that is ready already, and does not end with it."""

    def __init__(self, side: Side) -> None:
        self._side = side

    def prepare(self) -> Prepared:
        assert self._side.prepared is not None
        return self._side.prepared

    def turn(self, ask: Ask) -> Turn:
        return self._side.worker.turn(ask)

    def close(self) -> None:
        pass


class Nobody:
    """Is told of everything, and keeps nothing."""

    def prepared(self, prepared: Prepared) -> None: ...

    def round(self, measured: Round, elapsed: float) -> None: ...


@dataclass(slots=True)
class Bench:
    """Measures batches of pairs."""

    folder: Path
    budget: float
    planted: Sequence[float]
    started: float = field(default_factory=time.monotonic)
    pairs: list[dict[str, Any]] = field(default_factory=list)
    sides: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[tuple[str, float], int] = field(default_factory=dict)
    getting_ready: float = GETTING_READY

    def start(self, name: str, side: SideName, seed: int, share: float = 0.0) -> Side:
        params: dict[str, Scalar] = {"name": name, "extra": self.extra.get((name, share), 0)}
        compiled = build_request(
            f"{MODELS}:build", Variant("default"), params=params, on_device=True, jobs=2
        )
        request = MeasureRequest(compiled, side, seed, check=False)
        caches = self.folder / "caches"
        caches.mkdir(parents=True, exist_ok=True)
        return Side(request, Starter(caches, 300.0)(request, lambda phase: None))

    def get_ready(self, sides: Sequence[tuple[str, float, Side]]) -> None:
        """Get all of them ready at the same time, and note how that went."""
        began = time.monotonic()
        with ThreadPoolExecutor(len(sides)) as pool:
            list(pool.map(lambda each: each[2].get_ready(), sides))
        took = time.monotonic() - began
        print(f"{len(sides)} workers ready in {took:.0f} s", flush=True)
        for name, share, side in sides:
            known = side.prepared
            self.sides.append(
                {
                    "name": name,
                    "planted": share,
                    "side": side.request.side,
                    "failure": side.failure,
                    "device_clock": known.device_clock if known else "",
                    "no_graph": known.no_graph if known else "",
                    "launches": known.launch_count if known else None,
                    "extra": side.request.compile.params["extra"],
                }
            )
            if side.failure:
                print(f"{name}: {side.failure[:300]}", flush=True)

    def measure(self, name: str, share: float, base: Side, head: Side, seed: int) -> Timing | None:
        if base.prepared is None or head.prepared is None:
            return None
        ready = (base.prepared, head.prepared)
        plan = PairPlan(base.request, head.request, self.budget, seed)
        inside = floor.find_floor("cuda", ()).inside
        workers = iter((Again(base), Again(head)))

        def enough(rounds: Sequence[Round], kind: RoundKind) -> str | None:
            return stopping.reason_to_stop(rounds, inside, kind)

        began = time.monotonic()
        done = Race(plan, lambda request, told: next(workers), enough, Nobody()).run()
        timing = judge_clocks(done.rounds, "cuda", _name_clock(ready))
        self.pairs.append(
            {
                "name": name,
                "planted": share,
                "verdict": timing.deciding.verdict,
                "clock": timing.clock,
                "device_clock": timing.device_clock,
                "device": asdict(timing.device) if timing.device else None,
                "step": asdict(timing.step),
                "waiting": timing.waiting,
                "stopped": done.stopped,
                "seconds": timing.seconds,
                "took": time.monotonic() - began,
                "rounds": dict(Counter(r.kind for r in done.rounds)),
                "at": time.monotonic() - self.started,
                "states": [
                    asdict(state)
                    for made in done.rounds[:400]
                    for state in (made.base.state, made.head.state)
                    if state is not None
                ][-2:],
            }
        )
        return timing

    def run_batch(self, names: Sequence[str], seed: int, is_over: Callable[[], bool]) -> None:
        began = time.monotonic()
        plain = [(name, 0.0, self.start(name, side, seed)) for name in names for side in _SIDES]
        others: list[tuple[str, float, Side]] = []
        try:
            # What is planted is known from the second batch on: then all get ready at once.
            if known := bool(self.extra):
                others = self._start_planted(names, seed)
            self.get_ready([*plain, *others])
            pairs = {name: [s for n, _, s in plain if n == name] for name in names}
            for name, (base, head) in pairs.items():
                if is_over():
                    return
                timing = self.measure(name, 0.0, base, head, seed)
                self._size_extra(name, timing, base)
            if not known:
                others = self._start_planted(names, seed)
                if others:
                    self.get_ready(others)
            else:
                self.getting_ready = time.monotonic() - began
            for name, share, slower in others:
                for base in pairs[name]:
                    if is_over():
                        return
                    self.measure(name, share, base, slower, seed + 1)
        finally:
            for _, _, side in [*plain, *others]:
                side.worker.close()

    def _start_planted(self, names: Sequence[str], seed: int) -> list[tuple[str, float, Side]]:
        wanted = [(n, share) for share in self.planted for n in names if (n, share) in self.extra]
        return [(name, share, self.start(name, "head", seed, share)) for name, share in wanted]

    def _size_extra(self, name: str, timing: Timing | None, base: Side) -> None:
        """Learn how many floats the added kernel goes over, from the device's own time."""
        device = timing.device if timing else None
        copy = base.prepared.copy_bandwidth if base.prepared else None
        if device is None or device.base is None or copy is None:
            return
        for share in self.planted:
            floats = int(share * device.base * copy / BYTES_OF_EXTRA)
            self.extra.setdefault((name, share), max(floats, LEAST_EXTRA))


_SIDES: tuple[SideName, SideName] = ("base", "head")


def write_summary(pairs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each planted share and clock, and the pairs that went wrong."""
    for share in sorted({pair["planted"] for pair in pairs}):
        for kind, names in (("busy", BUSY), ("waiting", NAMES[len(BUSY) :])):
            ours = [p for p in pairs if p["planted"] == share and p["name"] in names]
            for what in ("verdict", "device", "step"):
                said = Counter(_read(pair, what) for pair in ours)
                counts = ", ".join(f"{n} {word}" for word, n in said.most_common())
                yield f"planted {share * 100:g} %, {kind}, {what}: {counts} of {len(ours)}"
    for pair in pairs:
        right = "slower" if pair["planted"] else "same"
        word = _read(pair, "device")
        if word != right or pair["verdict"] != right:
            ratio = (pair["device"] or {}).get("ratio") or 0.0
            yield (
                f"{pair['name']} planted {pair['planted'] * 100:g} %: {pair['verdict']} by the "
                f"{pair['clock']}; device {word} {ratio - 1:+.3%}, step {pair['step']['verdict']} "
                f"{(pair['step']['ratio'] or 0.0) - 1:+.2%}"
            )


def _read(pair: dict[str, Any], what: str) -> str:
    found = pair[what]
    return str(found["verdict"] if isinstance(found, dict) else found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=220.0)
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--planted", type=float, nargs="*", default=[3.0], help="percent")
    parser.add_argument("--names", nargs="*", choices=NAMES, default=list(NAMES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("two_clocks.json"))
    parser.add_argument("--sizes", type=Path)
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), asked.budget, [share / 100 for share in asked.planted])
        if asked.sizes:
            for side in json.loads(asked.sizes.read_text())["sides"]:
                if side["planted"] in bench.planted:
                    bench.extra[side["name"], side["planted"]] = side["extra"]
        seed = asked.seed
        while time.monotonic() + (bench.getting_ready if bench.pairs else 0.0) < end:
            bench.run_batch(asked.names, seed, lambda: time.monotonic() >= end)
            print(f"{len(bench.pairs)} pairs", flush=True)
            seed += 10
            _write(bench, asked.out)
    print("\n".join(write_summary(bench.pairs)))


def _write(bench: Bench, path: Path) -> None:
    document = {"pairs": bench.pairs, "sides": bench.sides}
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
