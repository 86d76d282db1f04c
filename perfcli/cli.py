"""The command line has the ordered list of commands, and the one place where errors end."""

from __future__ import annotations

import difflib
import errno
import functools
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, TypeGuard, cast, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from perfcli import __version__, units
from perfcli.console.notes import guard_commands
from perfcli.errors import PerfcliError, describe_unexpected, show_traceback

Command = Callable[..., int]

# Each command with its one line of help, in groups: the listing of --help, which must not import
# them all. A command's module and function have its name with underscores; its docstring starts
# with the same line.
COMMANDS = {
    "Compare and explain": {
        "compare": "Show what got worse between two variants or runs.",
        "explain": "Say what is wrong with the kernels of one run.",
        "inspect-kernel": "Show one kernel: loads, stores, spills and source.",
        "run": "Compile a variant and list its costliest kernels.",
        "import": "Make a run of a profiler's trace or of torch's own files.",
        "report": "Write documents about stored runs.",
    },
    "Gate in CI": {
        "gate": "Fail if kernels got worse than limits allow.",
        "baseline": "Record or show the gate's baseline.",
        "init-ci": "Generate CI configuration for the gate.",
    },
    "Over time": {
        "history": "Keep results over months, and find when it got worse.",
    },
    "Search options": {
        "bisect-config": "Find the smallest set of options to blame.",
        "bisect-commits": "Find the commit that made it slower.",
        "sweep": "Compile many variants and put them side by side.",
        "tune": "Find the options that make a model fastest.",
        "apply": "Run a program with tuned options, or print them.",
        "knobs": "Search torch's options, or compare two releases.",
    },
    "Measure": {
        "noise": "Measure identical variants and store the noise floor.",
        "kernels": "Show, check or time the hand-written kernels.",
        "calibrate": "Fit the constants of estimated times to this GPU.",
        "reproduce": "Check published claims about Inductor's kernels.",
    },
    "Look up": {
        "scenarios": "List the shipped scenarios, or show one in detail.",
        "runs": "List the runs stored in this folder, oldest first.",
        "rules": "List the rules behind the findings, or explain one.",
        "targets": "List the GPUs to compile for, and the calibration of each.",
        "doctor": "Check what is installed, and say what is missing.",
        "warm": "Keep torch imported for the next commands of this folder.",
    },
}
_TAKE_SCRIPTS = ("run", "compare")
"""Commands that pass arguments on to a script."""
NAMES = tuple(name for group in COMMANDS.values() for name in group)

INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + signal.SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 regression, 2 usage or tool error,
    3 not enough evidence, 4 not comparable, 130 interrupted."""
    try:
        with _ended_like_an_interrupt():
            application()(args=argv, prog_name="perfcli")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2 if stop.code else 0
    except KeyboardInterrupt:  # outside of a command: while it is imported, or its options are read
        _complain("interrupted")
        return INTERRUPTED
    return 0


@contextmanager
def _ended_like_an_interrupt() -> Iterator[None]:
    """Make the signals that CI sends to a cancelled job end a command as Ctrl-C does.

    Workers are stopped and their folders removed; what was finished stays. A signal that is
    ignored (``nohup``) stays so. Afterwards the handlers are those that were there before: this
    may be a call in somebody's program.
    """

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for changed, handler in before.items():
            # None: it was not set by Python, and can't be given back.
            signal.signal(changed, signal.SIG_DFL if handler is None else handler)


def name_module(command: str) -> str:
    """Return what a command's module and function are called."""
    return command.replace("-", "_") + "_" * iskeyword(command)


class _Commands(Mapping[str, Any]):
    """Builds a command when it is asked for: typer needs longer for all of them than for the rest
    of a start."""

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(name)
        module = name_module(name)
        return _build(name, getattr(import_module(f"perfcli.commands.{module}"), module))

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


