"""Builds of one release that generate the same code."""

from __future__ import annotations

import re

_SAME_CODE = re.compile(r"\+(cpu|cu\d[\w.]*|rocm\d[\w.]*|xpu)$")


def public(version: str | None) -> str:
    """``2.13.0`` of ``2.13.0+cpu``: one release for several devices. Another suffix is another
    source: ``2.14.0a0+gitaaaa`` stays as it is."""
    return _SAME_CODE.sub("", version or "")
