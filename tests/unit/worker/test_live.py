"""The parent's side of a measuring worker, with small stand-ins for the interpreter."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handmade_worker import HEAD, WORKS

from perfcli.errors import OutOfMemory, PerfcliError, UserCodeFailed, WorkerFailed, WrongResult
from perfcli.model import Ask, CompileRequest, MeasureRequest, Prepared, Turn, Variant
from perfcli.worker import live, protocol
from perfcli.worker.live import LiveWorker, Starter
from perfcli.worker.starting import FIXED_LAYOUT, KEEP_MEMORY

STEP = Ask("step", 3, 2)

Start = Callable[..., LiveWorker]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def start(tmp_path: Path, temporary: Path) -> Any:
    """Starts a worker whose interpreter is a script with the given body."""
    workers: list[LiveWorker] = []

    def begin(body: str, timeout: float = 30, **more: Any) -> LiveWorker:
        script = tmp_path / f"python{len(workers)}"
        script.write_text(HEAD + body)
        script.chmod(0o755)
        variant = Variant("v", env=more.pop("env", {}), python=str(script))
        device = more.pop("device", "cpu")
        compiled = CompileRequest("softmax", {"rows": 4}, None, variant, device, None)
        request = MeasureRequest(compiled, more.pop("side", "head"), 7, **more)
        phases = PHASES_TOLD
        phases.clear()
        worker = Starter(tmp_path / "caches", timeout)(request, phases.append)
        workers.append(worker)
        return worker

    yield begin
    for worker in workers:
        worker.close()


PHASES_TOLD: list[str] = []


def failure(worker: LiveWorker, turns: int = 0) -> PerfcliError:
    """What preparing raises, or the turn after so many good ones."""
    if turns:
        worker.prepare()
        for _ in range(turns - 1):
            worker.turn(STEP)
    with pytest.raises(PerfcliError) as raised:
        worker.turn(STEP) if turns else worker.prepare()
    assert "\n" not in str(raised.value)
    return raised.value


# --- all well --------------------------------------------------------------------------------


def test_a_worker_gets_ready_and_answers_as_often_as_asked(start: Start) -> None:
    worker = start(WORKS)
    prepared = worker.prepare()
    assert isinstance(prepared, Prepared)
    assert (prepared.side, prepared.machine.device) == ("head", "a stand-in")
    assert PHASES_TOLD == ["import", "trace", "kernels", "check", "warm"]
    for steps in (3, 5):
        turn = worker.turn(Ask("step", steps, 2))
        assert turn == Turn((0.25,) * steps, (0.5, 0.5))


def test_the_request_arrives_whole(start: Start, tmp_path: Path) -> None:
    told = tmp_path / "told"
    body = f"open({str(told)!r}, 'w').write(json.dumps(request))\n{WORKS}"
    start(body, threads=2, cpus=(1, 3), cuda_graph=True, slow_down=0.03).prepare()
    again = protocol.decode_dataclass(MeasureRequest, json.loads(told.read_text()))
    assert (again.seed, again.threads, again.cpus) == (7, 2, (1, 3))
    assert (again.cuda_graph, again.slow_down, again.check) == (True, 0.03, True)
    assert again.compile.params == {"rows": 4}


def test_workers_of_one_device_take_turns_on_it(start: Start, tmp_path: Path) -> None:
    body = f"open({str(tmp_path)!r} + '/' + request['side'], 'w').write(request['turnstile'])\n"
    start(body + WORKS, device="cuda", side="base").prepare()
    start(body + WORKS, device="cuda").prepare()
    base, head = ((tmp_path / side).read_text() for side in ("base", "head"))
    assert base == head == str(tmp_path / "device-0")
    start(body + WORKS, device="cuda", device_index=1).prepare()
    assert (tmp_path / "head").read_text() == str(tmp_path / "device-1")
    start(body + WORKS).prepare()
    assert (tmp_path / "head").read_text() == ""


def test_time_to_get_ready_begins_when_somebody_waits(start: Start) -> None:
    worker = start(WORKS, timeout=5)
    time.sleep(0)  # whatever the caller does first
    worker._open().give(1e-9)
    assert worker.prepare().step_seconds == 0.001


def test_what_a_model_prints_is_no_reply(start: Start) -> None:
    noisy = """
