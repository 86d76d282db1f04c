"""Exceptions that somebody answers for: until when they hold, and what they cover."""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.gate.limits import PER_KERNEL, TOTALS, _higher_is_better
from perfcli.gate.tables import SettingsTable
from perfcli.model import Allowance
from perfcli.names import stem, suggestion

EVERYTHING = "*"


def _read_allowance(table: SettingsTable) -> Allowance:
    """Raise PerfcliError where a key is missing, unknown or of the wrong kind."""
    reason = table.need("reason", str, "an exception says why it is made")
    owner = table.need("owner", str, "an exception names who answers for it")
    for name, text in (("reason", reason), ("owner", owner)):
        if not text.strip():
            raise PerfcliError(f"{table.at(name)} is empty: an exception says why, and who for")
    found = Allowance(
        kernel=table.take("kernel", str, EVERYTHING),
        limit=table.need("limit", str, "the metric, or the code of a finding, that it excepts"),
        reason=reason,
        owner=owner,
        expires=_date(table),
        most=table.amount("most"),
    )
    table.done()
    return found


def _date(table: SettingsTable) -> str:
    value = table.values.get("expires")
    if isinstance(value, datetime.datetime):
        value = value.date()
    if isinstance(value, datetime.date):
        table.take("expires", datetime.date, value)
        return value.isoformat()
    text = table.need("expires", str, "an exception ends on a day, for example 2026-12-31")
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise PerfcliError(
            f"{table.at('expires')} is {text!r}: a day is expected, for example 2026-12-31"
        ) from None


def _check_limits(allowances: Iterable[Allowance], codes: Collection[str], where: str) -> None:
    """Raise PerfcliError where one excepts what is neither a metric nor a finding's code."""
    for each in allowances:
        known = {*TOTALS, *PER_KERNEL, *codes}
        if each.limit not in known:
            raise PerfcliError(
                f"{where} allows {each.limit!r}, which is no metric and no rule: "
                f"{suggestion(each.limit, known)}"
            )


def _in_force(allowances: Iterable[Allowance], today: str) -> tuple[Allowance, ...]:
    """Return those that have not expired."""
    return tuple(each for each in allowances if each.expires >= today)


def warnings(
    allowances: Iterable[Allowance],
    used: Collection[Allowance],
    today: str,
    exceeded: Mapping[Allowance, float] | None = None,
) -> Iterator[str]:
    """Yield a line for each that has expired, and for each that excepts nothing any more or is
    ``exceeded``: by which value."""
    for each in allowances:
        what = f"exception for {each.limit} of {each.kernel} ({each.owner}: {each.reason})"
        if each.expires < today:
            yield f"{what} expired on {each.expires} and excepts nothing: take it out or renew it"
        elif each in (exceeded or {}) and each not in used:
            write = units.writer(each.limit)
            value = write((exceeded or {})[each])
            yield f"{what} is exceeded: {value}, excepted up to {write(each.most)}"
        elif each not in used:
            yield f"{what} excepts nothing any more: take it out"


def _named(pattern: str, name: str) -> bool:
    """Return whether a pattern means a kernel: by its name, with or without its number."""
    return any(fnmatch.fnmatchcase(each, pattern) for each in (name, stem(name)))


def _covers(allowance: Allowance, limit: str, names: Sequence[str], value: float | None) -> bool:
    """Return whether it excepts this limit's value of one of these kernels; none: of the whole run.

    What is not known may be more than ``most``.
    """
    if allowance.limit != limit:
        return False
    if allowance.kernel != EVERYTHING and not any(_named(allowance.kernel, n) for n in names):
        return False
    if allowance.most is None:
        return True
    if value is None:
        return False
    return value >= allowance.most if _higher_is_better(limit) else value <= allowance.most
