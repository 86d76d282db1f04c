"""Headless Chromium for tests of pages: opened from files, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from handmade_html import rendered

from perfcli.model import Judgement

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


def started() -> Iterator[Any]:
    """Skips the test that asks for it, with the reason, where there is no browser or no library to
    drive one. The browser has a context that tests share."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(NAMES)} is here")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        browser.new_context(viewport=DESKTOP)
        yield browser
        browser.close()


def written(given: Judgement, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(rendered(given), encoding="utf-8")
    return path


def new_page(browser: Any, viewport: Mapping[str, int] = DESKTOP) -> Any:
    """Open a page in the context that was made first: what one stores, the others see."""
    page = browser.contexts[0].new_page()
    if viewport != DESKTOP:
        page.set_viewport_size(viewport)
    return page


class Tab:
    """A page that was opened, with everything that it complained about or asked for. ``alone``: it
    sees nothing that another page stores, nor another what it does."""

    def __init__(
        self,
        browser: Any,
        file: Path,
        anchor: str = "",
        *,
        viewport: Mapping[str, int] = DESKTOP,
        scheme: str = "light",
        alone: bool = False,
    ) -> None:
        self.page = browser.new_page(viewport=viewport) if alone else new_page(browser, viewport)
        if scheme != "light":
            self.page.emulate_media(color_scheme=scheme)
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._requested)
        self.page.set_default_timeout(30_000)
        self.page.goto(f"{file.as_uri()}{anchor}")

    def _requested(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            self.complaints.append(request.url)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def rows(self) -> list[str]:
        """The first name of each row that is shown, from above."""
        script = "rows => rows.filter(r => !r.hidden).map(r => r.querySelector('.name').innerText)"
        found: list[str] = self.page.eval_on_selector_all("table.kernels tbody tr", script)
        return found

    @property
    def is_open(self) -> bool:
        return bool(self.ask("document.getElementById('panel').open"))
