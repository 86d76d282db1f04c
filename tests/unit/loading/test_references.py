"""What a text on the command line means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading.references import (
    Reference,
    find_file,
    join_words,
    may_take_arguments,
    parse_reference,
    split_revision,
    split_words,
)
from perfcli.model import ScriptCommand

SCRIPT = "import torch\nif __name__ == '__main__':\n    torch.compile(print)()\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, a builder, and files with odd names."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "my train.py", "a@b.py"):
        Path(name).write_text(SCRIPT)
    Path("model.py").write_text("def build():\n    return 1\n")
    Path("pkg").mkdir()
    return tmp_path


def script(path: str, *arguments: str, module: bool = False) -> ScriptCommand:
    return ScriptCommand(path, module, arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("softmax", {"kind": "scenario"}),
        ("gqa_transformer", {"kind": "scenario"}),
        ("nosuch", {"kind": "scenario"}),
        ("model.py", {"kind": "file", "path": "model.py"}),
        ("model.py:build", {"kind": "file", "path": "model.py", "name": "build"}),
        ("pkg/x.py:f", {"kind": "file", "path": "pkg/x.py", "name": "f"}),
        (
            "model.py:build@v1.2",
            {"kind": "file", "path": "model.py", "name": "build", "revision": "v1.2"},
        ),
        ("model.py@HEAD~1", {"kind": "file", "path": "model.py", "revision": "HEAD~1"}),
        ("train.py:f", {"kind": "file", "path": "train.py", "name": "f"}),
        ("train.py", {"kind": "script", "path": "train.py", "script": script("train.py")}),
        (
            "train.py --lr 0.1 'a b'",
            {
                "kind": "script",
                "path": "train.py",
                "script": script("train.py", "--lr", "0.1", "a b"),
            },
        ),
        ("my train.py", {"kind": "script", "path": "my train.py", "script": script("my train.py")}),
        (
            "'my train.py' -x",
            {"kind": "script", "path": "my train.py", "script": script("my train.py", "-x")},
        ),
        ("a@b.py", {"kind": "script", "path": "a@b.py", "script": script("a@b.py")}),
        (
            "train.py@main --lr 1",
            {
                "kind": "script",
                "path": "train.py",
                "revision": "main",
                "script": script("train.py", "--lr", "1"),
            },
        ),
        (
            "model.py:build@main@{1 day ago}",
            {"kind": "file", "path": "model.py", "name": "build", "revision": "main@{1 day ago}"},
        ),
        (
            "python model.py",
            {"kind": "script", "path": "model.py", "script": script("model.py")},
        ),
        ("-m pkg.train x", {"kind": "script", "script": script("pkg.train", "x", module=True)}),
        (
            "-m pkg.train@main",
            {"kind": "script", "revision": "main", "script": script("pkg.train", module=True)},
        ),
        ("261123-015646-ccwb", {"kind": "run"}),
        ("bad/nope.json", {"kind": "run"}),
    ],
)
def test_what_a_text_means(text: str, expected: dict[str, object]) -> None:
    assert parse_reference(text) == Reference(text, **expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model.py:build@", "a git revision stands behind the @, model.py:build@HEAD~1"),
        ("softmax@main", "softmax has no git revisions"),
        ("train.py 'a", "is not a command: no closing quotation"),
        ("model.py --lr 3", "there is no option --lr: model.py builds a model"),
        ("model.py:build 3", "'3' is one word too many: arguments are for scripts, and model.py:b"),
        ("gone.py --lr 3", "there is no file gone.py: expected path/to/file.py"),
        ("python model.py:build", "names a part of a file: a script is the whole of model.py"),
        ("-m pkg.train@", "pkg.train@: a git revision stands behind the @, pkg.train@HEAD~1"),
        ("-m", "-m needs the name of a module"),
        ("-m train/x.py", "-m needs the name of a module, package.module, not 'train/x.py'"),
    ],
)
def test_what_means_nothing(text: str, said: str) -> None:
    with pytest.raises(PerfcliError) as raised:
        parse_reference(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_imported_file_is_a_run() -> None:
    found = parse_reference("model.py", lambda path: "a trace" if path.name == "model.py" else "")
    assert found == Reference("model.py", "run")


@pytest.mark.parametrize(
    ("text", "moved", "pinned"),
    [
        ("model.py:build@main", "/w/model.py:build", "model.py:build@abc"),
        ("model.py@main", "/w/model.py", "model.py@abc"),
        ("python model.py@main -x 'a b'", "python /w/model.py -x 'a b'", None),
        ("-m pkg.train@main -x", "-m pkg.train -x", "-m pkg.train@abc -x"),
    ],
)
def test_a_reference_elsewhere(text: str, moved: str, pinned: str | None) -> None:
    found = parse_reference(text)
    elsewhere = found.move("/w/model.py")
    assert (elsewhere.text, elsewhere.revision) == (moved, "")
    at = found.pin("abc")
    assert at.revision == "abc"
    assert pinned is None or at.text == pinned
    assert parse_reference(at.text).revision == "abc"


def test_a_pinned_script_is_typed_as_it_was() -> None:
    text = parse_reference("train.py@main --lr 1").pin("abc").text
    assert parse_reference(text).script == script("train.py", "--lr", "1")


def test_the_file_of_a_reference() -> None:
    texts = ("model.py:build@main", "train.py -x", "softmax", "-m pkg.train", "train.py 'a")
    assert [find_file(text) for text in texts] == ["model.py", "train.py", "", "", ""]


def test_a_file_that_is_there_has_its_whole_name() -> None:
    assert split_revision("a@b.py") == ("a@b.py", "")
    assert split_revision("a@b.py@main") == ("a@b.py", "main")
    assert split_revision("model.py:build@feature/x") == ("model.py:build", "feature/x")


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        (("train.py", ["--lr", "0.1"]), "train.py --lr 0.1"),
        (("train.py", ["--", "--lr", "a b"]), "train.py --lr 'a b'"),
        (("my train.py", ["x"]), "'my train.py' x"),
        (("train.py --lr 1", ["x"]), "train.py --lr 1 x"),
        (("-m", ["pkg.train", "x"]), "-m pkg.train x"),
        (("model.py", [], True), "python model.py"),
        (("softmax", []), "softmax"),
    ],
)
def test_words_of_a_command_line_become_one_text(words: tuple[object, ...], joined: str) -> None:
    assert join_words(*words) == joined  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("softmax", ["x"]), "'x' is one word too many: arguments are for scripts, and softmax is"),
        (("softmax", ["--tagret"]), "there is no option --tagret: arguments are for scripts"),
        (("softmax", [], True), "--script runs a file, path/to/train.py: softmax is none"),
    ],
)
def test_words_that_nothing_takes(words: tuple[object, ...], said: str) -> None:
    with pytest.raises(PerfcliError) as raised:
        join_words(*words)  # type: ignore[arg-type]
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("words", "sides"),
    [
        (("softmax", "rmsnorm"), ("softmax", "rmsnorm")),
        (("softmax", None), ("softmax", "")),
        (("train.py", "--lr", ["3"]), ("train.py --lr 3", "")),
        (("train.py", "train.py@main", ["--lr", "3"]), ("train.py --lr 3", "train.py@main --lr 3")),
        (("train.py --lr 1", "train.py --lr 2"), ("train.py --lr 1", "train.py --lr 2")),
        (("train.py", "261123-015646-ccwb", ["-x"]), ("train.py -x", "261123-015646-ccwb")),
        (("-m", "pkg.train", ["x"]), ("-m pkg.train x", "")),
        (("-m pkg.fit 3", "-m pkg.fit 4"), ("-m pkg.fit 3", "-m pkg.fit 4")),
        (("-m", "pkg.fit", ["-m pkg.fit 4"]), ("-m pkg.fit '-m pkg.fit 4'", "")),
    ],
)
def test_two_sides(words: tuple[object, ...], sides: tuple[str, str]) -> None:
    assert split_words(*words) == sides  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("train.py", True),
        ("train.py@main", True),
        ("model.py", True),
        ("-m", True),
        ("model.py:build", False),
        ("softmax", False),
        ("261123-015646-ccwb", False),
    ],
)
def test_which_options_may_be_a_scripts(text: str, may: bool) -> None:
    assert may_take_arguments(text) is may


def test_what_cannot_be_read_is_no_script(folder: Path) -> None:
    Path("broken.py").write_text("def (:\n")
    assert parse_reference("broken.py").kind == "file"
    os.mkdir("folder.py")
    assert parse_reference("folder.py").kind == "file"
