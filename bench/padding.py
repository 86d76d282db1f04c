"""Holds Inductor's padding decisions, measured on a GPU, against the predicted ones.

    python bench/padding.py OUT.json [--files FILE.py …] [--limit SECONDS]
    python bench/padding.py --stored            anywhere: bench/padding_decisions.jsonl

Models with sizes that are no multiples of 8, those of this file and of others (``ARCHITECTURES``),
are compiled no further than their graphs. Whenever Inductor times a matrix product as it is and
padded, its answer is kept beside the one that perfcli gives without a device.

``--stored`` holds predictions against decisions of an H200 that are in the repository: ``quiet``
ones of these models, timed while nothing else ran (2026-11-23, with both times), and ``busy`` ones
of architectures and scripts of which 16 processes at a time compiled, read off the operators that
they called (the same day; torch 2.11.0, a few of torch 2.13.0).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

ARCHITECTURES = (
    "gpt2",
    "bert",
    "speech",
    "whisper_head",
    "recommender",
    "citations",
    "digits",
    "sensors",
    "windows",
    "patches",
    "odd_width",
    "tagger",
)
STORED = Path(__file__).with_name("padding_decisions.jsonl")
CLEAR = 1.1
"""Between 1 ÷ this and this times the limit of 1.1, measuring again may decide otherwise."""


def _train(model: Any, *inputs: Any, autocast: str | None = None, dtype: str = "bfloat16") -> Any:
    import torch

    from perfcli.model import Workload

    if autocast is None:
        model = model.to(getattr(torch, dtype))
        inputs = tuple(
            x.to(getattr(torch, dtype)) if x.dtype.is_floating_point else x for x in inputs
        )
    return Workload(
        lambda *given: model(*given).float().square().mean(),
        inputs,
        mode="training",
        autocast=autocast,
    )


def _encoder(width: int, heads: int, words: int, tokens: tuple[int, int], **more: Any) -> Any:
    """Return embeddings, two blocks and a head over ``words``."""
    import torch
    from torch import nn

    block = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
    model = nn.Sequential(
        nn.Embedding(words, width), nn.TransformerEncoder(block, 2), nn.Linear(width, words)
    )
    return _train(model, torch.randint(0, words, tokens), **more)


def gpt2() -> Any:
    """Return a head over 50,257 words."""
    return _encoder(768, 12, 50257, (8, 512))


def bert() -> Any:
    """Return a head over 30,522 words, under autocast."""
    return _encoder(512, 8, 30522, (16, 128), autocast="bfloat16")


def speech() -> Any:
    """Return a recogniser of 29 letters over 1,000 frames."""
    return _encoder(512, 8, 29, (8, 1000))


def whisper_head() -> Any:
    """Return a head over 51,865 words, for few tokens."""
    return _encoder(512, 8, 51865, (2, 224), dtype="float16")


def odd_width() -> Any:
    """Return blocks 510 wide."""
    return _encoder(510, 6, 8192, (8, 384))


def tagger() -> Any:
    """Return a tagger with 17 tags in float32."""
    return _encoder(300, 6, 17, (32, 250), dtype="float32")


def _layers(*widths: int) -> Any:
    from torch import nn

    pairs = itertools.pairwise(widths)
    return nn.Sequential(*(m for pair in pairs for m in (nn.Linear(*pair), nn.ReLU())))


def recommender(rows: int = 16384) -> Any:
    """Return 13 numbers and 26 embeddings: 367 features."""
    import torch
    from torch import nn

    class Model(nn.Module):  # type: ignore[misc]  # torch may not be there
        def __init__(self) -> None:
            super().__init__()
            self.bottom, self.top = _layers(13, 512, 256, 64), _layers(415, 1024, 1024, 512, 1)
            self.tables = nn.ModuleList(nn.Embedding(1000, 64) for _ in range(26))

        def forward(self, dense: Any, sparse: Any) -> Any:
            x = self.bottom(dense)
            all_ = torch.stack([x, *(t(sparse[:, i]) for i, t in enumerate(self.tables))], 1)
            pairs = all_ @ all_.transpose(1, 2)
            below = torch.tril_indices(27, 27, -1, device=x.device)
            return self.top(torch.cat([x, pairs[:, below[0], below[1]]], 1))

    return _train(Model(), torch.randn(rows, 13), torch.randint(0, 1000, (rows, 26)))


def citations(nodes: int = 19717) -> Any:
    """Return a graph's layers over 1,433 words and 7 classes."""
    import torch

    return _train(_layers(1433, 256, 256, 7), torch.randn(nodes, 1433), autocast="bfloat16")


