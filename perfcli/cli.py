"""The command line has the ordered list of commands, and the one place where errors end."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated

import typer

from perfcli import __version__
from perfcli.console.notes import remark
from perfcli.errors import PerfcliError, show_traceback, unexpected

Command = Callable[..., int]

# Module in perfcli.commands, which holds a function of the same name; --help keeps this order.
COMMANDS = (
    "compare",
    "gate",
    "baseline",
    "init_ci",
    "report",
    "bisect_config",
    "noise",
    "explain",
    "inspect_kernel",
    "run",
    "runs",
    "scenarios",
    "kernels",
    "rules",
    "knobs",
    "doctor",
)

INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 regression, 2 usage or tool error,
    3 not enough evidence, 4 not comparable, 130 interrupted."""
    _end_like_an_interrupt()
    try:
        application()(args=argv, prog_name="perfcli")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2 if stop.code else 0
    return 0


def _end_like_an_interrupt() -> None:
    """Make the signals that CI sends to a cancelled job end a command as Ctrl-C does.

    Workers are stopped and their folders removed; what was finished stays.
    """

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)


def application() -> typer.Typer:
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        # Rich help takes 60 ms to import and looks the same in a pipe.
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(perfcli)
    for name in COMMANDS:
        command: Command = getattr(import_module(f"perfcli.commands.{name}"), name)
        app.command(name.replace("_", "-"))(_guarded(command))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perfcli {__version__}")
        raise typer.Exit


def perfcli(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Find, explain and gate performance regressions in the kernels of torch.compile, with or
    without a GPU."""


def _guarded(command: Command) -> Callable[..., None]:
    """Return the command with the error boundary around it.

    It lies inside typer's own, which would turn Ctrl-C and a closed pipe into exit code 1, which
    means a regression.
    """

    @functools.wraps(command)
    def guarded(*args: object, **kwargs: object) -> None:
        try:
            code = command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes stdout once more while it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = BROKEN_PIPE
        except KeyboardInterrupt:
            _complain("interrupted")
            code = INTERRUPTED
        except PerfcliError as error:
            show_traceback()
            _complain(str(error), error.detail)
            code = error.exit_code
        except Exception as error:
            show_traceback()
            _complain(unexpected(error))
            code = PerfcliError.exit_code
        raise typer.Exit(code)

    return guarded


def _complain(message: str, detail: str = "") -> None:
    typer.echo(remark(f"perfcli: {' '.join(message.split())}"), err=True)
    if detail.strip():
        typer.echo(remark(detail.rstrip()), err=True)