def talk():
    print('{"type": "turn", "turn": {"seconds": [1]}}', flush=True)
    print("Traceback", file=sys.stderr, flush=True)
talk()
ready()
while ask := asked():
    talk()
    send(type="turn", turn={"seconds": [0.25] * ask["steps"]})
    talk()
"""
    worker = start(noisy)
    worker.prepare()
    for _ in range(3):
        assert worker.turn(STEP) == Turn((0.25,) * 3)


def test_its_environment(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    worker = start(WORKS, threads=2, env={"TORCHINDUCTOR_ONLINE_SOFTMAX": "0"})
    variables = worker.prepare().machine.variables
    assert "TORCHINDUCTOR_MAX_AUTOTUNE" not in variables
    assert variables["TORCHINDUCTOR_ONLINE_SOFTMAX"] == "0"
    assert variables["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "caches" / "inductor")
    assert variables["OMP_NUM_THREADS"] == "2"
    assert variables["PYTHONHASHSEED"] == "0"
    assert variables[FIXED_LAYOUT] == "1"
    assert KEEP_MEMORY.items() <= variables.items()


def test_nothing_is_left_behind(start: Start, temporary: Path) -> None:
    worker = start(WORKS)
    worker.prepare()
    assert list(temporary.iterdir())
    worker.close()
    worker.close()
    assert list(temporary.iterdir()) == []
    with pytest.raises(PerfcliError, match="the head's worker is closed"):
        worker.turn(STEP)


def test_two_workers_live_at_the_same_time(start: Start) -> None:
    base, head = start(WORKS, side="base"), start(WORKS, side="head")
    assert (base.prepare().side, head.prepare().side) == ("base", "head")
    for _ in range(3):
        assert head.turn(STEP) == base.turn(STEP)


# --- ends without a reply --------------------------------------------------------------------


def test_death_while_preparing(start: Start) -> None:
    body = """