def digits(rows: int = 8192) -> Any:
    """Return layers of 784, 300 and 10."""
    import torch

    return _train(_layers(784, 300, 100, 10), torch.randn(rows, 784), dtype="float32")


def sensors(batch: int = 64) -> Any:
    """Return layers over 321 series of 96 steps, along either."""
    import torch
    from torch import nn

    class Model(nn.Module):  # type: ignore[misc]  # torch may not be there
        def __init__(self) -> None:
            super().__init__()
            self.along, self.across = _layers(96, 333, 720), _layers(321, 1025, 321)

        def forward(self, x: Any) -> Any:
            return self.across(self.along(x.transpose(1, 2)).transpose(1, 2))

    return _train(Model(), torch.randn(batch, 96, 321))


def _attend(batch: int, heads: int, length: int, width: int, **more: Any) -> Any:
    import torch
    from torch import nn

    class Model(nn.Module):  # type: ignore[misc]  # torch may not be there
        def __init__(self) -> None:
            super().__init__()
            self.joint = nn.Linear(heads * width, 3 * heads * width)
            self.bias = nn.Parameter(torch.zeros(heads, length, length))

        def forward(self, x: Any) -> Any:
            q, k, v = self.joint(x).view(batch, length, 3, heads, width).permute(2, 0, 3, 1, 4)
            scores = (q @ k.transpose(-1, -2) * width**-0.5 + self.bias).softmax(-1)
            return (scores.to(v.dtype) @ v).transpose(1, 2).flatten(2)

    return _train(Model(), torch.randn(batch, length, heads * width), **more)


def windows() -> Any:
    """Return attention in windows of 49 tokens with a bias."""
    return _attend(1024, 3, 49, 32)


def patches() -> Any:
    """Return attention over 197 tokens with a bias."""
    return _attend(32, 6, 197, 64, autocast="bfloat16")


class _Enough(Exception):
    """Ends a compilation whose graphs were padded."""


