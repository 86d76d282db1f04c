"""``perfcli init-ci`` generates the files that the gate needs in CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init_ci(
    github: Annotated[
        bool,
        typer.Option(
            "--github", help="Write a GitHub workflow. [default, unless GitLab is in use]"
        ),
    ] = False,
    gitlab: Annotated[bool, typer.Option("--gitlab", help="Write a job for GitLab CI.")] = False,
    pre_commit: Annotated[
        bool, typer.Option("--pre-commit", help="Write a pre-commit hook that runs before a push.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite these files, but never a configuration.")
    ] = False,
) -> int:
    """Generate CI configuration for the gate.

    Writes a workflow and a first [tool.perfcli]. Files that exist already stay as they are. Run it
    in the repository's root.
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
