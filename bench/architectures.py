"""Builds the architectures that architectures.toml lists: public models with random weights, made
small.

    perfcli run bench/architectures.py -p name=llama -p mode=training

They need the library that the list names (transformers 5.17.0, timm, torchvision, diffusers,
torch-geometric) and no network. A training step returns the loss where the model computes one,
else its outputs, each of which gets a gradient of ones.
"""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfcli.model.values import Mode

_FILE = Path(__file__).with_suffix(".toml")
_LOWEST_TOKEN = 3
"""Below it are the special ones."""


def _read_table() -> dict[str, dict[str, Any]]:
    """Return what the list says of each architecture, that of its group included."""
    table: dict[str, dict[str, Any]] = {}
    for group in tomllib.loads(_FILE.read_text())["group"]:
        models = group.pop("models")
        for name, line in models.items():
            table[name] = {"of": name, **group, **line}
            settings = {**group.get("common", {}), **line.get("with", {})}
            table[name]["with"] = {k: v for k, v in settings.items() if v != "drop"}
    return table


TABLE: Mapping[str, Mapping[str, Any]] = _read_table()
ARCHITECTURES = tuple(sorted(TABLE, key=lambda name: bool(TABLE[name].get("large"))))


def build(name: str = "llama", mode: Mode = "forward") -> Any:
    """Return an architecture's model and inputs."""
    import torch

    from perfcli.model import Workload

    row = TABLE[name]
    dtype = getattr(torch, row.get("dtype", "float32"))
    model = _MAKERS[row["library"]](row).to(dtype).train(mode == "training")
    device = torch.get_default_device()
    if device.type == "cuda":
        model = model.to(device)  # buffers that were made by other means than torch's
    inputs = dict(row["inputs"])
    if mode == "training":
        inputs |= row.get("training", {})
        if "labels" in inputs:
            inputs.pop("decoder_input_ids", None)  # derived from the labels
    made = {key: _make_input(text, dtype) for key, text in inputs.items()}
    return Workload(model, (), kwargs=made, mode=mode, autocast=row.get("autocast"))


def _make_input(text: str, dtype: Any) -> Any:
    """Return a tensor for ``int 2x128 <1024``, ``float 2x64``, ``ones 2x128``."""
    import torch

    kind, shape, *bound = text.split()
    size = tuple(map(int, shape.split("x")))
    if kind == "int":
        last = int(bound[0].removeprefix("<"))
        return torch.randint(min(_LOWEST_TOKEN, last - 1), last, size)
    return torch.ones(size, dtype=torch.int64) if kind == "ones" else torch.randn(size, dtype=dtype)


def _make_transformers(row: Mapping[str, Any]) -> Any:
    transformers = importlib.import_module("transformers")
    config = transformers.AutoConfig.for_model(row["of"], **row["with"])
    constructor = getattr(transformers, row["constructor"])
    make = getattr(constructor, "from_config", None) or constructor._from_config
    return make(config)


def _make_timm(row: Mapping[str, Any]) -> Any:
    settings = _with_tuples(row["with"])
    if "." in row["of"]:
        return _make_class(row, settings)
    return importlib.import_module("timm").create_model(row["of"], pretrained=False, **settings)


def _make_torchvision(row: Mapping[str, Any]) -> Any:
    settings = row["with"]
    if "weights_backbone" in settings:
        settings = {**settings, "weights": None, "weights_backbone": None}
    return _make_class(row, settings)


def _make_class(row: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> Any:
    """Return an instance of the class that the library has under the row's dotted name."""
    path = f"{row['library']}.{row['of']}"
    module, _, found = path.rpartition(".")
    settings = row["with"] if settings is None else settings
    return getattr(importlib.import_module(module), found)(**settings)


def _with_tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with tuples for lists, which some constructors insist on."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}


_MAKERS = {
    "transformers": _make_transformers,
    "timm": _make_timm,
    "torchvision": _make_torchvision,
    "diffusers": _make_class,
    "torch_geometric": _make_class,
    "torch": _make_class,
}