def measure(out: Path, scenarios: Sequence[str], limit: float) -> None:
    found: list[dict[str, Any]] = []
    end = time.monotonic() + limit
    for scenario in scenarios:
        if time.monotonic() > end:
            print(f"no time left for {scenario}")
            continue
        try:
            found += [{"scenario": scenario, **each} for each in decide(scenario)]
        except Exception as error:  # one that fails takes no other with it
            print(f"{scenario}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        out.write_text(json.dumps(found))
    report(found)


def decide(scenario: str) -> Iterator[dict[str, Any]]:
    """Yield each decision of one model: where Inductor measures, with both times."""
    import torch
    import torch._dynamo
    from torch._inductor import compile_fx
    from torch._inductor.fx_passes import pad_mm

    from perfcli.compile import tracing
    from perfcli.compile.building import build_users_workload
    from perfcli.compile.stand_in.decisions import (
        _decide_padding,
        _describe_operand,
        _name_precision,
    )
    from perfcli.console.notes import Notes
    from perfcli.machine import targets
    from perfcli.workflow.context import Context
    from perfcli.workflow.request import Question, Side, make_jobs

    target = targets.this_gpu()
    found: list[dict[str, Any]] = []
    times: list[tuple[float, float]] = []
    original, compare = pad_mm._should_pad, pad_mm.is_padded_faster

    def keep_times(key: str, before: float, after: float) -> bool:
        times.append((before * 1e3, after * 1e3))
        return bool(compare(key, before, after))

    def should_pad(match: Any, mat1: Any, mat2: Any, op: Any, input: Any = None) -> bool:
        times.clear()
        actual = bool(original(match, mat1, mat2, op, input))
        if times:
            forecast = _decide_padding(target, match, mat1, mat2, op, input)
            sizes = [[int(n) for n in m.shape] for m in (mat1, mat2)]
            operands = [
                asdict(_describe_operand(match, name, m))
                for name, m in (("mat1", mat1), ("mat2", mat2))
            ]
            found.append({
                "op": str(op), "left": sizes[0], "right": sizes[1], "operands": operands,
                "precision": _name_precision(mat1.dtype), "actual": actual,
                "predicted": forecast is not None and forecast.pays,
                "before": times[-1][0], "after": times[-1][1],
            })  # fmt: skip
        return actual

    def stop(*_args: Any, **_kwargs: Any) -> Any:
        raise _Enough

    torch._dynamo.reset()
    tracing.generate_here()
    pad_mm._should_pad, pad_mm.is_padded_faster = should_pad, keep_times
    compile_fx.fx_codegen_and_compile = stop
    (job,) = make_jobs(
        Question(scenario, device="cuda"), [Side()], Context(Notes(quiet=True)).choose_probe("cuda")
    )
    try:
        torch.manual_seed(1)
        with torch.device("cuda"):
            built = build_users_workload(job.request)
        workload = built.workload
        training = workload.mode == "training"
        compiled = torch.compile(workload.call)
        with tracing.autocast(workload), torch.set_grad_enabled(training):
            tracing.backward(compiled(*workload.inputs, **workload.kwargs))
    except Exception as error:
        if "_Enough" not in f"{type(error).__name__} {error}":
            raise
    finally:
        pad_mm._should_pad, pad_mm.is_padded_faster = original, compare
    yield from found


def report(found: Sequence[dict[str, Any]]) -> None:
    """Print how many decisions are predicted as they were measured."""

    def count(some: Sequence[dict[str, Any]]) -> str:
        right = sum(each["actual"] == bool(each["predicted"]) for each in some)
        return f"{right} of {len(some)}"

    clear = [e for e in found if not 1.1 / CLEAR < e["before"] / e["after"] < 1.1 * CLEAR]
    long = [e for e in found if e["before"] >= 100]
    rows = (("all", found), ("not within 10 % of the limit", clear), ("product ≥ 100 µs", long))
    print("| padding decisions | as on the device |")
    print("| --- | --- |")
    for name, some in rows:
        print(f"| {name} | {count(some)} |")
    for each in found:
        if each["actual"] != bool(each["predicted"]):
            print(f"  {each['scenario'].rpartition(':')[2]} {each['op']} {each['left']} "
                  f"{each['right']} {each['precision']}: {each['before']:.0f} against "
                  f"{each['after']:.0f} µs, predicted {each['predicted']}")  # fmt: skip


def report_stored(path: Path) -> None:
    """Print how many stored decisions are predicted as they were, and how often the device answered
    a question both ways."""
    from perfcli.machine import targets

    target = targets.get("h200")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    made = [(row, forecast_of(row, target)) for row in rows]
    print("| decisions | padded | as predicted |")
    print("| --- | ---: | ---: |")
    for state in ("quiet", "busy"):
        for short, what in ((False, "longer"), (True, "shorter than their calls")):
            some = [
                (row["padded"], forecast.pays)
                for row, forecast in made
                if row["from"].startswith(state) and forecast.is_short == short
            ]
            right = sum(actual == expected for actual, expected in some)
            padded = sum(actual for actual, _ in some)
            print(f"| {state}, {what} | {padded} | {right} of {len(some)} |")
    asked: dict[str, list[bool]] = {}
    for row in rows:
        question = {k: v for k, v in row.items() if k not in ("from", "padded", "micros")}
        asked.setdefault(json.dumps(question), []).append(row["padded"])
    again = [answers for answers in asked.values() if len(answers) > 1]
    most = sum(max(answers.count(True), answers.count(False)) for answers in again)
    both = sum(len(set(answers)) > 1 for answers in again)
    print(
        f"{len(again)} questions were asked more than once, and {both} answered both ways: whoever "
        f"knew the usual answer to each would be right in {most} of {sum(map(len, again))}"
    )


def forecast_of(row: dict[str, Any], target: Any) -> Any:
    """Return what is predicted for a stored decision."""
    from perfcli.predict.padding import PaddedMatrix, predict_padding

    lane = 4 if row["precision"] == "fp32" else 8
    (left, right), (left_free, right_free) = (row["left"], row["right"]), row["free"]

    def describe(shape: list[int], stride: list[int], free: bool) -> PaddedMatrix:
        rows, columns = shape[-2:]
        more, wider = (n if n == 1 else -(-n // lane) * lane for n in (rows, columns))
        return PaddedMatrix(rows, columns, more, wider, columns > 1 and stride[-1] != 1, free)

    return predict_padding(
        describe(left[0], left[1], left_free),
        describe(right[0], right[1], right_free),
        left[0][0] if row["op"] == "bmm" else 1,
        row["precision"],
        row["bias"],
        target,
    )


def main() -> None:
    from estimate import MODELS, list_architectures

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--stored", action="store_true", help="decisions of the repository")
    parser.add_argument("--files", type=Path, nargs="*", default=[MODELS])
    parser.add_argument("--limit", type=float, default=120.0)
    given = parser.parse_args()
    if given.stored:
        report_stored(STORED)
        return
    if given.out is None:
        parser.error("name a file for what is measured, or give --stored")
    names = [
        f"{file.resolve()}:{name}"
        for file in (Path(__file__), *given.files)
        for name in list_architectures(file)
    ]
    measure(given.out.resolve(), names, given.limit)


if __name__ == "__main__":
    main()
