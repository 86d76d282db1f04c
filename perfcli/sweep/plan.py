"""What a sweep consists of: lists for each axis, typed or from a TOML file, and their product."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.model import Scalar
from perfcli.names import suggestion
from perfcli.workflow.request import Question, Side

UNSET = "unset"
"""The value of an option that is left as it is."""
MOST_VARIANTS = 20_000
_EXAMPLE = 'scenario = "softmax"'
_KEYS = ("scenario", "param", "option", "target", "python", "preset", "device", "dynamic")


@dataclass(frozen=True, slots=True)
class Block:
    """Holds the values of each axis; its variants are all their combinations. An axis without
    values is left as it is."""

    scenarios: tuple[str, ...] = ()
    params: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    options: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    preset: str | None = None
    device: str | None = None
    dynamic: bool = False

    @property
    def size(self) -> int:
        axes = (self.scenarios, self.targets, self.pythons)
        values = (*self.params.values(), *self.options.values(), *axes)
        return math.prod(len(each) for each in values if each)

    def update(self, typed: Block) -> Block:
        """Return the block with what was typed instead of what it says itself."""
        return Block(
            typed.scenarios or self.scenarios,
            {**self.params, **typed.params},
            {**self.options, **typed.options},
            typed.targets or self.targets,
            typed.pythons or self.pythons,
            typed.preset or self.preset,
            typed.device or self.device,
            typed.dynamic or self.dynamic,
        )


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """Holds one combination: what is asked of whoever compiles, and its place on each axis."""

    question: Question
    side: Side
    params: Mapping[str, Scalar]
    options: Mapping[str, Scalar]
    target: str


def read_lists(texts: Sequence[str], what: str) -> dict[str, tuple[Scalar, ...]]:
    """Return the values of what was typed as ``NAME=A,B,…``. Raises PerfcliError."""
    found: dict[str, tuple[Scalar, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise PerfcliError(f"{what} is written NAME=A,B,…; got {text!r}")
        if name in found:
            raise PerfcliError(f"{what} {name} is given twice: write {name}=A,B,…")
        found[name] = _check_values(split_list(values), f"{what} {name}")
    return found


def split_list(text: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in text.split(","))


def _check_values(values: Sequence[Any], where: str) -> tuple[Scalar, ...]:
    """Return the values of an axis. Raises PerfcliError for none, for lists and tables, and for one
    that is there twice: it would be compiled once."""
    if not values or "" in values:
        raise PerfcliError(f"{where} has an empty value: write its values, separated by commas")
    for value in values:
        if not isinstance(value, bool | int | float | str):
            raise PerfcliError(f"{where} is a number, a text, true or false, not {value!r}")
    texts = [units.setting(value) for value in values]
    if again := next((text for text in texts if texts.count(text) > 1), ""):
        raise PerfcliError(f"{where} has {again} twice: every variant is compiled once")
    return tuple(values)


def read_plan(path: Path) -> list[Block]:
    """Return the blocks of a TOML file: the tables ``[[sweep]]``, or the whole file as one. Raises
    PerfcliError for a file that can't be read, unknown keys and wrong types."""
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PerfcliError(f"{path} is not TOML: {error}") from error
    tables = document.pop("sweep", None)
    if tables is None:
        return [_read_block(document, str(path))]
    if not isinstance(tables, list) or not tables:
        raise PerfcliError(f"{path}: sweep is a list of tables, [[sweep]] with {_EXAMPLE}")
    # What stands above the tables is said of all of them.
    common = _read_block(document, str(path))
    blocks = [_read_block(each, f"{path}: sweep[{n}]") for n, each in enumerate(tables)]
    return [common.update(block) for block in blocks]


def _read_block(values: Any, where: str) -> Block:
    if not isinstance(values, dict):
        raise PerfcliError(f"{where} has to be a table, with {_EXAMPLE}")
    for key in values:
        if key not in _KEYS:
            raise PerfcliError(f"{where}: no key {key!r}: {suggestion(key, _KEYS)}")
    dynamic = values.get("dynamic", False)
    if not isinstance(dynamic, bool):
        raise PerfcliError(f"{where}: dynamic is true or false, not {dynamic!r}")
    return Block(
        _read_texts(values, "scenario", where),
        _read_axes(values, "param", where),
        _read_axes(values, "option", where),
        _read_texts(values, "target", where),
        _read_texts(values, "python", where),
        _read_text(values, "preset", where),
        _read_text(values, "device", where),
        dynamic,
    )


def _read_text(values: Mapping[str, Any], key: str, where: str) -> str | None:
    found = values.get(key)
    if found is not None and not isinstance(found, str):
        raise PerfcliError(f"{where}: {key} is text in quotes, not {found!r}")
    return found


def _read_texts(values: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    if key not in values:
        return ()
    listed = values[key] if isinstance(values[key], list) else [values[key]]
    found = _check_values(listed, f"{where}: {key}")
    if wrong := next((each for each in found if not isinstance(each, str)), None):
        raise PerfcliError(f"{where}: {key} is text in quotes, not {wrong!r}")
    return tuple(map(str, found))


def _read_axes(values: Mapping[str, Any], key: str, where: str) -> dict[str, tuple[Scalar, ...]]:
    table = values.get(key, {})
    if not isinstance(table, dict):
        raise PerfcliError(f"{where}: {key} is a table, [{key}] with NAME = [A, B]")
    return {
        name: _check_values(each if isinstance(each, list) else [each], f"{where}: {key}.{name}")
        for name, each in table.items()
    }


def list_points(blocks: Sequence[Block]) -> list[SweepPoint]:
    """Return all combinations of all blocks, each once. Raises PerfcliError where there is nothing
    to sweep, and for more than ``MOST_VARIANTS``."""
    if bare := next((block for block in blocks if not block.scenarios), None):
        known = ", ".join((*bare.params, *bare.options))
        of = f" for {known}" if known else ""
        raise PerfcliError(f"no scenario{of}: name some, or write {_EXAMPLE} into the file")
    if (size := sum(block.size for block in blocks)) > MOST_VARIANTS:
        raise PerfcliError(
            f"{size:,} variants are more than {MOST_VARIANTS:,}: leave out values, or sweep parts"
        )
    points: dict[Any, SweepPoint] = {}
    for block in blocks:
        for point in _combine(block):
            points.setdefault((point.question, point.side), point)
    return list(points.values())


def _combine(block: Block) -> Iterator[SweepPoint]:
    """Yield the combinations of a block: what is computed changes last, what it is compiled with
    first, so that variants to choose from stand together."""
    for scenario, target in itertools.product(block.scenarios, block.targets or (None,)):
        for params in _product(block.params):
            texts = units.settings(params)
            question = Question(scenario, texts, block.preset, target, block.device, block.dynamic)
            for python in block.pythons or (None,):
                for options in _product(block.options):
                    known = {n: v for n, v in options.items() if v != UNSET}
                    side = Side(units.settings(known), python)
                    yield SweepPoint(question, side, params, options, target or "")


def _product(axes: Mapping[str, Sequence[Scalar]]) -> Iterator[dict[str, Scalar]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def set_typed(blocks: Sequence[Block], typed: Block) -> list[Block]:
    """Return the blocks with what was typed beside the file; the typed one alone without a file."""
    return [block.update(typed) for block in blocks] or [typed]
