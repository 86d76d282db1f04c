"""The files that a gate in CI needs, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init_ci(
    github: Annotated[
        bool, typer.Option("--github", help="A GitHub workflow. [default, unless GitLab is in use]")
    ] = False,
    gitlab: Annotated[bool, typer.Option("--gitlab", help="A part for .gitlab-ci.yml.")] = False,
    pre_commit: Annotated[
        bool, typer.Option("--pre-commit", help="A hook of pre-commit, before a push.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite these files (never the configuration).")
    ] = False,
) -> int:
    """Write what runs perfcli gate in CI: a workflow, and [tool.perfcli] to begin with.

    What is there already stays as it is. Run it in the repository's root.
    """
    from perfcli.commands import _init_ci_config as config
    from perfcli.commands import _init_ci_files as files

    root = Path.cwd()
    files.check_root(root)
    services = [
        name
        for name, wanted in (("github", github), ("gitlab", gitlab), ("pre-commit", pre_commit))
        if wanted
    ]
    values = files.values(root)
    steps = [config.write(root)]
    for service in services or [files.usual(root)]:
        steps += files.write(root, service, values, force)
    for step in steps:
        typer.echo(step.line)
    typer.echo("")
    typer.echo("next:")
    for line in [*config.next_steps(root), *(s.next for s in steps if s.next)]:
        typer.echo(f"  {line}")
    return 0
