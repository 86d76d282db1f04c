"""The parent's side, with small stand-ins for the interpreter: scripts that read the request and
misbehave on the reply pipe."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import handmade
import msgspec
import pytest

from perfcli.commands._arguments import read_needs
from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.model import Bundle, CompileRequest, Variant
from perfcli.worker import channel as stack
from perfcli.worker import process
from perfcli.worker.channel import LOG_TAIL_LINES, Channel
from perfcli.worker.needs import Needs
from perfcli.worker.process import ProcessExecutor
from perfcli.worker.protocol import ERROR_KINDS
from perfcli.worker.roles import Interlude, Progress
from perfcli.worker.starting import measuring_environment, worker_environment

HEAD = f"""#!{sys.executable} -SE
import json, os, signal, sys, threading
request = json.loads(os.fdopen(int(sys.argv[-2]), "rb").readline())["compile"]
reply = int(sys.argv[-1])
def send(text):
    os.write(reply, text.encode())
def sleep():
    threading.Event().wait(60)
"""
# A process of the worker's group that keeps the reply pipe open, and says so on the fifo.
ORPHAN = """
ready, tell = os.pipe()
if os.fork() == 0:
    fifo = os.open(request["params"]["fifo"], os.O_WRONLY)
    os.write(fifo, b"x")
    os.write(tell, b"x")
    sleep()
os.read(ready, 1)
"""
ERROR = """{"type": "error", "kind": "CompileFailed", "message": "done", "detail": ""}\n"""

Request = Callable[..., CompileRequest]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def request_for(tmp_path: Path, temporary: Path) -> Request:
    """A request whose interpreter is a script with the given body."""

    def make(body: str, env: dict[str, str] | None = None, **params: str) -> CompileRequest:
        script = tmp_path / "python"
        script.write_text(HEAD + body)
        script.chmod(0o755)
        variant = Variant("v", env=env or {}, python=str(script))
        return CompileRequest("softmax", params, None, variant, "cuda", handmade.H100)

    return make


def failure(request: CompileRequest, timeout: float = 30) -> PerfcliError:
    ((number, made),) = ProcessExecutor(timeout).compile([request], lambda _: None)
    assert number == 0
    assert isinstance(made, PerfcliError)
    assert "\n" not in str(made)
    return made


def failure_of_one_that_hangs(request: CompileRequest, timeout: float = 0.5) -> PerfcliError:
    """Of one that had begun: a busy machine may need longer than that to start an interpreter."""
    error = failure(request, timeout)
    assert f"did not finish within {timeout:g} s and was stopped" in str(error)
    if error.detail or timeout > 30:
        return error
    return failure_of_one_that_hangs(request, 4 * timeout)


class Fifo:
    """Tells when the last process that holds it is gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def next(self) -> bytes:
        assert select.select([self._fd], [], [], 10)[0], "somebody still holds the fifo"
        return os.read(self._fd, 100)

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    made = Fifo(tmp_path / "fifo")
    yield made
    made.close()


# --- ends without a reply --------------------------------------------------------------------


def test_a_worker_that_dies_by_a_signal_is_named_with_the_end_of_its_log(
    request_for: Request,
) -> None:
    body = """
for number in range(100):
    print("line", number, flush=True)
print("last words", file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
"""
    error = failure(request_for(body))
    assert isinstance(error, WorkerFailed)
    assert str(error) == "the worker was killed by SIGSEGV while starting"
    told = error.detail.splitlines()
    assert told[0] == "the end of its log:"
    assert told[1:] == [f"line {n}" for n in range(101 - LOG_TAIL_LINES, 100)] + ["last words"]


def test_what_torch_prints_of_its_profiler_is_left_out_of_the_log(request_for: Request) -> None:
    body = """
print("words", flush=True)
for number in range(50):
    print("USDT: profiler_start", number, file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
"""
    assert failure(request_for(body)).detail == "the end of its log:\nwords"