@functools.cache
def _build(name: str, command: Command) -> Any:
    """Return what typer makes of a command. Who runs many in one process needs each once."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    kind = _TakingScripts if name in _TAKE_SCRIPTS else _TakingModules
    alone.command(name, cls=kind)(_guarded(command))
    made: Any = typer.main.get_command(alone)
    made.numbers = partial(_describe_number, command)
    return made


def _describe_number(command: Command, name: str) -> str:
    """Return what a command's parameter takes, ``a number of 0.1 or more``; empty for one that is
    no number."""
    hint = get_type_hints(command, include_extras=True).get(name)
    kind, *declared = get_args(hint) or (hint,)
    kinds = {kind, *get_args(kind)}
    whole = int in kinds
    if not whole and float not in kinds:
        return ""
    ranges = [(each.min, each.max) for each in declared if hasattr(each, "min")]
    return units.number_range(whole, *(ranges or [(None, None)])[0])


class _WrongNumber(typer.BadParameter):
    """Says what a number may be in our words; click's, or pydantic's, differ by their version."""

    def format_message(self) -> str:
        return str(self.message)


class _TakingModules(TyperCommand):
    """Takes ``"-m package.train 8"``, which is one word, for something to compile, and for no
    option."""

    numbers: Callable[[str], str]
    """Says what a parameter takes, if it is a number."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        given = list(args[1] if len(args) > 1 else kwargs["args"])
        try:
            return super().make_context(*args, **kwargs)
        except typer.BadParameter as error:
            parameter: Any = getattr(error, "param", None)
            takes = self.numbers(parameter.name) if parameter is not None else ""
            if not takes:
                raise
            named = max(parameter.opts, key=len)
            own = given[: given.index("--")] if "--" in given else given
            typed = _find_typed(own, parameter.opts)
            got = f", got {typed}" if typed else ""
            raise _WrongNumber(f"{named} takes {takes}{got}", error.ctx) from error

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = args.index("--") if "--" in args else len(args)
        held = [f" {w}" if n < own and _MODULE.match(w) else w for n, w in enumerate(args)]
        rest = super().parse_args(ctx, held)
        self._refuse_targets(args[:own])
        for name, given in ctx.params.items():
            if isinstance(given, list):
                ctx.params[name] = [_release_module(each) for each in given]
            else:
                ctx.params[name] = _release_module(given)
        return rest

    def _refuse_targets(self, words: Sequence[str]) -> None:
        """End with one line where --target is typed several times and the last would win: some
        commands take it repeatedly, and who types it means each."""
        options = (each for each in self.params if isinstance(each, TyperOption))
        if not any("--target" in each.opts and not each.multiple for each in options):
            return
        typed = _list_typed(words, ["--target"])
        if len(typed) > 1:
            listed = ",".join(dict.fromkeys(",".join(typed).split(",")))
            several = f"--target {listed}"
            if self.name == "sweep":
                takes, instead = "one list of targets", several
            else:
                takes, instead = "one target", "one --target per command"
                instead += f" (sweep takes a list: {several})" * ("," in listed)
            got = " ".join(f"--target {each}" for each in typed)
            _complain(f"{self.name} takes {takes}, got {got}: give {instead}")
            raise typer.Exit(PerfcliError.exit_code)


def _find_typed(words: Sequence[str], names: Sequence[str]) -> str:
    """Return the value that was typed last for an option; empty where there is none."""
    return next(reversed(_list_typed(words, names)), "")


