"""The page as a whole: templates filled, style and script put in and named by their hashes."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.model import GRAVEST_FIRST, Judgement

from .._rows.judgement import is_plain, join_lines, write_outcome, write_reason
from .._rows.places import strip_root
from .check import CheckView, _check_view, _look
from .data import PageTexts

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parents[1] / "templates"


def page(judgement: Judgement) -> str:
    texts = PageTexts({}, judgement.root)
    checks = [
        _check_view(judged, number, judgement.root, texts)
        for number, judged in enumerate(judgement.checks)
    ]
    checks = _numbered(checks)
    checks.sort(key=lambda check: GRAVEST_FIRST.index(check.outcome))
    style, script = (_file(name) for name in ("report.css", "report.js"))
    word = write_outcome(judgement)
    text = (
        _environment(judgement.root)
        .get_template("page.html")
        .render(
            word=word,
            look=_look(word),
            reason=_reason(judgement),
            plain=is_plain(judgement) and judgement.conclusion is None,
            note=judgement.conclusion.note if judgement.conclusion else "",
            warnings=judgement.warnings,
            command=judgement.command,
            checks=checks,
            policy=_policy(style, script),
            style=_safe(style),
            script=_safe(script),
            data=_safe(texts.json()),
        )
    )
    return text.rstrip("\n") + "\n"


def _numbered(checks: Sequence[CheckView]) -> list[CheckView]:
    """Names that several have, with a number behind them: ``softmax@h100 (2)``."""
    many = {name for name, times in Counter(c.name for c in checks).items() if times > 1}
    seen: Counter[str] = Counter()
    found = []
    for check in checks:
        seen[check.name] += 1
        name = f"{check.name} ({seen[check.name]})" if check.name in many else check.name
        found.append(replace(check, name=name))
    return found


def _reason(judgement: Judgement) -> str:
    if judgement.conclusion is not None:
        return join_lines(judgement.conclusion.text)
    if len(judgement.checks) == 1 and judgement.checks[0].alone:
        return write_reason(judgement.checks[0])
    return join_lines(judgement.reason)


@functools.cache
def _file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return a policy by which nothing may be loaded, and nothing may run but this style and this
    script."""
    rules = {
        "default-src": "'none'",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "img-src": "data:",  # or browsers ask for a favicon
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _safe(text: str) -> Any:
    """Return our own text as it is, and another one escaped for where it goes."""
    from markupsafe import Markup

    return Markup(text)


@functools.cache
def _environment(root: str) -> Environment:
    """Return the templates' environment: everything that is put into a template is escaped, what
    can't be seen is shown, and files are named relative to the root."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalizer(root),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["broken"] = lambda name: _broken(strip_root(name, root))
    environment.filters["plural"] = units.plural
    return environment


def _finalizer(root: str) -> Callable[[Any], Any]:
    """Return the function through which each value goes into the page: hundreds of thousands of
    times for a run of thousands of kernels."""
    from markupsafe import Markup

    def finalize(value: Any) -> Any:
        if isinstance(value, Markup) or not isinstance(value, str):
            return value
        return units.printable(strip_root(value, root))

    return finalize


def _broken(name: str) -> Any:
    """Return a long name that may be broken behind underscores."""
    from markupsafe import Markup, escape

    text = str(escape(units.printable(name)))
    return Markup(text.replace("_", "_<wbr>"))