def test_a_worker_that_is_killed_may_have_run_out_of_memory(request_for: Request) -> None:
    error = failure(request_for("os.kill(os.getpid(), signal.SIGKILL)"))
    assert str(error) == "the worker was killed by SIGKILL while starting (out of memory?)"


def test_a_signal_without_a_name(request_for: Request) -> None:
    number = 40  # a real-time signal: Python names only the first and the last
    error = failure(request_for(f"os.kill(os.getpid(), {number})"))
    assert str(error) == f"the worker was killed by signal {number} while starting"


def test_a_worker_that_exits(request_for: Request) -> None:
    error = failure(request_for("raise SystemExit(7)"))
    assert isinstance(error, WorkerFailed)
    assert str(error) == "the worker ended with exit code 7 and no reply while starting"
    assert error.detail == ""


def test_half_a_reply_is_none(request_for: Request) -> None:
    error = failure(request_for("""send('{"type": "result", "run"')"""))
    assert str(error) == "the worker ended with exit code 0 and no reply while starting"


def test_a_worker_that_hangs_is_stopped(request_for: Request, temporary: Path) -> None:
    error = failure_of_one_that_hangs(request_for("print('waiting', flush=True); sleep()"))
    assert isinstance(error, WorkerFailed)
    assert error.detail == "the end of its log:\nwaiting"


def test_a_worker_that_hangs_shows_where(request_for: Request) -> None:
    body = """
import faulthandler, time
faulthandler.enable()
def stuck():
    send('{"type": "progress", "phase": "trace"}\\n')
    time.sleep(60)
stuck()
"""
    error = failure_of_one_that_hangs(request_for(body))
    assert "while building and tracing the model" in str(error)
    assert error.detail.startswith("it was in ")
    assert error.detail.endswith("python:14, stuck")
    assert "\n" not in error.detail


IMPORTING = """before
Fatal Python error: Aborted

Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f0000000002 (most recent call first):
  File "<frozen importlib._bootstrap_external>", line 729 in _compile_bytecode
  File "<frozen importlib._bootstrap>", line 690 in _load_unlocked
  File "/v/torch/__init__.py", line 2250 in <module>
  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed
"""


def test_where_it_was_is_one_line() -> None:
    lines = IMPORTING.splitlines()
    assert stack._innermost(lines) == "it was in /v/torch/__init__.py:2250, <module>"
    assert stack._innermost(lines[:6]) == ""
    assert stack._innermost(lines[:8]) == ""


def test_a_worker_that_reports_forever_is_stopped(request_for: Request) -> None:
    body = """
while True:
    send('{"type": "progress", "phase": "trace"}\\n')
"""
    assert "did not finish within 0.5 s" in str(failure(request_for(body), timeout=0.5))


def test_a_killed_worker_is_noticed_while_its_children_hold_the_pipe(
    request_for: Request, fifo: Fifo
) -> None:
    body = ORPHAN + "os.kill(os.getpid(), signal.SIGKILL)"
    error = failure(request_for(body, fifo=fifo.path))
    assert "SIGKILL" in str(error)


# --- sends something else --------------------------------------------------------------------


@pytest.mark.parametrize("sent", ["garbage\n", "[1]\n", "{}\n", '{"type": 3}\n', "\n"])
def test_garbage_on_the_pipe(sent: str, request_for: Request) -> None:
    error = failure(request_for(f"print('log', flush=True); send({sent!r})"))
    assert isinstance(error, WorkerFailed)
    assert str(error).startswith("the worker sent what is not a reply")
    assert error.detail == "the end of its log:\nlog"


@pytest.mark.parametrize(
    "sent",
    [
        '{"type": "unheard of"}',
        '{"type": "result"}',
        '{"type": "result", "run": {"id": 1}, "blobs": {}}',
    ],
)
def test_a_result_that_is_no_run(sent: str, request_for: Request) -> None:
    error = failure(request_for(f"send({sent + chr(10)!r})"))
    assert isinstance(error, WorkerFailed)
    assert str(error).startswith("the worker sent a broken result")