def _list_typed(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the values that were typed for an option: ``--top 3``, ``--top=3``, ``-j3``."""
    found: list[str] = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        short = next((n for n in names if len(n) == 2 and word.startswith(n)), "")
        if word in names:
            found += words[place + 1 : place + 2]
        elif equals and name in names:
            found.append(value)
        elif short:
            found.append(word.removeprefix(short))
    return found


_MODULE = re.compile(r"-m\s+\S")


def _release_module(given: Any) -> Any:
    return given[1:] if isinstance(given, str) and _MODULE.match(given, 1) else given


class _TakingScripts(_TakingModules):
    """Leaves to a script what is no option of the command: its words stand behind those of the
    command, with the ``--`` that separates them. Anything else gets no unknown options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from perfcli.loading.references import may_take_arguments

        if "--" in args:  # once more: the parser takes one away
            first = args.index("--")
            args = [*args[:first], "--", *args[first:]]
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer has a click of its own since 0.26: the class has two homes.
            if type(error).__name__ != "NoSuchOption":
                raise
            ctx.ignore_unknown_options = True
            rest = super().parse_args(ctx, given)
            words = [ctx.params.get(name) for name in ("scenario", "base", "head")]
            if not any(may_take_arguments(word) for word in words if word):
                raise
            own = given[: given.index("--")] if "--" in given else given
            _tell_misspelt(own, [name for each in self.params for name in each.opts])
            return rest


def _tell_misspelt(words: Sequence[str], known: Sequence[str]) -> None:
    """Say of words that go to a script which of them look like options of the command."""
    named = {word.partition("=")[0] for word in words if word.startswith("--")}
    for name in sorted(named - set(known)):
        near = difflib.get_close_matches(name, known, 1, _ALIKE)
        if near and near[0][2:3] == name[2:3]:  # --n-steps is none of --steps
            note = f"{name} goes to the script; did you mean {near[0]}?"
            typer.echo(guard_commands(f"note: {note}"), err=True)


_ALIKE = 0.85
"""How alike two options are of which one may be misspelt: ``--targe`` and ``--target`` are 0.93."""


class _Group(TyperGroup):
    """Lists the commands in their groups, and imports only the one that is run."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast("Any", _Commands())

    # --version and -h print while options are read, of this group and then of a command.

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _stdout_guarded():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _stdout_guarded():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(NAMES)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # perfcli model.py:block; of typos of a command, typer's own message proposes the name.
        if args[0] not in NAMES and re.search(r"\.py(?=$|[:@])", args[0]):
            _complain(f"{args[0]} is no command: perfcli run {shlex.join(args)} compiles it")
            raise typer.Exit(2)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, NAMES))
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                # Padded, so that the columns of all groups stand below each other.
                formatter.write_dl([(name.ljust(width), line) for name, line in commands.items()])


def application() -> typer.Typer:
    app = typer.Typer(
        cls=_Group,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        # Rich help takes 60 ms to import and looks the same in a pipe.
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(perfcli)
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
        except KeyboardInterrupt:
            _complain("interrupted")
            code = INTERRUPTED
        except PerfcliError as error:
            show_traceback()
            _complain(str(error), error.detail)
            code = error.exit_code
        except Exception as error:
            if _is_of_stdout(error):
                code = _give_up_stdout(error)
            else:
                show_traceback()
                _complain(describe_unexpected(error))
                code = PerfcliError.exit_code
        raise typer.Exit(code)

    return guarded


@contextmanager
def _stdout_guarded() -> Iterator[None]:
    """End as a command does where stdout takes nothing more: click would answer with exit code 1,
    or a traceback."""
    try:
        yield
    except OSError as error:
        if not _is_of_stdout(error):
            raise
        raise typer.Exit(_give_up_stdout(error)) from error


# What a write into an open file, such as stdout, says of a disk.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _is_of_stdout(error: Exception) -> TypeGuard[OSError]:
    """Return whether a write into stdout raised this: who writes a file names it."""
    if isinstance(error, BrokenPipeError):
        return True
    return isinstance(error, OSError) and error.errno in _FULL and error.filename is None


def _give_up_stdout(error: OSError) -> int:
    """Return the exit code where stdout takes nothing more, and say so unless who reads it closed
    it. What is left goes nowhere: Python flushes stdout once more while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    show_traceback()
    _complain(f"can't write the report: {error.strerror or error}")
    return PerfcliError.exit_code


def _complain(message: str, detail: str = "") -> None:
    typer.echo(guard_commands(f"perfcli: {' '.join(message.split())}"), err=True)
    if detail.strip():
        typer.echo(guard_commands(detail.rstrip()), err=True)
