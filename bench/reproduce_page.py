"""Puts what ``perfcli reproduce --json`` wrote on several machines into docs/reproduce.md: a table
of verdicts, one column for each of them, then what was found, one table for each.

    python bench/reproduce_page.py --run "torch 2.13.0, no GPU" a.json \\
        --run "torch 2.11.0, H200" b.json c.json [--page docs/reproduce.md]

Of several files of one run each claim is taken from the one that measured it, else from the first
that could carry it out. Verdicts are given again from what was found, by the claims and rules of
today; what is no claim any more is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from perfcli.reproduce.claim import Claim
from perfcli.reproduce.claims import list_claims
from perfcli.reproduce.condition import FactMissing
from perfcli.reproduce.observation import Observation
from perfcli.reproduce.result import ClaimResult, describe
from perfcli.reproduce.verdict import has_symptom, judge

BEGIN, END = "<!-- results -->", "<!-- end of results -->"
PAGE = Path(__file__).parents[1] / "docs" / "reproduce.md"
BASES = {
    "measured": "measured",
    "estimated": "by estimate",
    "code": "in code",
    "formulas": "by published formulas",
    "": "",
}

ClaimFields = Mapping[str, Any]
Run = tuple[str, dict[str, ClaimFields]]
"""The title of a column, and its claims by name."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs="+", action="append", required=True, metavar="TITLE|FILE")
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args(argv)
    runs = [(title, gather(map(Path, files))) for title, *files in given.run]
    text = given.page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.stderr.write(f"{given.page} has no {BEGIN} … {END}\n")
        return 2
    results = "\n".join(list_lines(runs))
    given.page.write_text(f"{before}{BEGIN}\n{results}\n{END}{after}", encoding="utf-8")
    return 0


def gather(files: Iterator[Path]) -> dict[str, ClaimFields]:
    """Return each claim of several documents, the best of each."""
    known_claims = {claim.name: claim for claim in list_claims()}
    found: dict[str, ClaimFields] = {}
    for file in files:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document.get("perfcli") != "reproduction":
            raise SystemExit(f"{file} is not of perfcli reproduce")
        for claim in document["claims"]:
            known = found.get(claim["name"])
            if known is None or _rank(claim) > _rank(known):
                found[claim["name"]] = claim
    again = {
        name: judge_again(known_claims[name], fields)
        for name, fields in found.items()
        if name in known_claims
    }
    return {name: fields for name, fields in again.items() if fields is not None}


def judge_again(claim: Claim, fields: ClaimFields) -> ClaimFields | None:
    """Return what a claim's fields are by its present conditions; None where these are about a
    fact that was not looked at."""
    found = msgspec.convert(fields["found"], Observation)
    try:
        found = _judge_cures_again(claim, found)
        verdict = judge(claim, found)
    except KeyError:
        sys.stderr.write(
            f"{claim.name} on {found.place}, torch {found.torch}: carry it out again\n"
        )
        return None
    again: ClaimFields = msgspec.to_builtins(
        describe(ClaimResult(claim, found, verdict, fields["seconds"]))
    )
    return again


def _judge_cures_again(claim: Claim, found: Observation) -> Observation:
    """A cure that is the good side has the symptom where the good side has it."""
    if found.way is None or not claim.symptom or "good" not in found.sides:
        return found
    symptom: bool | None = None
    with contextlib.suppress(FactMissing):
        symptom = has_symptom(claim, found.sides["good"])
    good = tuple(text for text in found.way.good.options if text not in found.way.bad.options)
    cures = (
        replace(cure, symptom=symptom) if good and cure.options == good else cure
        for cure in found.cures
    )
    return replace(found, cures=tuple(cures))


def _rank(claim: ClaimFields) -> int:
    if claim["found"]["measured"] is not None:
        return 2
    return int(not claim["found"]["failure"])


def list_lines(runs: Sequence[Run]) -> Iterator[str]:
    order = [claim.name for claim in list_claims()]
    names = [name for name in order if any(name in claims for _, claims in runs)]
    yield ""
    yield f"| claim | {' | '.join(title for title, _ in runs)} |"
    yield f"| --- |{' --- |' * len(runs)}"
    for name in names:
        claim = next(claims[name] for _, claims in runs if name in claims)
        cells = [_write_cell(claims.get(name)) for _, claims in runs]
        yield f"| {_write_claim(claim)} | {' | '.join(cells)} |"
    counts = [Counter(claim["verdict"] for claim in claims.values()) for _, claims in runs]
    summed = ["<br>".join(f"{n} {verdict}" for verdict, n in each.most_common()) for each in counts]
    yield f"| **all {len(names)}** | {' | '.join(summed)} |"
    for title, claims in runs:
        yield ""
        yield f"### {title}"
        yield ""
        yield "| claim | found here | times | finding | blamed | cures |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for name in names:
            if name in claims:
                yield f"| {' | '.join(_list_details(claims[name]))} |"
    yield ""


def _write_claim(claim: ClaimFields) -> str:
    source = claim["source"]
    withdrawn = f" *{claim['withdrawn']}.*" if claim["withdrawn"] else ""
    where = f"[{source['text']}]({source['url']}); {claim['holds']}"
    return _escape(f"`{claim['name']}` {claim['says']}. {where}.{withdrawn}")


def _write_cell(claim: ClaimFields | None) -> str:
    if claim is None:
        return "not carried out"
    basis = BASES[claim["basis"]]
    verdict = f"**{claim['verdict']}**{', ' + basis if basis else ''}"
    times = _list_ratios(claim)
    return "<br>".join([verdict, *times])


def _list_ratios(claim: ClaimFields) -> Iterator[str]:
    """Yield ``measured 1.05×``, with what was claimed."""
    effect = claim["effect"]
    said = f" (claimed {effect['bad'] / effect['good']:.3g}×)" if effect else ""
    for kind in ("measured", "estimated"):
        ratio = claim["found"][kind]
        if ratio is not None and effect:
            yield f"{kind} {ratio['ratio']:.3g}×{said}"
            return


def _list_details(claim: ClaimFields) -> Iterator[str]:
    yield f"`{claim['name']}`"
    yield _escape(claim["reason"])
    yield _escape("<br>".join(claim["times"]))
    yield _escape(claim["finding"])
    yield _escape(claim["blamed"])
    yield _escape("<br>".join(claim["cures"]))


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
