"""``model.py:block@HEAD~1``: whose files are compiled, what is said of it, what is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import handmade_record
import pytest
from repository import commit, git

from perfcli.errors import PerfcliError
from perfcli.fake.executor import FakeExecutor, FakeGenerator, fake_interpreter
from perfcli.model import Bundle, CompileRequest, Generated, MeasureRequest, Prepared
from perfcli.storing import store
from perfcli.worker.roles import Compiled
from perfcli.workflow.request import Question, Side, make_jobs
from perfcli.workflow.setting import MeasuringOptions, Setting
from perfcli.workflow.worktrees import Worktrees


@pytest.fixture
def revisions(perfcli: Any) -> tuple[str, str]:
    """The commits of a repository in which the file ``model.py`` changed once."""
    git("init", "--quiet")
    Path("model.py").write_text("def block(): return 1\n")
    Path(".gitignore").write_text(".perfcli\n")
    first = commit("Begin")
    Path("model.py").write_text("def block(): return 2\n")
    Path("late.py").write_text("def block(): return 3\n")
    return first, commit("Return two")


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The text of each file that was compiled, by the folder that it was in."""
    seen: dict[str, str] = {}
    compile_ = FakeExecutor.compile

    def watched(
        self: FakeExecutor, requests: Sequence[CompileRequest], progress: Callable[..., None]
    ) -> Iterator[tuple[int, Compiled]]:
        for request in requests:
            path = request.scenario.partition(":")[0]
            seen[request.folder] = (Path(request.folder) / path).read_text()
        return compile_(self, requests, progress)

    monkeypatch.setattr(FakeExecutor, "compile", watched)
    return seen


def test_each_side_is_compiled_from_its_own_files(
    perfcli: Any, revisions: tuple[str, str], texts: dict[str, str]
) -> None:
    Path("model.py").write_text("def block(): return 4\n")
    result = perfcli("compare", "model.py:block@HEAD~1", "model.py:block")
    assert result.code == 0
    (folder,) = (each for each in texts if each)
    assert texts == {folder: "def block(): return 1\n", "": "def block(): return 4\n"}
    assert not Path(folder).exists()
    assert git("worktree", "list").count("\n") == 0
    first = revisions[0][:12]
    assert f"model.py:block@HEAD~1: HEAD~1 is {first}" in result.err
    assert "Begin" in result.err
    assert f"model.py:block@{first} → model.py:block" in result.out


def test_a_run_of_a_revision_is_found_again_until_the_name_means_another(
    perfcli: Any, revisions: tuple[str, str], texts: dict[str, str]
) -> None:
    assert perfcli("run", "model.py:block@HEAD").code == 0
    (stored,) = store.runs()
    assert store.read(stored.path).scenario == f"model.py:block@{revisions[1][:12]}"
    texts.clear()
    Path("model.py").write_text("def block(): return 5\n")
    assert "nothing changed since run" in perfcli("run", "model.py:block@HEAD").err
    assert texts == {}
    commit("Return five")
    perfcli("run", "model.py:block@HEAD")
    assert list(texts.values()) == ["def block(): return 5\n"]


def test_a_file_that_is_gone_now_has_revisions(
    perfcli: Any, revisions: tuple[str, str], texts: dict[str, str]
) -> None:
    Path("model.py").unlink()
    commit("Remove it")
    assert perfcli("run", "model.py:block@HEAD~1").code == 0
    assert list(texts.values()) == ["def block(): return 2\n"]


def test_two_revisions_and_a_stored_run(perfcli: Any, revisions: tuple[str, str]) -> None:
    assert perfcli("compare", "model.py:block@HEAD~1", "model.py:block@HEAD").code == 0
    (run, *_) = (each.header.id for each in store.runs())
    result = perfcli("compare", run, "model.py:block@HEAD")
    assert (result.code, "not comparable" in result.err) == (0, False)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("model.py:block@nope", "has no revision 'nope'"),
        ("model.py:block@", "a git revision stands behind the @, model.py:block@HEAD~1"),
        ("late.py:block@HEAD~1", "no late.py in revision HEAD~1: it came later, or had another"),
        ("new.py:block@HEAD", "no new.py in revision HEAD: git does not track it"),
        ("gone.py:block@HEAD", "no gone.py in revision HEAD, and none here now"),
        ("../outside.py:block@HEAD", "is in no repository"),
        ("softmax@HEAD", "softmax has no git revisions"),
    ],
)
def test_what_has_no_such_revision(
    perfcli: Any, revisions: tuple[str, str], reference: str, said: str
) -> None:
    Path("new.py").touch()
    result = perfcli("run", reference)
    assert result.code == 2
    assert said in result.complaint
    assert store.runs() == []


