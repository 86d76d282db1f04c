"""Twelve models for ``bench/tune.py``: shipped scenarios, and functions of estimate_models.py."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Model:
    """A scenario as perfcli names it, with its parameters."""

    name: str
    scenario: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """Return it as it stands on the command line."""
        path, colon, function = self.scenario.partition(":")
        reference = f"{Path(__file__).with_name(path)}:{function}" if colon else self.scenario
        return [reference, *(w for n, v in self.params.items() for w in ("-p", f"{n}={v}"))]

    def build(self) -> Any:
        """Return the workload, with torch's default device."""
        path, colon, function = self.scenario.partition(":")
        if colon:
            module = importlib.import_module(path.removesuffix(".py"))
            return getattr(module, function)(**self.params)
        from perfcli.loading import registry

        scenario = registry.scenario(self.scenario)
        return registry.build(scenario, registry.resolve_params(scenario, None, self.params))


_TRAINING = {"mode": "training"}
MODELS = (
    Model("softmax", "softmax"),
    Model("softmax-training", "softmax", {"rows": 8192, "columns": 50257, **_TRAINING}),
    Model("cross-entropy", "cross-entropy", {"rows": 8192, **_TRAINING}),
    Model("rmsnorm", "rmsnorm", {"columns": 4096, **_TRAINING}),
    Model("layernorm", "layernorm", _TRAINING),
    Model("mix-order", "mix-order", {"rows": 32768}),
    Model("column-sum", "column-sum"),
    Model("gqa", "gqa-transformer", {"layers": 2, "batch": 8, "learned": "true"}),
    Model("layerscale", "estimate_models.py:layerscale"),
    Model("relative", "estimate_models.py:relative"),
    Model("decoder", "estimate_models.py:decoder"),
    Model("graph", "estimate_models.py:graph"),
)