@pytest.mark.parametrize("kind", ERROR_KINDS)
def test_errors_come_out_as_they_were(kind: str, request_for: Request) -> None:
    message = {"type": "error", "kind": kind, "message": "what", "detail": "a\nb"}
    error = failure(request_for(f"send({json.dumps(message) + chr(10)!r})"))
    assert type(error) is ERROR_KINDS[kind]
    assert str(error) == "what"
    assert error.detail == "a\nb"


def test_an_error_of_an_unknown_kind_is_a_plain_one(request_for: Request) -> None:
    error = failure(request_for("""send('{"type":"error","kind":"Odd","message":"what"}\\n')"""))
    assert type(error) is PerfcliError


# --- a good reply ----------------------------------------------------------------------------


def test_a_result_in_pieces_and_noise_on_stdout(request_for: Request, tmp_path: Path) -> None:
    run = handmade.run([handmade.kernel("a", "mul"), handmade.kernel("b", "add", registers=None)])
    blobs = {"id": "x" * 300_000}
    result = {"type": "result", "run": msgspec.to_builtins(run), "blobs": blobs}
    progress = '{"type": "progress", "phase": "kernels", "done": 1, "total": 2}\n'
    note = '{"type": "note", "message": "k takes long"}\n'
    text = progress + note + progress + json.dumps(result) + "\n"
    (tmp_path / "reply").write_text(text)
    body = f"""
print('{{"type": "error"}}')
text = open({str(tmp_path / "reply")!r}).read()
for start in range(0, len(text), 99_991):
    send(text[start:start + 99_991])
"""
    seen: list[Progress] = []
    ((_, bundle),) = ProcessExecutor(30).compile([request_for(body)], seen.append)
    assert isinstance(bundle, Bundle)
    assert bundle.run == replace(run, weighed=True)
    assert bundle.blobs == blobs
    assert [p.note for p in seen if p.note] == ["k takes long"]
    assert [(p.request, p.phase, p.done, p.total) for p in seen if not p.note] == [
        (0, "kernels", 1, 2),
        (0, "kernels", 1, 2),
        (0, "done", 0, None),
    ]


def test_a_request_that_fails_does_not_keep_the_others_from_their_results(
    request_for: Request, tmp_path: Path
) -> None:
    run = handmade.run([handmade.kernel("a")])
    good = {"type": "result", "run": msgspec.to_builtins(run), "blobs": {}}
    (tmp_path / "reply").write_text(json.dumps(good) + "\n")
    body = f"""
if "fails" in request["params"]:
    raise SystemExit(3)
send(open({str(tmp_path / "reply")!r}).read())
"""
    requests = [request_for(body, fails="yes"), request_for(body), request_for(body)]
    seen: list[int] = []
    made = dict(ProcessExecutor(30).compile(requests, lambda p: seen.append(p.request)))
    assert "exit code 3" in str(made.pop(0))
    assert [each.run for each in made.values() if isinstance(each, Bundle)] == [
        replace(run, weighed=True)
    ] * 2
    assert seen == [1, 2]


def test_those_that_run_on_gpus_take_them_in_turns(
    request_for: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"open({str(tmp_path)!r} + '/seen-' + request['params']['n'], 'w').write("
    body += "os.environ.get('CUDA_VISIBLE_DEVICES', 'none'))\n"
    asked = [replace(request_for(body, n=str(n)), on_device=n < 3) for n in range(4)]
    monkeypatch.setattr("perfcli.worker.process.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    list(ProcessExecutor(30).compile(asked, lambda _: None))
    assert [(tmp_path / f"seen-{n}").read_text() for n in range(4)] == ["5", "7", "5", ""]


def test_what_needs_more_memory_than_there_is_is_not_begun(request_for: Request) -> None:
    needs = Needs({"softmax": 1 << 60})
    ((_, made),) = ProcessExecutor(30, needs).compile([request_for("sleep()")], lambda _: None)
    assert "softmax needs 1.15 EB of memory, and this machine has " in str(made)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("x=64GiB", "x needs 64 GiB of memory, and there has 31.3 GiB: "),
        ("64GB", "x needs 64 GB of memory, and there has 33.6 GB: "),
    ],
)
def test_memory_is_told_in_the_units_that_were_typed(
    request_for: Request, typed: str, said: str
) -> None:
    request = replace(request_for(""), scenario="x")
    refused = read_needs([typed]).refuse(request, 33_600_000_000, "there")
    assert said in str(refused)