@pytest.mark.parametrize("failure", ["interrupt", "user", "killed"])
def test_nothing_is_left_behind(
    perfcli: Any, revisions: tuple[str, str], monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"{failure}:0")
    result = perfcli("compare", "model.py:block@HEAD~1", "model.py:block")
    assert result.code in (2, 130)
    assert git("worktree", "list").count("\n") == 0
    assert "perfcli-revision" not in result.err


def test_a_link_is_the_file_that_it_leads_to(
    perfcli: Any, revisions: tuple[str, str], texts: dict[str, str]
) -> None:
    Path("link.py").symlink_to("model.py")
    commit("Link")
    assert perfcli("run", "link.py:block@HEAD").code == 0
    assert list(texts.values()) == ["def block(): return 2\n"]


def test_a_submodule_has_the_files_of_that_revision(
    perfcli: Any, revisions: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git("init", "--quiet", folder=other)
    (other / "layer.py").write_text("one\n")
    commit("One", other)
    git("submodule", "--quiet", "add", str(other), "sub")
    commit("Add it")
    Path("sub/layer.py").write_text("two\n")
    commit("Two", "sub")
    commit("Take two")
    seen: list[str] = []
    compile_ = FakeExecutor.compile

    def watched(
        self: FakeExecutor, requests: Sequence[CompileRequest], progress: Callable[..., None]
    ) -> Iterator[tuple[int, Compiled]]:
        seen.extend((Path(each.folder) / "sub/layer.py").read_text() for each in requests)
        return compile_(self, requests, progress)

    monkeypatch.setattr(FakeExecutor, "compile", watched)
    assert perfcli("compare", "model.py:block@HEAD~1", "model.py:block@HEAD").code == 0
    assert seen == ["one\n", "two\n"]
    assert perfcli("run", "sub/layer.py:one@HEAD~1").code == 0, "a repository of its own"


def test_options_are_searched_on_a_revision(
    perfcli: Any, revisions: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    generate = FakeGenerator.generate

    def watched(self: FakeGenerator, requests: Sequence[CompileRequest], base: Any = None) -> Any:
        for request in requests:
            path = request.scenario.partition(":")[0]
            seen.add(Path(path).read_text() + request.folder)
        yield from generate(self, requests, base)

    monkeypatch.setattr(FakeGenerator, "generate", watched)
    asked = ("-m", "spills", "--bad", "triton.mix_order_reduction_max_reads=1000", "-j", "1")
    result = perfcli("bisect-config", "model.py:block@HEAD~1", *asked, "--no-flip")
    assert result.code == 0
    assert f"HEAD~1 is {revisions[0][:12]}" in result.err
    ((text, folder),) = (each.split("\n", 1) for each in seen)
    assert text == "def block(): return 1"
    assert not Path(folder).exists()
    assert folder not in result.out + result.err
    assert git("worktree", "list").count("\n") == 0


def test_what_imports_the_checkout_is_generated_again_from_the_worktree(
    revisions: tuple[str, str],
) -> None:
    """A generator that imports a file of the checkout until Python looks elsewhere first."""
    asked: list[dict[str, str]] = []

    class Installed(FakeGenerator):
        def generate(self, requests: Sequence[CompileRequest], base: Any = None) -> Any:
            for number, made in super().generate(requests, base):
                asked.append(dict(requests[number].variant.env))
                source = "" if asked[-1] else str(Path("model.py").resolve())
                assert isinstance(made, Generated)
                run = replace(made.bundle.run, sources={source: "0"} if source else {})
                yield number, replace(made, bundle=replace(made.bundle, run=run))

    question = Question("model.py:block@HEAD~1", target="h100")
    sides = [Side(), Side(("split_reductions=false",))]
    requests = [job.request for job in make_jobs(question, sides, fake_interpreter)]
    with Worktrees() as worktrees:
        made = list(worktrees.search(Installed("1")).generate(requests))
    assert [number for number, _ in made] == [0, 1]
    first, *others = asked
    assert first == {}
    assert all("perfcli-revision-" in each["PYTHONPATH"] for each in others)
    runs = [each.bundle.run for _, each in made if isinstance(each, Generated)]
    assert [run.scenario for run in runs] == [request.scenario for request in requests]
    assert [dict(run.variant.env) for run in runs] == [{}, {}]


def test_a_measured_revision_has_its_own_files(
    perfcli: Any, revisions: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What starts a worker is given the worktree, which is there until the bench is closed."""
    from perfcli.workflow import bench

    started: list[Any] = []
    monkeypatch.setattr(bench, "Starter", lambda *_: lambda request, told: started.append(request))
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))
    question = Question("model.py:block@HEAD~1", device="cpu")
    (job,) = make_jobs(question, [Side()], fake_interpreter)
    setting = Setting(MeasuringOptions(), "cpu", 1.0, 1, 0, (0,), None)
    place = bench.open_bench(setting, [job, job], None)
    place.start(setting.plan([job, job]).base, lambda phase: None)
    (request,) = started
    path = Path(request.compile.scenario.partition(":")[0])
    assert path.read_text() == "def block(): return 1\n"
    place.close()
    assert not path.exists()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("model.py:block@trnk", "has no revision 'trnk': did you mean trunk?"),
        ("model.py@HEAD:block", "stands before the @, model.py:block@REVISION"),
        ("model.py:block@0123abc", "it is no branch, tag or commit of it"),
    ],
)
def test_what_to_do_about_a_revision_that_is_not_there(
    perfcli: Any, revisions: tuple[str, str], reference: str, said: str
) -> None:
    git("branch", "trunk")
    assert said in perfcli("run", reference).complaint


def test_a_shallow_clone_lacks_revisions(perfcli: Any, revisions: tuple[str, str]) -> None:
    git("clone", "--quiet", "--depth", "1", f"file://{Path.cwd()}", "shallow")
    result = perfcli("run", "shallow/model.py:block@HEAD~1")
    assert "it is a shallow clone, fetch the revision first" in result.complaint


def test_a_check_is_of_no_revision(perfcli: Any, revisions: tuple[str, str]) -> None:
    Path("perfcli.toml").write_text('[[checks]]\nscenario = "model.py:block@HEAD"\n')
    result = perfcli("gate")
    assert result.code == 2
    assert "leave out @HEAD (perfcli gate --base-rev HEAD compares with it)" in result.complaint


class Installed(FakeExecutor):
    """Imports the checkout's file, as what is installed from there (``pip install -e``) does, until
    Python looks elsewhere first."""

    def compile(
        self, requests: Sequence[CompileRequest], progress: Callable[..., None]
    ) -> Iterator[tuple[int, Compiled]]:
        for number, made in super().compile(requests, progress):
            assert isinstance(made, Bundle)
            sources = dict.fromkeys(imports(requests[number]), "0")
            yield number, replace(made, run=replace(made.run, sources=sources))


def imports(request: CompileRequest) -> list[str]:
    path = request.variant.env.get("PYTHONPATH", "").split(os.pathsep)[0]
    return [str(Path(path or ".").resolve() / "model.py")]


def test_two_variants_of_an_installed_project_at_one_revision(revisions: tuple[str, str]) -> None:
    """Both are placed before either of them is compiled."""
    question = Question("model.py:block@HEAD~1", target="h100")
    sides = [Side(), Side(("split_reductions=false",))]
    requests = [job.request for job in make_jobs(question, sides, fake_interpreter)]
    with Worktrees() as worktrees:
        made = [m for _, m in worktrees.compile(Installed("1"), requests, lambda _: None)]
    runs = [each.run for each in made if isinstance(each, Bundle)]
    assert [dict(run.sources) for run in runs] == [{}, {}]
    assert [run.variant for run in runs] == [request.variant for request in requests]


class Measuring:
    """Stands for a measuring worker, which imports as ``Installed`` does."""

    def __init__(self, request: MeasureRequest, stubborn: bool) -> None:
        self.request, self.stubborn, self.closed = request, stubborn, False

    def prepare(self) -> Prepared:
        here = [str(Path("model.py").resolve())]
        own = here if self.stubborn else imports(self.request.compile)
        return replace(handmade_record.prepared("base"), sources=(*own, "/usr/lib/torch.py"))

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("stubborn", [False, True])
def test_what_is_measured_is_the_revisions_own(
    perfcli: Any,
    revisions: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stubborn: bool,
) -> None:
    """Nothing but the worker says what it imported: the run that it was compiled to may be one of
    a day ago."""
    from perfcli.workflow import bench

    started: list[Measuring] = []

    def start(request: MeasureRequest, _: Any) -> Measuring:
        started.append(Measuring(request, stubborn))
        return started[-1]

    monkeypatch.setattr(bench, "Starter", lambda *_: start)
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    question = Question("model.py:block@HEAD~1", device="cpu")
    (job,) = make_jobs(question, [Side()], fake_interpreter)
    setting = Setting(MeasuringOptions(), "cpu", 1.0, 1, 0, (0,), None)
    place = bench.open_bench(setting, [job, job], None)
    worker = place.start(setting.plan([job, job]).base, lambda phase: None)
    try:
        if stubborn:
            with pytest.raises(
                PerfcliError, match=r"imports .*/model\.py, which is the one of your"
            ):
                worker.prepare()
        else:
            assert worker.prepare().sources == ()
    finally:
        worker.close()
        place.close()
    assert [each.closed for each in started] == [True, True]
    first, second = (each.request.compile for each in started)
    assert "PYTHONPATH" not in first.variant.env
    assert second.variant.env["PYTHONPATH"] == second.folder != str(Path.cwd())
