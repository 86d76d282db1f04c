"""Fits the constants of library operators to their measured times, and says how good they are.

``python bench/operator_fit.py TIMES.jsonl... -o perfcli/data/operators/h200.json`` takes what
``bench/operators_on_gpu.py`` measured. ``--held-out TIMES.jsonl`` measures calls that the fit
does not see. Needs numpy and scipy.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from perfcli.facts.operator_work import count_operator_work
from perfcli.machine import targets
from perfcli.model import Buffer, OperatorWork
from perfcli.predict import operators

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32"}
BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4}
START = {
    "product": {"launch": 2.0, "rate": 6e6, "tile": 1.0, "feed": 3e-7, "step": 0.05, "l2": 5e7, "dram": 4.5e6, "split": 3.0,  # noqa: E501
                    "partial": 6e6, "norm": 2.0, "bias": 0.05, "added": 1.0},
    "attention": {"launch": 3.0, "pair": 4e-6, "exponential": 1e-4, "dropout": 0.3, "mask": 1e-4, "tile": 1.0,  # noqa: E501
                      "tail": 0.5, "dram": 4.5e6, "around": 1e9, "norm": 2.0},
    "convolution": {"launch": 2.0, "rate": 6e6, "tile": 1.0, "feed": 1e-6, "step": 0.1, "dram": 4.5e6, "norm": 2.0,  # noqa: E501
                        "copy_launch": 4.0, "copy_dram": 1.2e6},
    "moving": {"launch": 2.0, "rate": 1e7, "dram": 2e6, "copy_dram": 2e6},
}  # fmt: skip
LENGTHS, NOISES = (0.5, 0.8, 1.5, 3.0), (0.1, 0.3, 1.0)
HOST_STEP, HOST_LAUNCH = 1500.0, 25.0
"""Microseconds: what is left of four host-bound training steps without their operators."""
FEW, LEAST_WIDTH = 20, 0.4
MOST = 1.5
"""An error of the formula beyond this (a factor of 4.5) counts as this: one call of an odd kernel
says nothing of its neighbours."""
FIELDS = {
    "product": ("m", "n", "k", "batch", "left", "right", "align", "batched", "bias", "added"),
    "attention": ("heads", "queries", "keys", "width", "causal", "mask", "dropout"),
    "convolution": ("images", "in", "out", "pixels", "made", "taps", "tap", "stride", "dilation",
                    "groups", "transposed", "dims", "channels_last"),
    "other": ("row", "read", "written"),
}  # fmt: skip


def tensor(shape: tuple[int, ...], precision: str, order: tuple[int, ...] = ()) -> Buffer:
    """Return a tensor; ``order`` lists its dimensions from the outermost in memory inwards."""
    strides, step = [0] * len(shape), 1
    for dimension in reversed(order or range(len(shape))):
        strides[dimension] = step
        step *= shape[dimension]
    size = math.prod(shape) * BYTES[precision]
    return Buffer("", "", "input", DTYPES[precision], shape, tuple(strides), size)


def work_of(row: Mapping[str, Any]) -> OperatorWork:
    """Return the work of a measured call."""
    p = row["p"]
    name, reads, writes, arguments = _call(row["f"], row.get("sub", ""), p)
    arguments["tf32"] = p["dt"] == "tf32"
    work = count_operator_work(name, reads, writes, arguments)
    assert work is not None
    return work


def _call(
    family: str, sub: str, p: Mapping[str, Any]
) -> tuple[str, list[Buffer], list[Buffer], dict[str, Any]]:
    d = p["dt"]
    if family == "mm":
        lead = (p["b"],) if p["op"] in ("bmm", "baddbmm") else ()
        last = len(lead)
        turned = (*range(last), last + 1, last)
        left = tensor((*lead, p["m"], p["k"]), d, turned if p["ta"] else ())
        right = tensor((*lead, p["k"], p["n"]), d, turned if p["tb"] else ())
        added = {"addmm": [tensor((p["n"],), d)], "baddbmm": [tensor((p["b"], 1, p["n"]), d)]}
        return (
            p["op"],
            [*added.get(p["op"], []), left, right],
            [tensor((*lead, p["m"], p["n"]), d)],
            {},
        )
    if family == "sdpa":
        query, key = (tensor((p["b"], p["h"], length, p["d"]), d) for length in (p["s"], p["kv"]))
        name = f"_scaled_dot_product_{p['back']}_attention"
        reads = [query, key, key]
        if sub == "bwd":
            name, reads = name + "_backward", [query, *reads]
        if p["mask"]:
            mask = tensor((p["b"], p["h"], p["s"], p["kv"]), d)
            reads.append(
                Buffer(
                    "attn_bias",
                    *(
                        getattr(mask, f)
                        for f in ("name", "role", "dtype", "shape", "stride", "bytes")
                    ),
                )
            )
        return name, reads, [query], {"is_causal": bool(p["causal"]), "dropout_p": p["drop"]}
    if family == "conv":
        nd = p["nd"]
        order = (0, *range(2, nd + 2), 1) if p["cl"] else ()
        image = tensor((p["n"], p["ci"], *[p["hw"]] * nd), d, order)
        channels = (p["ci"], p["co"] // p["g"]) if p["tr"] else (p["co"], p["ci"] // p["g"])
        weight = tensor((*channels, *[p["k"]] * nd), d, order)
        arguments = {
            "stride": [p["st"]] * nd, "padding": [p["pad"]] * nd, "dilation": [p["dil"]] * nd,
            "transposed": bool(p["tr"]), "groups": p["g"],
        }  # fmt: skip
        if sub == "fwd":
            return "convolution", [image, weight], [image], arguments
        arguments["output_mask"] = [sub != "bwdw", sub != "bwdx", False]
        return "convolution_backward", [image, image, weight], [image], arguments
    raise ValueError(family)


def micros_of(row: Mapping[str, Any]) -> float:
    """Return microseconds: the middle, in logarithms, between inputs in the L2 cache and not."""
    return math.sqrt(statistics.median(row["cold"]) * statistics.median(row["hot"]))


def measured(paths: list[Path]) -> list[tuple[OperatorWork, float]]:
    """Return works with their microseconds. The gradient of a convolution's input is what is left
    of both gradients."""
    found: list[tuple[OperatorWork, float]] = []
    pairs: dict[str, dict[str, Mapping[str, Any]]] = collections.defaultdict(dict)
    for path in paths:
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if "cold" not in row or row["f"] not in ("mm", "sdpa", "conv", "other"):
                continue
            if row["f"] == "other":
                found.append((_other_work(row["p"]), micros_of(row)))
            elif row["f"] == "conv" and row["sub"] != "fwd":
                pairs[json.dumps(row["p"])][row["sub"]] = row
            else:
                found.append((work_of(row), micros_of(row)))
    for both in pairs.values():
        if len(both) == 2:
            weight = micros_of(both["bwdw"])
            rest = micros_of(both["bwd"]) - weight
            found.append((work_of(both["bwdw"]), weight))
            if rest > 0.5:
                found.append((work_of({**both["bwd"], "sub": "bwdx"}), rest))
    return found


OTHERS = {
    "copy_t": "copy_", "copy": "copy", "index_put": "index_put", "scatter_add": "scatter_add",
    "embedding_back": "embedding_dense_backward", "fft_r2c": "_fft_r2c", "fft_c2c": "_fft_c2c",
    "argsort_i64": "argsort", "maxpool": "max_pool2d_with_indices", "bilinear": "upsample_bilinear2d",  # noqa: E501
    "maxpool_back": "max_pool2d_with_indices_backward", "avgpool_back": "avg_pool2d_backward",
    "bilinear_back": "upsample_bilinear2d_backward", "nearest_back": "upsample_nearest2d_backward",
    "grid_sample": "grid_sampler_2d", "adaptive_back": "_adaptive_avg_pool2d_backward",
    "unique": "_unique2",
}  # fmt: skip


def _other_work(p: Mapping[str, Any]) -> OperatorWork:
    n, w, size = p["n"], p["w"], BYTES[p["dt"]]
    cells, op = n * w * p.get("hw", 1) ** 2, p["op"]
    reads, writes = {
        "sort": (1, 1 + 8 / size), "topk": (1, 8 * (1 + 8 / size) / w), "cat": (2, 2),
        "argsort_i64": (8 / size, 8 / size), "fill": (0, 1), "randn": (0, 1), "bernoulli": (0, 1),
        "randint": (0, 8 / size / w), "bincount": (8 / size, 50000 * 8 / size / cells),
        "unique": (8 / size, 50000 * 8 / size / cells), "multinomial": (1, 8 / size / w),
        "nonzero": (1, 16 / size * 0.16), "scatter_add": (2 + 8 / size, 1), "index_add": (2, 1),
        "index_put": (2, 1), "masked_select": (1.25, 0.5), "fft_c2c": (2, 2),
        "maxpool": (1, 0.25 * (1 + 8 / size)), "maxpool_back": (1.25 + 2 / size, 1),
        "avgpool_back": (1.25, 1), "bilinear": (1, 4), "bilinear_back": (4, 1),
        "nearest_back": (4, 1), "adaptive_back": (1, 1),
    }.get(op, (1, 1))  # fmt: skip
    sizes = {"row": float(w)}
    return OperatorWork(
        "other",
        p["dt"],
        0.0,
        reads * cells * size,
        writes * cells * size,
        sizes,
        OTHERS.get(op, op),
    )


def group(
    rows: list[tuple[OperatorWork, float]],
) -> dict[str, list[tuple[OperatorWork, Any, float]]]:
    found = collections.defaultdict(list)
    for work, micros in rows:
        for part in operators._parts_of(work) or ():
            found[part.name].append((work, part, micros))
    return found


def stack(parts: list[Any]) -> dict[str, Any]:
    return {name: np.array([p.sizes[name] for p in parts], float) for name in parts[0].sizes}


def start_of(name: str) -> dict[str, float]:
    kind = "moving" if name.startswith("other") or " depthwise " in name else name.split()[0]
    start = dict(START[kind])
    if kind == "product":
        start["rate"] = (
            4e5 if "fp32" in name else 3e6 if "tf32" in name else 6e6 if name.endswith("8") else 2e6
        )
    if kind == "convolution":
        start["rate"] /= 2 if "tf32" in name else 1
        start |= {"split": 4.0, "partial": 3e6} if " weight " in name else {}
    if "backward" in name:
        start |= {"pair": 1e-5, "exponential": 2e-4, "launch": 5.0, "around": 4.5e6, "tail": 1.0}
    if kind == "attention" and name.endswith("fp32"):
        start["pair"] *= 8
    return start


@dataclass(frozen=True)
class Fitted:
    """Holds one class: the constants, and the process of their errors."""

    rows: list[tuple[OperatorWork, Any, float]]
    sms: int
    constants: dict[str, float]
    errors: Any
    """Log ratios of measured to estimated time, of the formula alone."""
    places: Any
    length: float
    """The distance at which two calls have little to do with each other."""
    weights: Any
    left_out: Any
    """The error of each call, in logarithms, where the others are known and it is not."""
    spread: list[list[float]]

    def predict(self, parts: list[Any]) -> Any:
        """Return the logarithms of microseconds, and the distances of the nearest calls."""
        constants = dict(self.constants, sms=self.sms)
        apart = distances(np.array([p.place for p in parts]), self.places)
        log = np.log(parts[0].formula(stack(parts), constants))
        return log + operators._alike(apart / self.length) @ self.weights, apart.min(1)


def fit(
    rows: list[tuple[OperatorWork, Any, float]], sms: int, start: Mapping[str, float]
) -> Fitted:
    """Return the class of these calls, its constants drawn towards those of ``start``."""
    constants, errors = fit_constants(rows, sms, start)
    places = np.array([part.place for _, part, _ in rows])
    apart = distances(places, places)
    length, weights, left_out = fit_errors(apart, errors)
    np.fill_diagonal(apart, np.inf)
    spread = spreads(apart.min(1), left_out)
    return Fitted(rows, sms, constants, errors, places, length, weights, left_out, spread)


def fit_constants(
    rows: list[tuple[OperatorWork, Any, float]], sms: int, start: Mapping[str, float]
) -> tuple[dict[str, float], Any]:
    """Return the constants of the formula, and the log ratios of measured to estimated time that
    they leave."""
    names = list(start)
    origin = np.log([start[n] for n in names])
    sizes = stack([part for _, part, _ in rows])
    measured = np.log([micros for *_, micros in rows])
    formula = rows[0][1].formula

    def miss(values: Any) -> Any:
        constants = dict(zip(names, np.exp(values), strict=True), sms=sms)
        return np.log(formula(sizes, constants)) - measured

    with np.errstate(all="ignore"):
        found = least_squares(
            lambda v: np.r_[miss(v), (v - origin) * 0.3], origin, loss="soft_l1",
            f_scale=0.1, max_nfev=80, diff_step=1e-2,
        )  # fmt: skip
    return dict(zip(names, map(float, np.exp(found.x)), strict=True)), -miss(found.x)


def fit_errors(apart: Any, errors: Any) -> tuple[float, Any, Any]:
    """Return the length, the weights and the errors of calls that are left out, with the length and
    the noise that leave the smallest ones."""
    capped = np.clip(errors, -MOST, MOST)
    best = None
    for length in LENGTHS:
        for noise in NOISES:
            inverse = np.linalg.inv(operators._alike(apart / length) + noise * np.eye(len(errors)))
            weights = inverse @ capped
            left_out = np.abs(weights / np.diag(inverse) + errors - capped)
            score = np.median(left_out) + 0.2 * np.quantile(left_out, 0.9)
            if best is None or score < best[0]:
                best = (score, length, weights, left_out)
    assert best is not None
    return best[1:]


def distances(these: Any, those: Any) -> Any:
    """Return the distance of each of these places to each of those."""
    return np.sqrt(((these[:, None] - those[None]) ** 2).sum(-1))


def spreads(nearest: Any, errors: Any) -> list[list[float]]:
    """Return up to three distances with the 90th percentile of errors up to them."""
    if len(errors) < 60:
        edges = [float(nearest.max())]
    else:
        edges = [float(np.quantile(nearest, q)) for q in (0.4, 0.8, 1.0)]
    found, below = [], -1.0
    for edge in edges:
        inside = (nearest > below) & (nearest <= edge)
        # One more than the share: the next call is one of n + 1.
        count = int(inside.sum())
        if count:
            found.append(
                [
                    round(edge, 3),
                    round(
                        float(np.quantile(errors[inside], min(1.0, 0.9 * (count + 1) / count))), 3
                    ),
                ]
            )
        below = edge
    if len(errors) < FEW:  # too few to say where nine of ten are
        found = [[edge, max(width, LEAST_WIDTH)] for edge, width in found]
    return found


def to_json(fitted: Fitted) -> dict[str, Any]:
    work = fitted.rows[0][0]
    kind = work.family.split()[0]
    columns = FIELDS[kind]
    precisions = sorted({w.precision for w, *_ in fitted.rows})
    fixed = {k: v for k, v in work.sizes.items() if k.startswith("to_")}

    def number(value: float) -> float:
        return int(value) if value == int(value) else round(value, 3)

    rows = []
    for (each, _, micros), weight in zip(fitted.rows, fitted.weights, strict=True):
        known = {**each.sizes, "read": each.read, "written": each.written}
        sizes = [number(known[c]) for c in columns]
        rows.append(
            [
                precisions.index(each.precision),
                *sizes,
                float(f"{micros:.4g}"),
                round(float(weight) * 1000),
            ]
        )
    return {
        "family": work.family, "variant": work.variant,
        "constants": {k: float(f"{v:.4g}") for k, v in fitted.constants.items()},
        "length": fitted.length, "spread": fitted.spread, "precisions": precisions,
        "columns": ["precision", *columns], "fixed": fixed, "rows": rows,
    }  # fmt: skip


def write(
    path: Path,
    classes: Mapping[str, Fitted],
    target: Any,
    machine: Mapping[str, Any],
    host: Mapping[str, float],
) -> None:
    gpu = {
        "name": target.name, "capability": list(target.capability), "sm_count": target.sm_count,
        "bandwidth": target.bandwidth, "peak_flops": target.peak_flops["bf16"],
    }  # fmt: skip
    lines = [f'{{"format": 1, "gpu": {json.dumps(gpu)},', f' "source": {json.dumps(machine["source"])},',  # noqa: E501
             f' "host_micros": {json.dumps(host)},', ' "classes": {']  # fmt: skip
    texts = []
    for name, fitted in sorted(classes.items()):
        data = to_json(fitted)
        rows = ",\n    ".join(json.dumps(r, separators=(",", ":")) for r in data.pop("rows"))
        texts.append(f'  {json.dumps(name)}: {json.dumps(data)[:-1]}, "rows": [\n    {rows}]}}')
    path.write_text("\n".join(lines) + "\n" + ",\n".join(texts) + "\n }\n}\n")


def quantiles(errors: Any) -> str:
    e = np.abs(np.asarray(errors))
    return f"{100 * np.expm1(np.median(e)):5.1f} {100 * np.expm1(np.quantile(e, 0.9)):6.1f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("times", type=Path, nargs="+")
    parser.add_argument("--held-out", type=Path, nargs="*", default=[])
    parser.add_argument("--target", default="h200")
    parser.add_argument("-o", type=Path, default=None)
    given = parser.parse_args()
    target = targets.get(given.target)
    host, machine = {}, {}
    for path in given.times:
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row["f"] == "host" and "us" in row:
                host[row["op"]] = round(row["us"], 1)
            if row["f"] == "machine":
                release = row["torch"].split("+")[0]
                date = f", {row['date']}" if "date" in row else ""
                machine = {"source": f"{row['gpu']}, torch {release}{date}"}
    held = group(measured(given.held_out)) if given.held_out else {}
    classes: dict[str, Fitted] = {}
    everything: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    print(
        f"{'class':42} calls  formula %: median p90 | left out: median p90 | held out: calls median p90 in interval"  # noqa: E501
    )
    for name, rows in sorted(group(measured(given.times)).items()):
        if len(rows) < 4:
            continue
        fitted = classes[name] = fit(rows, target.sm_count, start_of(name))
        text = (
            f"{name:42} {len(rows):5}  {quantiles(fitted.errors)}  | {quantiles(fitted.left_out)}"
        )
        family = " ".join(name.split()[:1])
        everything[family, "left out"] += list(fitted.left_out)
        if name in held:
            log, nearest = fitted.predict([p for _, p, _ in held[name]])
            errors = np.abs(np.log([m for *_, m in held[name]]) - log)
            width = [
                next((w for d, w in fitted.spread if n <= d), fitted.spread[-1][1] * 1.5)
                for n in nearest
            ]
            text += f" | {len(errors):4} {quantiles(errors)} {np.mean(errors <= width):5.0%}"
            everything[family, "held out"] += list(errors)
        print(text)
    for (family, how), errors in sorted(everything.items()):
        print(f"{family:12} {how}: {len(errors):5} calls, {quantiles(errors)}")
    if given.o:
        host = {
            "step": HOST_STEP, "launch": HOST_LAUNCH, "operator": host["addmm"],
            "convolution": host["conv"], "convolution backward": 2 * host["conv"],
            "attention": host["cudnn"], "attention backward": 1.5 * host["cudnn"],
        }  # fmt: skip
        write(given.o, classes, target, machine, host)


if __name__ == "__main__":
    main()
