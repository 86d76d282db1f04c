"""What many variants have in common."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from perfcli.bisect.space import Settings

_UNSET = ""


def common_base(wanted: Sequence[Settings], least: int) -> Settings | None:
    """Each setting as most of the variants have it. None where fewer than ``least`` of them set
    all that it sets: what leaves one out can't part from it."""
    names = dict.fromkeys(name for settings in wanted for name in settings)
    base = {}
    for name in sorted(names):
        values = Counter(_text(settings, name) for settings in wanted)
        ((text, _),) = values.most_common(1)
        if text != _UNSET:
            base[name] = json.loads(text)
    parting = sum(base.keys() <= settings.keys() for settings in wanted)
    return base if parting >= least else None


def _text(settings: Settings, name: str) -> str:
    return json.dumps(settings[name]) if name in settings else _UNSET
