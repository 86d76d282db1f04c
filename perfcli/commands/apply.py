"""``perfcli apply`` uses options that ``tune`` found."""

from __future__ import annotations

from typing import Annotated

import typer

from perfcli.commands import _arguments as args


def apply(
    options: Annotated[
        str, typer.Argument(metavar="FILE.toml", help="What perfcli tune --output wrote.")
    ],
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROGRAM",
            help="What to run with the options. Write -- before it: -- python train.py --batch 8",
        ),
    ] = None,
    python: args.Python = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Run a program with tuned options, or print them.

    Without a program, it prints the lines to paste into one. With a program, such as python
    train.py or torchrun …, the options are in force in every Python that it starts, wherever
    the program itself does not set them in torch.compile(options=…).

    Exit code: the program's; 2 error.
    """
    import shutil
    from pathlib import Path

    from perfcli import units
    from perfcli.console import output
    from perfcli.console.notes import Notes
    from perfcli.errors import PerfcliError
    from perfcli.options import assignments, files
    from perfcli.tune.program import list_patches, run_program
    from perfcli.workflow.context import Context

    if not files.is_file(options):
        raise PerfcliError(f"{options}: a file that ends in .toml is expected, as tune writes it")
    if program and python is None and Path(program[0]).name.startswith("python"):
        python = shutil.which(program[0])
    interpreter = Context(Notes(quiet), fake=fake).choose_probe("cpu")(python)
    catalogue = assignments.load_catalogue(interpreter.torch_dir)
    variant = assignments.make_variant("", [options], catalogue)
    patches = list_patches(variant, catalogue)
    if program:
        return run_program(program, variant, patches, Notes(quiet))
    lines = units.write_python({**variant.env, **variant.options}, patches)
    if not lines:
        verdict = files.read_verdict(Path(options))
        lines = (f"# nothing to set: {_WHY_EMPTY.get(verdict, f'{options} sets no option')}",)
    output.show_lines(lines)
    return 0


_WHY_EMPTY = {
    "default": "the default is the fastest that is known",
    "unsure": "tune found nothing that is surely faster than the default",
}
