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
        bool, typer.Option("--force", help="Overwrite these files (never configurations).")
    ] = False,
) -> int:
    """Write what runs perfcli gate in CI.

    A workflow, and [tool.perfcli] to begin with.

    What is there already stays as it is. Run it in the repository's root.
    """
    from perfcli.ci import config, files
    from perfcli.ci import files as gpu

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
        if service == "github":
            steps.append(gpu.write_gpu(root, config.place(root)))
    for step in steps:
        typer.echo(step.line)
    left = config.next_steps(root, [step.written for step in steps if step.written])
    left += [step.next for step in steps if step.next]
    if left:
        typer.echo("\nnext:")
    for line in left:
        typer.echo(f"  {line}")
    return 0