def test_a_size_that_is_typed_anew_has_its_own_units() -> None:
    needs = read_needs(["64GiB", "64GB"])
    assert needs == read_needs(["64GB"])
    assert needs.binary == frozenset()


# --- two at once -----------------------------------------------------------------------------


def pair(request_for: Request, body: str, jobs: int = 4) -> list[CompileRequest]:
    """Two requests, the second of which has the parameter ``second``."""
    return [
        replace(request_for(body), jobs=jobs),
        replace(request_for(body, second="yes"), jobs=jobs),
    ]


def test_two_compile_at_once_and_share_the_jobs(request_for: Request, tmp_path: Path) -> None:
    run = handmade.run([handmade.kernel("a")])
    good = {"type": "result", "run": msgspec.to_builtins(run), "blobs": {}}
    (tmp_path / "reply").write_text(json.dumps(good) + "\n")
    os.mkfifo(tmp_path / "met")
    body = f"""
assert request["jobs"] == 2
# Each waits until the other one is there.
os.close(os.open({str(tmp_path / "met")!r}, os.O_WRONLY if request["params"] else os.O_RDONLY))
send(open({str(tmp_path / "reply")!r}).read())
"""
    seen: list[int] = []
    requests = pair(request_for, body, jobs=3)
    made = dict(ProcessExecutor(30).compile(requests, lambda p: seen.append(p.request)))
    assert [each.run for each in made.values() if isinstance(each, Bundle)] == [
        replace(run, weighed=True)
    ] * 2
    assert sorted(seen) == [0, 1]


def test_with_one_job_one_compiles_at_a_time(request_for: Request, tmp_path: Path) -> None:
    body = f"""
running = {str(tmp_path / "running")!r}
os.mkdir(running)  # fails while the other one runs
os.rmdir(running)
"""
    made = ProcessExecutor(30).compile(pair(request_for, body, jobs=1), lambda _: None)
    assert ["exit code 0" in str(each) for _, each in made] == [True, True]


