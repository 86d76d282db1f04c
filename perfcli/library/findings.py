"""Findings as the library says them: which are meant, and as text."""

from __future__ import annotations

from collections.abc import Sequence

from perfcli import diagnosis, units
from perfcli.model import Finding, Severity

_SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


def meant(findings: Sequence[Finding], codes: Sequence[str], severity: Severity) -> list[Finding]:
    """Those of rules whose codes begin so (of all where none is given), at least so severe.
    Raises PerfcliError where no rule's code begins so."""
    for code in codes:
        if not any(rule.code.startswith(code.upper()) for rule in diagnosis.rules()):
            diagnosis.rule(code)  # raises, with the nearest
    least = _SEVERITIES[_SEVERITIES.index(severity) :]
    wanted = tuple(code.upper() for code in codes) or ("",)
    return [f for f in findings if f.code.startswith(wanted) and f.severity in least]


def listed(findings: Sequence[Finding], scenario: str) -> str:
    """With what they rest on, and what to try."""
    lines = [f"{units.plural(len(findings), 'finding')} in {scenario}:"]
    for finding in findings:
        lines.append(line(finding))
        lines += [f"    {text}" for text in finding.evidence]
        lines += [f"    advice: {finding.advice}"] if finding.advice else []
        lines += [f"    try: options={dict(cure.options)!r}" for cure in finding.cures]
    return units.printable("\n".join(lines))


def line(finding: Finding) -> str:
    kernels = ", ".join(map(str, finding.kernels))
    where = f" (kernel {kernels})" if kernels else ""
    return f"{finding.code} {finding.severity}: {finding.headline}{where}"
