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
    install: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Install perfcli in CI from a git URL, a wheel in the repository, or '.'. "
            "[default: where this perfcli came from]",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite these files, but never a configuration.")
    ] = False,
) -> int:
    """Generate CI configuration for the gate.

    Writes a workflow and a first [tool.perfcli]. Files that exist already stay as they are. Run it
    in the repository's root. No package index has perfcli: the workflow installs it from where
    this perfcli came from, or from what --install names.
    """
    from perfcli.ci import config, files
    from perfcli.ci.source import choose_source

    root = Path.cwd()
    files.check_root(root)
    services = [
        name
        for name, wanted in (("github", github), ("gitlab", gitlab), ("pre-commit", pre_commit))
        if wanted
    ]
    services = services or [files.guess_service(root)]
    installs = install or any(files.installs(root, each, force) for each in services)
    source = choose_source(install, root) if installs else ""
    values = files.fill_in(root, source)
    steps = [config.write_configuration(root)]
    for service in services:
        steps += files.write_service(root, service, values, force)
        if service == "github":
            steps.append(files.write_gpu_configuration(root, config.find_place(root)))
    for step in steps:
        typer.echo(step.line)
    left = config.list_next_steps(root, [step.written for step in steps if step.written])
    left += [step.next for step in steps if step.next]
    if left:
        typer.echo("\nnext:")
    for line in left:
        typer.echo(f"  {line}")
    return 0
