"""No document goes to where another goes or what is read, however the file is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

CONFIG = '[[checks]]\nscenario = "softmax"\n'


@pytest.fixture
def gated(perfcli: Any) -> Any:
    Path("perfcli.toml").write_text(CONFIG)
    assert perfcli("baseline", "update", "--reason", "first").code == 0
    return perfcli


def test_two_documents_in_one_file_by_a_link(gated: Any) -> None:
    os.symlink("a.json", "b.json")
    result = gated("gate", "--json", "a.json", "--markdown", "b.json")
    assert (result.code, "both write" in result.complaint) == (2, True)
    assert not Path("a.json").exists()


@pytest.mark.parametrize("name", ["perfcli.toml", "perfcli-baseline.toml", "link"])
def test_what_a_gate_reads_is_not_overwritten(gated: Any, name: str) -> None:
    os.symlink("perfcli-baseline.toml", "link")
    before = Path(name).read_bytes()
    result = gated("gate", "--markdown", name)
    assert (result.code, "which is read: name another file" in result.complaint) == (2, True)
    assert Path(name).read_bytes() == before


@pytest.mark.parametrize("command", ["compare", "report"])
def test_stored_runs_are_not_overwritten(gated: Any, command: str) -> None:
    (run,) = Path(".perfcli/runs").glob("*.json")
    Path("base.json").write_bytes(run.read_bytes())
    for path in ("base.json", str(run)):
        result = gated(command, "base.json", run.stem, "--markdown", path)
        assert (result.code, f"--markdown {path} would overwrite" in result.complaint) == (2, True)
    assert Path("base.json").read_bytes() == run.read_bytes()
    assert gated(command, "base.json", run.stem, "--markdown", "a.md").code == 0


@pytest.mark.parametrize("command", ["explain", "inspect-kernel"])
def test_json_does_not_overwrite_the_run_that_is_read(gated: Any, command: str) -> None:
    (run,) = Path(".perfcli/runs").glob("*.json")
    before = run.read_bytes()
    result = gated(command, run.stem, "--json", str(run))
    assert (result.code, f"--json {run} would overwrite" in result.complaint) == (2, True)
    assert run.read_bytes() == before


def test_a_model_is_not_overwritten(perfcli: Any) -> None:
    Path("model.py").write_text("def build(): ...\n")
    result = perfcli("compare", "model.py:build", "-b", "max_autotune=1", "--html", "model.py")
    assert (result.code, "would overwrite model.py" in result.complaint) == (2, True)


def test_a_baseline_that_is_a_link_stays_one_and_keeps_its_mode(gated: Any) -> None:
    baseline, shared = Path("perfcli-baseline.toml"), Path("shared/base.toml")
    shared.parent.mkdir()
    baseline.rename(shared)
    shared.chmod(0o660)
    os.symlink(shared, baseline)
    Path("perfcli.toml").write_text(f'{CONFIG}targets = ["a100"]\n')
    assert gated("baseline", "update", "--reason", "second").code == 0
    assert baseline.is_symlink()
    assert 'reason = "second"' in shared.read_text()
    assert shared.stat().st_mode & 0o777 == 0o660
    assert [path.name for path in shared.parent.iterdir()] == ["base.toml"]


def test_no_path_of_this_machine_in_the_gates_json(
    perfcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(".git").mkdir()
    Path("perfcli.toml").write_text(CONFIG)
    perfcli("baseline", "update", "--reason", "first")

    def failing(*_: Any) -> Any:
        raise OSError(f"no space for {tmp_path}/models/a.py")

    from perfcli.gate import compiled

    monkeypatch.setattr(compiled, "compile_head", failing)
    assert perfcli("gate", "--json", "a.json").code == 2
    text = Path("a.json").read_text()
    assert ("for models/a.py" in text, str(tmp_path) in text) == (True, False)


@pytest.mark.parametrize(
    ("typed", "title", "own"),
    [
        (["model.py:old", "model.py:new"], "model.py:old → model.py:new", ("", "")),
        (
            ["train.py --batch 8", "train.py --batch 16"],
            "train.py --batch 8 → train.py --batch 16",
            ("", ""),
        ),
        (
            ["softmax", "rmsnorm"],
            "softmax → rmsnorm",
            (" · columns=50304 · stride=0", " · columns=8192"),
        ),
    ],
)
def test_both_sides_are_named_where_they_are_of_two_things(
    perfcli: Any, typed: list[str], title: str, own: tuple[str, str]
) -> None:
    """With the parameters in which they differ."""
    Path("model.py").write_text("def old(): ...\ndef new(): ...\n")
    Path("train.py").write_text("if __name__ == '__main__':\n    run()\n")
    result = perfcli("compare", *typed, "--markdown", "out.md", "--html", "out.html")
    assert result.code == 0
    base, head = (name + its for name, its in zip(title.split(" → "), own, strict=True))
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert any(line.startswith(f"{title} · ") for line in lines)
    assert f"base {base} · default · torch 2.13.0" in lines
    assert f"head {head} · default · torch 2.13.0" in lines
    assert "apart" not in result.out
    assert "warning" not in result.err
    assert Path("out.md").read_text().startswith(f"## SAME `{title} · h100`\n\n`{title} · ")
    page = Path("out.html").read_text()
    assert f"<title>SAME: {title} · h100 – perfcli</title>" in page
    assert f"{base} · default · torch 2.13.0" in page


def test_both_inputs_are_in_the_title(perfcli: Any) -> None:
    Path("model.py").write_text("class Net:\n    def forward(self, x): ...\n")
    result = perfcli("compare", "model.py:Net", "--a-input", "8,64", "--b-input", "16,64")
    assert result.code == 0
    assert " · input 8,64 → 16,64" in result.out
    assert "warning" not in result.err
