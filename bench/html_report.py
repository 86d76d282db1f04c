"""Size and speed of the HTML report of two stored runs, and the pictures of it in docs/.

The bars, for gqa-transformer at its full size: 2 MB, and interactive within 1 s.

    perfcli compare gqa-transformer -p layers=3 -p batch=48 -p learned=true --target h100 \\
        -b triton.mix_order_reduction_max_reads=1000
    python bench/html_report.py .perfcli/runs/BASE.json .perfcli/runs/HEAD.json [--pictures docs]

Time until interactive: until Chromium has loaded the file and the script has run, median of five
fresh tabs. Needs playwright and a Chromium; without them size and time to render are measured.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfcli.blobs import unpack
from perfcli.diagnosis import diagnose, rules
from perfcli.diff.compare import compare
from perfcli.loading import registry
from perfcli.model import Document, Judged, Judgement, Provenance
from perfcli.storing import store

MEGABYTES, SECONDS = 2.0, 1.0
TIMES = 5
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ROOT = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("base", type=Path)
    parser.add_argument("head", type=Path)
    parser.add_argument("--out", type=Path, help="keep the report here")
    parser.add_argument("--pictures", type=Path, help="folder for pictures of it")
    given = parser.parse_args()
    judgement = judged(given.base, given.head)
    render = registry.load_declared("reports", "html", Document).render
    rendering, html = timed(lambda: render(judgement))
    size = len(html.encode()) / 1e6
    print(f"size        {size:.2f} MB, at most {MEGABYTES:g}")
    print(f"rendered in {rendering:.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        file = given.out or Path(folder) / "report.html"
        file.write_text(html, encoding="utf-8")
        opened = in_browser(file.absolute(), judgement, given.pictures)
    return int(size > MEGABYTES or (opened is not None and opened > SECONDS))


def judged(base: Path, head: Path) -> Judgement:
    """As ``perfcli compare`` gives it to its documents."""
    comparison = diagnose(compare(store.read(base), store.read(head), ()))
    texts = {n: unpack(t) for path in (base, head) for n, t in store.read_blobs(path).items()}
    check = Judged(
        "", "fail", comparison.reason, comparison, provenance=Provenance("run", ""), texts=texts
    )
    return Judgement((check,), "fail", comparison.reason, 1, rules=rules(), root=str(ROOT))


def timed(act: Callable[[], str]) -> tuple[float, str]:
    """Median seconds, and what it gave."""
    took = []
    for _ in range(TIMES):
        start = time.perf_counter()
        result = act()
        took.append(time.perf_counter() - start)
    return statistics.median(took), result


# --- in a browser --------------------------------------------------------------------------------


def in_browser(file: Path, judgement: Judgement, pictures: Path | None) -> float | None:
    """Seconds until interactive; None without a browser."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found = None
    if found is None:
        print("no Chromium, or no playwright: not opened")
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        loads = [load(browser, file) for _ in range(TIMES)]
        seconds = statistics.median(loads)
        print(f"interactive {seconds:.2f} s, at most {SECONDS:g}")
        print(f"a kernel's page with its difference: {kernel_page(browser, file, judgement):.2f} s")
        if pictures is not None:
            draw(browser, file, judgement, pictures)
        browser.close()
    return seconds


def load(browser: Any, file: Path) -> float:
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(file.as_uri())
    seconds = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000
    if complaints:
        raise SystemExit(f"the page complains: {complaints[0]}")
    page.close()
    return float(seconds)


def kernel_page(browser: Any, file: Path, judgement: Judgement) -> float:
    """Until the page of the kernel that is to blame is there."""
    page = browser.new_page()
    page.goto(file.as_uri())
    milliseconds = page.evaluate(f"""() => new Promise((done) => {{
        const start = performance.now();
        location.hash = '{blamed(judgement)}';
        const look = () => document.querySelector('#panel .code')
            ? done(performance.now() - start) : requestAnimationFrame(look);
        look();
    }})""")
    page.close()
    return float(milliseconds) / 1000


def blamed(judgement: Judgement) -> str:
    comparison = judgement.checks[0].comparison
    because = comparison.because if comparison else None
    group = because.group if because and because.group is not None else 0
    match = comparison.groups[group].match if comparison else None
    return f"kernel-0-head-{match.head[0]}" if match and match.head else "kernel-0-base-0"


def draw(browser: Any, file: Path, judgement: Judgement, folder: Path) -> None:
    """What changed, and the page of the kernel that is to blame: light, and small."""
    page = browser.new_page(
        viewport={"width": 1080, "height": 700}, color_scheme="light", reduced_motion="reduce"
    )
    page.goto(file.as_uri())
    page.locator("form.filter select").select_option("*changed")
    page.evaluate("document.getElementById('kernels-0').scrollIntoView()")
    page.screenshot(path=str(folder / "report-html.png"))
    page.goto(f"{file.as_uri()}#{blamed(judgement)}")
    page.evaluate("document.querySelector('#panel .views').scrollIntoView()")
    page.evaluate("document.getElementById('panel').scrollBy(0, -60)")
    page.screenshot(path=str(folder / "report-html-kernel.png"))
    page.close()


if __name__ == "__main__":
    raise SystemExit(main())
