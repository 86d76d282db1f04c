"""The documents point at what is there: links, commands, options, files."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from perfcli import cli

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# Commands whose page has another name.
PAGE_OF = {"bisect-config": "bisect", "init-ci": "ci", "targets": "calibrate", "apply": "tune"}
# Explains the options that several commands take, by their short names and their long ones.
SHARED = ROOT / "docs/options.md"


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each perfcli command that a page shows at a prompt."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        for line in re.findall(r"^\$ (.*)$", block, re.M):
            for command in re.findall(r"(?:^|\$\()perfcli (.*)", line):
                lexer = shlex.shlex(command, posix=True, punctuation_chars="()|>;&")
                lexer.whitespace_split = True
                words = itertools.takewhile(lambda word: word[0] not in "()|>;&", lexer)
                yield [word for word in words if word != "…"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.fixture(scope="module")
def application() -> TyperGroup:
    group = typer.main.get_command(cli.application())
    assert isinstance(group, TyperGroup)
    return group


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_options_it_shows_are_there(page: Path, application: TyperGroup) -> None:
    context = application.make_context("perfcli", ["doctor"])
    for name, *arguments in commands(page):
        if not name.startswith("-"):
            command = application.get_command(context, name)
            assert command
            command.make_context(name, arguments)


@pytest.mark.parametrize("command", cli.NAMES)
def test_each_command_has_a_page_that_the_readme_names(command: str) -> None:
    page = page_of(command)
    link = f"[{command}]({page.relative_to(ROOT)})"
    assert link in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"perfcli {command}" in page.read_text(encoding="utf-8")


def page_of(command: str) -> Path:
    """Return the page that a command is documented on."""
    return ROOT / f"docs/{PAGE_OF.get(command, command)}.md"


def explanations(page: Path) -> str:
    """Return a page without its examples, which are blocks of a language. A synopsis has none."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^( *)```\w+\n.*?^\1```$", "", text, flags=re.M | re.S)


def names(option: str, text: str) -> bool:
    """Return whether a text names an option: ``-p`` is not in ``--param``, ``--time`` not in
    ``--timeout``."""
    return re.search(rf"(?<![\w-]){option}(?![\w-])", text) is not None


def options(command: str, application: TyperGroup) -> dict[str, tuple[str, ...]]:
    """Return the options of a command that --help shows, each by its longest name, with all of its
    names. The form that only switches a flag off is none of them."""
    declared = application.get_command(application.make_context("perfcli", ["doctor"]), command)
    assert declared
    shown = [each for each in declared.params if not getattr(each, "hidden", False)]
    return {max(each.opts, key=len): tuple(each.opts) for each in shown if "-" in each.opts[0][0]}


@pytest.mark.parametrize("command", cli.NAMES)
def test_the_page_of_a_command_names_all_its_options(command: str, application: TyperGroup) -> None:
    """A short name will do on a page with a link to the one that explains it beside the long
    name."""
    page = page_of(command)
    text, shared = explanations(page), explanations(SHARED)
    linked = f"]({SHARED.name}" in text
    missing = [
        long
        for long, every in options(command, application).items()
        if not names(long, text)
        and not (linked and names(long, shared) and any(names(each, text) for each in every))
    ]
    assert missing == [], f"{page.relative_to(ROOT)} does not name them"


def synopses(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each command of which a page has a synopsis, with that: a line of a block of no
    language, and what is indented below it."""
    blocks = re.findall(r"^```\n(.*?)^```$", explanations(page), re.M | re.S)
    for block in blocks:
        yield from re.findall(r"^perfcli ([a-z-]+)(.*(?:\n +.*)*)", block, re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_synopses_have_no_other_options(page: Path, application: TyperGroup) -> None:
    for command, synopsis in synopses(page):
        own, _, _ = synopsis.partition(" -- ")
        typed = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", own.partition("#")[0]))
        known = {each for every in options(command, application).values() for each in every}
        assert typed <= known, f"perfcli {command}"


def test_the_page_of_shared_options_has_no_others(application: TyperGroup) -> None:
    known = {
        each
        for command in cli.NAMES
        for every in options(command, application).values()
        for each in every
    }
    rows = re.findall(r"^\| (.*?) \| ", explanations(SHARED), re.M)
    named = {option for row in rows for option in re.findall(r"`(--?[a-z][\w-]*)", row)}
    assert len(named) > 30
    assert named - known == {"-h", "--help"}


def test_nothing_is_installed_from_where_it_is_not() -> None:
    """No package index has perfcli: it is installed from a checkout or a repository's address."""
    sources = [*PAGES, *ROOT.glob("perfcli/**/*.py")]
    lines = [line for page in sources for line in page.read_text(encoding="utf-8").splitlines()]
    installs = [line for line in lines if re.search(r"pip install[^#]*(?<![/\w])perfcli\b", line)]
    assert installs == []


FOLDERS = ("perfcli", "kernels", "scenarios", "reports")


def test_every_file_of_ours_that_a_page_names_is_there() -> None:
    named = [
        (page.name, path)
        for page in PAGES
        for path in re.findall(
            r"\b(?:perfcli|kernels|scenarios|reports|tests|bench)/[\w/]+\.(?:py|toml)", prose(page)
        )
    ]
    assert len(named) > 50
    assert [each for each in named if "NAME" not in each[1] and not (ROOT / each[1]).exists()] == []


def test_every_room_says_what_it_takes_and_gives() -> None:
    """A line is a title; a room's docstring has a sentence more."""
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("__init__.py"):
            docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            assert len(docstring.split()) > 20, file.relative_to(ROOT)
