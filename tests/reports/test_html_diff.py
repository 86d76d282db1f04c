"""Base and head beside each other in the HTML report: against the longest common subsequence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chromium import Tab, written
from handmade import digest, kernel, run
from handmade_html import judgement

from perfcli.diff.compare import compare

PAIRS = 24
SIDES = """() => {
  for (let fold; (fold = document.querySelector('#panel .fold button'));) fold.click();
  return [...document.querySelectorAll('#panel .diff tbody tr')].map((row) => {
    const [left, right] = row.querySelectorAll('td.text');
    const line = (cell) => cell.classList.contains('none') ? null : cell.textContent;
    return [line(left), line(right)];
  });
}"""


def edited(lines: Sequence[str], chance: random.Random) -> list[str]:
    """Some lines gone, some new, some moved."""
    kept = [line for line in lines if chance.random() > 0.2]
    for _ in range(chance.randrange(8)):
        kept.insert(chance.randrange(len(kept) + 1), f"new {chance.randrange(5)}")
    if kept and chance.random() < 0.3:
        kept.append(kept.pop(0))
    return kept


def common(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the longest common subsequence, by the textbook's table."""
    row = [0] * (len(right) + 1)
    for ours in left:
        above = row[:]
        for place, theirs in enumerate(right, 1):
            longest = max(row[place - 1], above[place])
            row[place] = above[place - 1] + 1 if ours == theirs else longest
    return row[-1]


def test_lines_are_all_there_in_order_and_as_many_as_possible_stand_together(
    browser: Any, tmp_path: Path
) -> None:
    chance = random.Random(7)
    sources = []
    for number in range(PAIRS):
        left = [f"line {chance.randrange(12)}" for _ in range(chance.randrange(60))]
        sources.append(([*left, f"end {number}"], [*edited(left, chance), f"last {number}"]))
    sources[0] = (["only", "one side"], ["nothing", "of that"])
    sources[1] = ([f"line {n}" for n in range(50)], [f"line {n}" for n in range(51)])
    texts = {digest(t): t for pair in sources for t in ("\n".join(side) for side in pair)}
    base, head = (
        run(kernel(f"k{n}", f"{n}", text="\n".join(pair[side])) for n, pair in enumerate(sources))
        for side in (0, 1)
    )
    opened = Tab(browser, written(judgement(compare(base, head), texts), tmp_path))
    for number, (left, right) in enumerate(sources):
        opened.ask(f"location.hash = 'kernel-0-head-{number}'")
        shown = f"document.querySelector('#panel .title.now')?.id === 'kernel-0-head-{number}'"
        opened.page.wait_for_function(shown)
        rows = opened.page.evaluate(SIDES)
        assert [ours for ours, _ in rows if ours is not None] == left
        assert [theirs for _, theirs in rows if theirs is not None] == right
        assert sum(ours == theirs for ours, theirs in rows) == common(left, right)
    opened.page.close()
    assert opened.complaints == []
