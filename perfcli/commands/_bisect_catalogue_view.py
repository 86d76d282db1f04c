"""What people read of a search of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.bisect.answer import Bisection
from perfcli.commands._bisect_progress import written
from perfcli.commands._bisect_words import change, dependency, listed, stopped
from perfcli.search.improvement import Effect, Improvement

MOST_EFFECTS = 12


def best_line(found: Bisection, best: Improvement) -> str:
    better = "better" if found.direction == "improve" else "worse"
    if best.baseline is None:
        return f"no answer yet: {stopped(found.stopped)}"
    if not best.best:
        rest = ", of those tried" if best.stopped else ""
        return f"no option of the catalogue makes {units.title(found.metric.of_runs)} {better}" + (
            f" than {written(found.metric, best.baseline.value)}{rest}"
        )
    value = best.answer.value if best.answer else None
    return (
        f"{'best' if found.direction == 'improve' else 'worst'}: "
        f"{written(found.metric, best.baseline.value)} → {written(found.metric, value)} with "
        f"{listed(best.best, 9)}"
    )


def improvement(found: Bisection, best: Improvement) -> Iterator[str]:
    telling = [e for e in best.effects if e.gain and e.same_as is None]
    telling.sort(key=lambda effect: -(effect.gain or 0.0))
    same: dict[str, list[str]] = {}
    for effect in best.effects:
        if effect.same_as is not None:
            same.setdefault(effect.same_as.key, []).append(change(effect.change))
    helping = [e for e in telling if (e.gain or 0) > 0]
    against = [e for e in reversed(telling) if (e.gain or 0) < 0]
    words = ("better", "worse") if found.direction == "improve" else ("worse", "better")
    for word, effects in zip(words, (helping, against), strict=True):
        if effects:
            yield f"alone {word}:"
        yield from (_effect(found, effect, same) for effect in effects[:MOST_EFFECTS])
        if len(effects) > MOST_EFFECTS:
            yield f"   and {len(effects) - MOST_EFFECTS} more (--json has all)"
    silent = sum(e.changes_code is False for e in best.effects)
    neutral = sum(e.gain == 0 and e.changes_code is True for e in best.effects)
    yield (
        f"{silent} of {units.plural(len(best.effects), 'change')} leave the code as it is, "
        f"{neutral} change it and not the metric"
    )
    for pair in best.interactions:
        names = " with ".join(map(change, pair.options))
        writer = units.writer(found.metric.of_runs)
        sign = 1 if found.direction == "worsen" else -1
        together = units.signed(writer, sign * pair.together)
        yield f"interaction: {names}: {together}, apart {units.signed(writer, sign * pair.apart)}"
    yield from (dependency(each) for each in best.dependencies)
    if best.pairs_left:
        yield f"{units.plural(best.pairs_left, 'pair')} not tried, of changes that change the code"
    if best.untried and best.best:
        yield f"not tried beside the best: {listed(best.untried, MOST_EFFECTS)}"


def _effect(found: Bisection, effect: Effect, same: dict[str, list[str]]) -> str:
    alike = same.get(effect.change.key, [])
    also = f"; the same code: {', '.join(alike)}" if alike else ""
    return f"   {written(found.metric, effect.answer.value)}  {change(effect.change)}{also}"