send(type="progress", phase="trace")
print("last words", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    error = failure(start(body))
    assert isinstance(error, OutOfMemory)
    assert str(error) == (
        "the head's worker was killed by SIGKILL while building and tracing the model "
        "(out of memory?)"
    )
    assert error.detail.endswith("last words")


def test_death_in_the_middle(start: Start) -> None:
    body = """
ready()
asked()
send(type="turn", turn={"seconds": [1.0]})
asked()
print("last words", flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
"""
    error = failure(start(body, side="base"), turns=2)
    assert type(error) is WorkerFailed
    assert str(error) == "the base's worker was killed by SIGSEGV while measuring"
    assert error.detail.endswith("last words")


def test_killed_in_a_turn_is_out_of_memory(start: Start) -> None:
    error = failure(start("ready()\nasked()\nos.kill(os.getpid(), signal.SIGKILL)"), turns=1)
    assert type(error) is OutOfMemory
    assert str(error) == (
        "the head's worker was killed by SIGKILL while measuring (out of memory?)"
    )


def test_one_that_leaves_between_two_turns(start: Start) -> None:
    body = "ready()\nasked()\nsend(type='turn', turn={'seconds': [1.0]})\nsys.exit(3)"
    error = failure(start(body), turns=2)
    assert "ended with exit code 3 and no reply while measuring" in str(error)


def test_a_hang_while_preparing_ends_with_the_timeout(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfcli.worker.channel.STACK_SECONDS", 0.1)
    # Long enough for the stand-in to start.
    error = failure(start("send(type='progress', phase='kernels')\nsleep()", timeout=3))
    assert str(error) == (
        "the head's worker did not finish within 3 s and was stopped while compiling kernels "
        "(--timeout SECONDS gives it more)"
    )


def test_a_hang_in_a_turn_ends_as_well(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfcli.worker.channel.STACK_SECONDS", 0.1)
    monkeypatch.setattr(live, "TURN_SECONDS", 0.3)
    error = failure(start("ready()\nasked()\nsleep()"), turns=1)
    assert str(error) == (
        "the head's worker did not finish within 0.3 s and was stopped while measuring"
    )


def test_a_turn_of_slow_steps_has_longer(start: Start) -> None:
    worker = start(WORKS.replace("ready()", "ready(90.0)"))
    worker.prepare()
    before = time.monotonic()
    worker.turn(STEP)
    channel: Any = worker._channel
    # Ten times its two warm-up and three timed steps.
    assert 4500 <= channel._deadline - before < 4510


def test_the_time_of_preparing_does_not_count_for_turns(start: Start) -> None:
    worker = start(WORKS, timeout=3)
    worker.prepare()
    channel: Any = worker._channel
    before = channel._deadline
    worker.turn(STEP)
    assert channel._deadline - before > live.TURN_SECONDS / 2


# --- nonsense --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"Segmentation fault\n", "the head's worker sent what is not a reply"),
        (b"[1, 2]\n", "the head's worker sent what is not a reply"),
        (b"\xff\xfe\n", "the head's worker sent what is not a reply"),
        (b'{"type": "result"}\n', "the head's worker sent 'result' instead of"),
    ],
)
@pytest.mark.parametrize("turns", [0, 1])
def test_garbage_on_the_reply_pipe(start: Start, sent: bytes, says: str, turns: int) -> None:
    before = "ready()\nasked()\n" if turns else ""
    error = failure(start(f"{before}os.write(reply, {sent!r})\nsleep()"), turns)
    assert isinstance(error, WorkerFailed)
    assert says in str(error)


@pytest.mark.parametrize(
    ("message", "turns"),
    [
        ('type="prepared", prepared={"side": "head"}', 0),
        ('type="prepared"', 0),
        ('type="turn", turn={"seconds": ["fast"]}', 1),
        ('type="turn", turn=[0.1]', 1),
    ],
)
def test_a_broken_result(start: Start, message: str, turns: int) -> None:
    before = "ready()\nasked()\n" if turns else ""
    error = failure(start(f"{before}send({message})\nsleep()"), turns)
    assert str(error).startswith("the head's worker sent a broken result")


def test_an_unknown_phase_is_passed_over(start: Start) -> None:
    start("send(type='progress', phase='dreaming')\n" + WORKS).prepare()
    assert PHASES_TOLD == ["import", "trace", "kernels", "check", "warm"]


@pytest.mark.parametrize("kind", [OutOfMemory, WrongResult, UserCodeFailed])
@pytest.mark.parametrize("turns", [0, 1])
def test_its_errors_arrive_as_what_they_are(start: Start, kind: Any, turns: int) -> None:
    before = "ready()\nasked()\n" if turns else ""
    message = f"type='error', kind={kind.__name__!r}, message='too much', detail='here'"
    error = failure(start(f"{before}send({message})"), turns)
    assert type(error) is kind
    assert (str(error), error.detail) == ("too much", "here")


def test_an_interpreter_that_is_not_there(tmp_path: Path, temporary: Path) -> None:
    variant = Variant("v", python=str(tmp_path / "nowhere"))
    compiled = CompileRequest("softmax", {}, None, variant, "cpu", None)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PerfcliError, match=r"cannot start .*nowhere"):
        Starter(tmp_path)(MeasureRequest(compiled, "base", 1), lambda _: None)
    assert list(temporary.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_worker_is_asked_whether_it_is_ready_without_waiting(start: Start) -> None:
    body = """
asked()
send(type="progress", phase="trace")
ready()
asked()
"""
    worker = start(body)
    assert not worker.is_prepared()
    worker._open().send(b"{}\n")
    began = time.monotonic()
    while not worker.is_prepared():
        assert time.monotonic() - began < 30
    assert worker.prepare() == worker.prepare()


def test_an_error_is_ready_and_raised_each_time(start: Start) -> None:
    worker = start("""send(type="error", kind="WrongResult", message="off", detail="")""")
    began = time.monotonic()
    while not worker.is_prepared():
        assert time.monotonic() - began < 30
    for _ in range(2):
        with pytest.raises(WrongResult, match="off"):
            worker.prepare()
