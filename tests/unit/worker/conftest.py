"""One process with torch imported, which forks for every test that asks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perfcli.worker.template import TemplateProcess


@pytest.fixture(scope="session")
def template(cache_of_the_run: object) -> Iterator[TemplateProcess]:
    made = TemplateProcess(timeout_seconds=300)
    yield made
    made.close()
