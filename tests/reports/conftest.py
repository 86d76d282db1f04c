"""What tests of reports share: one report in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import pytest
from handmade_html import judgement, with_sources


@pytest.fixture(scope="session")
def file(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with a changed kernel, two that were fused, and one that stayed."""
    return chromium.written(judgement(*with_sources(40, 60)), tmp_path_factory.mktemp("html"))


@pytest.fixture
def tab(browser: Any, file: Path) -> Iterator[chromium.Tab]:
    """That report, opened; nothing in it may complain."""
    opened = chromium.Tab(browser, file)
    yield opened
    opened.page.close()
    assert opened.complaints == []
