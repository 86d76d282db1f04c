"""What perfcli can find."""

from __future__ import annotations

from typing import Annotated

import typer


def rules(
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="One rule, closely.")] = None,
) -> int:
    """List the rules, or explain one."""
    from perfcli import diagnosis

    for rule in diagnosis.rules() if code is None else [diagnosis.rule(code)]:
        typer.echo(f"{rule.code}  {rule.title}")
        if code is not None:
            typer.echo(f"\n{rule.documentation}")
    return 0
