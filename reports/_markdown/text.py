"""Foreign text in Markdown: nothing of it becomes markup, a link or a mention.

GitHub looks for mentions, issue numbers, commits, emoji and formulas in everything that is not
code, whether or not it is escaped with backslashes. So a word that has any character out of the
ordinary is written as code, where none of this happens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from perfcli import units

_PLAIN = re.compile(r"[^\W_]*(?:[.,;:()+\-−–—/=→×·%'\"…µ°²³]*[^\W_]*)*")
# A link, an issue, a commit, an emoji, or what starts a list or a heading below a line.
_SPECIAL = re.compile(
    r"://|^www\.|^GH-\d|^[0-9a-f]{7,40}$|^:[\w+-]+:$|^[-+=]+$|^\d+[.)]$", re.IGNORECASE
)
# [+5.9, +8.3]: two words that are one.
_INTERVAL = re.compile(r"\[[+\-−]?[\d.,]+(?: %)?, [+\-−]?[\d.,]+(?: %)?\]")
# <1: no tag begins with a digit.
_LESS = re.compile(r"<\d+(?:\.\d+)?[.,;:)%]*")
# `f(a, b)`: code already, which may have spaces.
_CODE = "`[^`]+`"
_LEAD = "(\"'"
_TRAIL = ".,;:)\"'%"


def _quote_prose(text: str) -> str:
    """Return a sentence in one line; words that look like code are written as code."""
    one = rf"{_INTERVAL.pattern}[{_TRAIL}]*|[{_LEAD}]*{_CODE}[{_TRAIL}]*"
    words = re.findall(rf"(?:{one})(?!\S)|\S+", _join_line(text))
    return " ".join(map(_quote_word, words))


def _quote_word(word: str) -> str:
    if _LESS.fullmatch(word) or (_PLAIN.fullmatch(word) and not _SPECIAL.search(word)):
        return word
    body = word.lstrip(_LEAD)
    lead = word[: len(word) - len(body)]
    bare = body
    while bare and bare[-1] in _TRAIL and not _closes(bare):
        bare = bare[:-1]
    bare, trail = (bare, body[len(bare) :]) if bare else (body, "")
    if re.fullmatch(_CODE, bare) and bare.strip("` "):
        bare = bare[1:-1]
    return f"{lead}{_quote_code(bare)}{trail}" if bare else _quote_code(word)


def _closes(text: str) -> bool:
    """Return whether a text ends with a parenthesis that it opens: ``f()``."""
    return text[-1] == ")" and text.count("(") >= text.count(")")


def _quote_code(text: str) -> str:
    """Return a name as it is, in one line: as code; where it has backticks, bars or backslashes, or
    ends in a space, in a ``code`` element with each odd character as an entity."""
    text = _join_line(text)
    if not text:
        return ""
    if re.search(r"[`|\\<>&]", text) or text != text.strip():
        return f"<code>{_quote_entities(text)}</code>"
    return f"`{text}`"


def _quote_entities(text: str) -> str:
    """Return all that is neither a letter, a digit nor a space as numeric entities: means itself in
    Markdown, in tables and in HTML."""
    return "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in _join_line(text))


def _quote_summary(text: str) -> str:
    """Return a text for a ``summary`` element, which is HTML: our own words with entities where
    needed."""
    return re.sub(r"[^\w\s,.;:'()+\-−–%→×]|_", lambda m: f"&#{ord(m[0])};", _join_line(text))


def _fence(text: str, language: str = "") -> str:
    """Return lines of code, fenced with more backticks than they have."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{units.printable(text).rstrip()}\n{fence}\n"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], right: int = 1) -> str:
    """Return a table of cells that are Markdown already.

    Columns from number ``right`` on are numbers.
    """
    return _table_head(titles, right) + "".join(map(_table_row, rows))


def _table_head(titles: Sequence[str], right: int = 1) -> str:
    marks = ["---" if number < right else "---:" for number in range(len(titles))]
    return _table_row(titles) + _table_row(marks)


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _shorten(text: str, most: int) -> str:
    """Return the text cut at its end."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _join_line(text: str) -> str:
    return units.printable(" ".join(text.split(" "))).replace("\n", "↵").replace("\t", " ")