@pytest.mark.parametrize("stops", ["fails", "interrupted"])
def test_where_the_first_fails_nothing_is_left_of_the_second(
    stops: str, request_for: Request, fifo: Fifo, temporary: Path
) -> None:
    begun = f"tell = os.open({fifo.path!r}, os.O_WRONLY)\nos.write(tell, b'x')\n"
    end = f"send({ERROR!r})" if stops == "fails" else """send('{"type": "progress"}\\n'); sleep()"""
    body = f"if request['params']:\n    {begun.replace(chr(10), chr(10) + '    ')}sleep()\n"
    body += f"""
while not os.path.exists({str(temporary / "go")!r}):
    threading.Event().wait(0.01)
{end}
"""
    open_before = len(os.listdir("/proc/self/fd"))

    def tell(_: Progress) -> None:
        raise KeyboardInterrupt

    def meet() -> None:
        fifo.next()
        (temporary / "go").touch()

    arriving = ProcessExecutor(30).compile(pair(request_for, body), tell)
    waiting = threading.Thread(target=meet)
    waiting.start()
    with suppress(KeyboardInterrupt), closing(arriving):
        number, made = next(arriving)
        assert stops == "fails"
        assert number == 0
        assert isinstance(made, PerfcliError)
    waiting.join()
    (temporary / "go").unlink()
    assert fifo.next() == b""
    assert list(temporary.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == open_before


# --- what is left behind ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "ending",
    [
        f"send({ERROR!r})",
        "send('garbage\\n')",
        "os.close(reply); sleep()",
        "sleep()",
    ],
    ids=["error", "garbage", "closed", "hangs"],
)
def test_nothing_is_left_of_a_worker(
    ending: str, request_for: Request, fifo: Fifo, temporary: Path
) -> None:
    body = ORPHAN + "open(os.path.join(os.environ['TMPDIR'], 'rubbish'), 'w').close()\n" + ending
    open_before = len(os.listdir("/proc/self/fd"))
    # Long enough for the stand-in to start; those that sleep wait for its end.
    failure(request_for(body, fifo=fifo.path), timeout=3 if "sleep()" in ending else 30)
    assert fifo.next() == b"x"
    assert fifo.next() == b""
    assert list(temporary.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_ctrl_c_in_the_parent_ends_the_worker(
    request_for: Request, fifo: Fifo, temporary: Path
) -> None:
    body = ORPHAN + """send('{"type": "progress", "phase": "trace"}\\n'); sleep()"""

    def interrupt(_: Progress) -> None:
        assert fifo.next() == b"x"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(ProcessExecutor(30).compile([request_for(body, fifo=fifo.path)], interrupt))
    assert fifo.next() == b""
    assert list(temporary.iterdir()) == []


# --- how it is started -----------------------------------------------------------------------


def test_the_environment_is_the_callers_without_torchs_settings(
    request_for: Request, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_LOGS", "all")
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("KEPT", "as it is")
    written = tmp_path / "environment"
    body = f"json.dump(dict(os.environ), open({str(written)!r}, 'w')); send({ERROR!r})"
    asked = {"TORCHINDUCTOR_BENCHMARK_FUSION": "1", "OTHER": "2"}
    failure(request_for(body, env=asked))
    env = json.loads(written.read_text())
    assert env["KEPT"] == "as it is"
    assert env["OTHER"] == "2"
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["PYTHONHASHSEED"] == "0"
    settings = {k for k in env if k.startswith(("TORCH", "TRITON"))}
    assert settings == {
        "TORCHINDUCTOR_BENCHMARK_FUSION",
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCHINDUCTOR_COMPILE_THREADS",
        "TRITON_CACHE_DIR",
    }
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR"):
        assert Path(env[name]).is_relative_to(temporary)


def test_binaries_of_what_is_measured_next_are_kept(request_for: Request, tmp_path: Path) -> None:
    measured = replace(request_for(""), cache_dir=str(tmp_path / "cache"), measured=True)
    found = worker_environment(measured, tmp_path)["TRITON_CACHE_DIR"]
    assert found == str(tmp_path / "cache" / "triton")
    asked = measuring_environment(measured, None, tmp_path, tmp_path / "caches")
    assert asked["TRITON_CACHE_DIR"] == found
    private = worker_environment(replace(measured, measured=False), tmp_path)["TRITON_CACHE_DIR"]
    assert private == str(tmp_path / "triton")


def test_an_interpreter_that_does_not_exist(tmp_path: Path, temporary: Path) -> None:
    missing = str(tmp_path / "no" / "python")
    request = CompileRequest("softmax", {}, None, Variant("v", python=missing), "cpu", None)
    error = failure(request)
    assert str(error) == f"cannot start {missing}: No such file or directory"
    assert list(temporary.iterdir()) == []


def test_an_interpreter_that_cannot_be_run(tmp_path: Path, temporary: Path) -> None:
    script = tmp_path / "python"
    script.write_text("not executable")
    request = CompileRequest("softmax", {}, None, Variant("v", python=str(script)), "cpu", None)
    assert str(failure(request)) == f"cannot start {script}: Permission denied"


def test_a_program_that_is_no_python(temporary: Path) -> None:
    request = CompileRequest("s", {}, None, Variant("v", python="/bin/false"), "cpu", None)
    assert str(failure(request)) == "the worker ended with exit code 1 and no reply while starting"


# --- what is done meanwhile --------------------------------------------------------------------

WAITS = """
child = os.fork()
if child == 0:
    sleep()
with open(request["params"]["pids"] + "~", "w") as opened:
    opened.write(f"{os.getpid()} {child}")
os.rename(request["params"]["pids"] + "~", request["params"]["pids"])
while not os.path.exists(request["params"]["go"]):
    threading.Event().wait(0.01)
send(ERROR)
"""


def state(process: str) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_what_compiles_waits_for_an_interlude(request_for: Request, tmp_path: Path) -> None:
    """The worker and its child are stopped in it and go on behind it; its time is not theirs."""
    pids, go = tmp_path / "pids", tmp_path / "go"
    asked: list[str] = []
    niceness: list[int] = []

    def run() -> None:
        asked.append("run")
        go.touch()  # which nobody sees yet
        processes = pids.read_text().split()
        niceness.append(os.getpriority(os.PRIO_PROCESS, int(processes[0])))
        began = time.monotonic()
        while {state(each) for each in processes} != {"T"}:
            assert time.monotonic() - began < 10, "somebody goes on"
        while time.monotonic() - began < 1.5:
            assert {state(each) for each in processes} == {"T"}

    request = request_for(f"ERROR = {ERROR!r}\n{WAITS}", pids=str(pids), go=str(go))
    executor = ProcessExecutor(2.0, interlude=Interlude(pids.exists, run))
    ((_, made),) = executor.compile([request], lambda _: None)
    assert str(made) == "done"
    assert asked == ["run"]
    assert niceness == [max(os.getpriority(os.PRIO_PROCESS, 0), 10)]


TRACE = json.dumps({"type": "progress", "phase": "trace", "done": 0, "total": None})


@pytest.mark.parametrize("until", ["ready", "long"])
def test_tracing_waits_for_who_comes_first(
    request_for: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: str
) -> None:
    """Until it is ready, or has taken too long."""
    pids, go = tmp_path / "pids", tmp_path / "go"
    monkeypatch.setattr(process, "_HOLD_SECONDS", 0.5 if until == "long" else 60.0)
    stopped: list[float] = []

    def comes_first() -> bool:
        if not stopped and pids.exists():
            states = {state(each) for each in pids.read_text().split()}
            if states == {"T"}:
                stopped.append(time.monotonic())
                go.touch()  # which nobody sees while it is stopped
        return pids.exists() if until == "long" else not stopped

    traces = f"send({TRACE!r} + '\\n')\nwhile not"
    body = WAITS.replace("while not", traces)
    request = request_for(f"ERROR = {ERROR!r}\n{body}", pids=str(pids), go=str(go))
    interlude = Interlude(lambda: False, lambda: pytest.fail("it is not due"), comes_first)
    executor = ProcessExecutor(30, interlude=interlude)
    ((_, made),) = executor.compile([request], lambda _: None)
    assert str(made) == "done"
    assert stopped


@pytest.mark.parametrize(("before", "after"), [(0, 10), (15, 15)])
def test_who_steps_back_keeps_what_niceness_it_has_beyond(before: int, after: int) -> None:
    """The superuser may lower it, and did."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        least = os.getpriority(os.PRIO_PROCESS, child.pid)
        os.setpriority(os.PRIO_PROCESS, child.pid, max(before, least))
        Channel.step_back(SimpleNamespace(_process=child))  # type: ignore[arg-type]
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == max(after, least)


def test_what_has_nothing_to_wait_for_keeps_its_priority(
    request_for: Request, tmp_path: Path
) -> None:
    request = request_for("""
error = {"type": "error", "kind": "CompileFailed", "message": str(os.nice(0)), "detail": ""}
send(json.dumps(error) + "\\n")
""")
    ((_, made),) = ProcessExecutor(30).compile([request], lambda _: None)
    assert str(made) == str(os.nice(0))


def test_none_is_held_where_something_would_begin_in_it(
    request_for: Request, tmp_path: Path
) -> None:
    request = replace(request_for(f"send({ERROR!r})"), jobs=1)
    interlude = Interlude(lambda: True, lambda: pytest.fail("it was held"))
    executor = ProcessExecutor(30, interlude=interlude)
    assert len(list(executor.compile([request, request], lambda _: None))) == 2
