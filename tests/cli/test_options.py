"""Options are called what they are documented as, whichever typer reads them."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, get_type_hints

import pytest
from typer.models import ArgumentInfo, OptionInfo

from perfcli.cli import NAMES, _Commands, name_module


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_is_one_word_that_the_usage_line_repeats(name: str) -> None:
    """The usage line adds brackets, and ``...`` to what may be there several times."""
    module = name_module(name)
    command = getattr(import_module(f"perfcli.commands.{module}"), module)
    for hint in get_type_hints(command, include_extras=True).values():
        for each in getattr(hint, "__metadata__", ()):
            if isinstance(each, ArgumentInfo):
                assert not set("[]{}… ") & set(each.metavar or "")
                assert "..." not in (each.metavar or "")


@pytest.mark.parametrize("name", NAMES)
def test_no_metavar_can_be_taken_for_an_option_s_name(name: str) -> None:
    """typer 0.27.0 makes ``--PYTHON`` of a parameter ``python`` whose metavar is ``PYTHON``, unless
    the option is named."""
    module = name_module(name)
    command = getattr(import_module(f"perfcli.commands.{module}"), module)
    hints = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters:
        for each in getattr(hints[parameter], "__metadata__", ()):
            if not isinstance(each, OptionInfo):
                continue
            if (each.metavar or "").lower() == parameter:
                # What stands first in Annotated is a name, though typer keeps it as the default.
                assert str(each.default).startswith("--")


@pytest.mark.parametrize("name", NAMES)
def test_no_flag_has_a_negation_that_nobody_documents(name: str) -> None:
    """typer adds ``--no-source`` to a flag that is not named."""
    command = _Commands()[name]
    assert not [each.opts for each in command.params if getattr(each, "secondary_opts", ())]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compare rmsnorm --budget nan", "--budget takes a number of 0.1 or more, got nan"),
        ("compare rmsnorm --budget=1 --budget=x", "--budget takes a number of 0.1 or more, got x"),
        ("compare rmsnorm --threads 1.5", "--threads takes a whole number of 1 or more, got 1.5"),
        ("run rmsnorm -j0", "--jobs takes a whole number of 1 or more, got 0"),
        ("run train.py --top -1 -- --top 3", "--top takes a whole number of 0 or more, got -1"),
        (
            "noise rmsnorm --slow-head 2000",
            "--slow-head takes a number from 0.01 to 1000, got 2000",
        ),
    ],
)
def test_what_a_number_may_be_is_said_in_our_words(perfcli: Any, words: str, said: str) -> None:
    result = perfcli(*words.split())
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(f"Error: {said}\n")
