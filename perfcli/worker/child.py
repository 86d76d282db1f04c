"""Does the worker's side: reads what it is to do, does it, replies. Standard library and torch
only."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from perfcli.errors import PerfcliError
from perfcli.machine.environment import cache_dir
from perfcli.model import Ask, CompileRequest, KernelsRequest, MeasureRequest
from perfcli.model.kernel_work import (
    BenchAsk,
    BenchRequest,
    CheckRequest,
    CorpusCase,
    CorpusRequest,
    DescribeRequest,
    LaunchesRequest,
    OperatorsRequest,
)
from perfcli.worker import protocol
from perfcli.worker import replies as child_replies
from perfcli.worker.keeper import Keeper, KeepRequest, import_early
from perfcli.worker.starting import IMPORTS


def serve(request_fd: int, reply_fd: int, watch: Callable[[], None] = lambda: None) -> int:
    """Compiles, or measures until the parent is gone; exits with 0 when a reply was sent, whatever
    it says. ``watch`` has a worker that is forked later end with its parent."""

    def work(requests: int, replies: int) -> None:
        watch()
        serve(requests, replies)

    kept = None
    if use := os.environ.pop(IMPORTS, ""):
        with suppress(Exception):  # who asks for it will be told
            kept = import_early("measure" if use == "measure" else "compile", "cuda", cache_dir())
    keep: Keeper | None = None
    with os.fdopen(request_fd, "rb") as requests, os.fdopen(reply_fd, "wb") as replies:
        # Kept out of what a model's code starts: a stray child would hold the pipe open.
        os.set_inheritable(replies.fileno(), False)
        try:
            ((kind, request),) = json.loads(requests.readline()).items()
            if kind == "measure":
                asked = protocol.decode_dataclass(MeasureRequest, request)
                _measure(asked, requests, replies)
            elif kind in _OF_KERNELS:
                _OF_KERNELS[kind](request, requests, replies)
            elif kind == "keep":
                asked_to = protocol.decode_dataclass(KeepRequest, request)
                command = None if asked_to.stays else os.dup(requests.fileno())
                keep = Keeper(asked_to, work, command)
                _send(replies, {"type": "done"})
            elif kind == "template":
                asked_for = protocol.decode_dataclass(CompileRequest, request)
                _serve_as_template(asked_for, requests, replies)
            else:
                _compile(protocol.decode_dataclass(CompileRequest, request), replies)
        except PerfcliError as error:
            _send(replies, protocol.error_message(error))
        except Exception as error:
            traceback.print_exc()
            _send(replies, protocol.error_message(child_replies.explain_failure(error)))
    if keep is not None:
        keep.serve()
    del kept
    _exit_now()
    return 0


def _compile(request: CompileRequest, replies: BinaryIO) -> None:
    from perfcli.compile.session import compile_request

    def report(phase: str, done: int, total: int | None) -> None:
        _send(replies, {"type": "progress", "phase": phase, "done": done, "total": total})

    def tell(text: str) -> None:
        _send(replies, {"type": "note", "message": text})

    bundle = compile_request(request, report, tell)
    _send(replies, {"type": "result", "run": bundle.run, "blobs": bundle.blobs})


def _measure(request: MeasureRequest, questions: BinaryIO, replies: BinaryIO) -> None:
    from perfcli.measure.side import MeasuredSide

    def report(phase: str) -> None:
        _send(replies, {"type": "progress", "phase": phase, "done": 0, "total": None})

    side = MeasuredSide(request, report)
    _send(replies, {"type": "prepared", "prepared": side.prepare()})
    while line := questions.readline():
        ask = protocol.decode_dataclass(Ask, json.loads(line))
        _send(replies, {"type": "turn", "turn": side.turn(ask)})


def _compile_launches(request: object, _questions: BinaryIO, replies: BinaryIO) -> None:
    from perfcli.handwritten.compiling import compile_all

    asked = protocol.decode_dataclass(LaunchesRequest, request)
    for number, candidate in compile_all(asked):
        _send(replies, {"type": "compiled", "number": number, "found": candidate})
    _send(replies, {"type": "done"})


def _compile_texts(request: object, _questions: BinaryIO, replies: BinaryIO) -> None:
    from perfcli.compile.session import import_for_target

    asked = protocol.decode_dataclass(KernelsRequest, request)
    keep = import_for_target(asked.target, Path(asked.cache_dir))
    from perfcli.compile.binaries.pool import compile_texts

    for number, made in enumerate(compile_texts(asked)):
        _send(replies, {"type": "compiled", "number": number, "found": made})
    _send(replies, {"type": "done"})
    del keep


def _describe_launches(request: object, _questions: BinaryIO, replies: BinaryIO) -> None:
    from perfcli.handwritten.describing import describe

    found = describe(protocol.decode_dataclass(DescribeRequest, request))
    for number, launch in enumerate(found):
        _send(replies, {"type": "described", "number": number, "found": launch})
    _send(replies, {"type": "done"})


def _check_kernels(request: object, _questions: BinaryIO, replies: BinaryIO) -> None:
    from perfcli.handwritten.ahead import compile_ahead
    from perfcli.handwritten.checking import check_all

    asked = protocol.decode_dataclass(CheckRequest, request)
    for done, total in compile_ahead(asked):
        _send(replies, {"type": "compiling", "number": done, "total": total})
    _send(replies, {"type": "checking"})
    for number, checked in check_all(asked):
        _send(replies, {"type": "checked", "number": number, "found": checked})
    _send(replies, {"type": "done"})


def _bench_kernels(request: object, questions: BinaryIO, replies: BinaryIO) -> None:
    """Time problems until the parent is gone."""
    from perfcli.handwritten.benching import prepare_bench

    bench = prepare_bench(protocol.decode_dataclass(BenchRequest, request))
    _send(replies, {"type": "done"})

    def told(name: str) -> None:
        _send(replies, {"type": "preparing", "name": name})

    while line := questions.readline():
        ask = protocol.decode_dataclass(BenchAsk, json.loads(line))
        _send(replies, {"type": "benched", "found": bench.bench(ask, told)})
        _send(replies, {"type": "done"})


def _time_corpus(request: object, _questions: BinaryIO, replies: BinaryIO) -> None:
    from perfcli.measure.corpus import compile_cases, time_cases

    asked = protocol.decode_dataclass(CorpusRequest, request)
    good: list[tuple[int, CorpusCase]] = []
    for code in compile_cases(asked):
        good += [(number, asked.cases[number]) for number in code.cases]
        _send(replies, {"type": "compiled", "found": code})
    for batch in time_cases(good):
        for number, times in batch:
            _send(replies, {"type": "timed", "number": number, "found": times})
    _send(replies, {"type": "done"})


def _time_operators(request: object, _questions: BinaryIO, replies: BinaryIO) -> None:
    from perfcli.measure.operators import time_host, time_operators

    asked = protocol.decode_dataclass(OperatorsRequest, request)
    _send(replies, {"type": "host", "found": time_host()})
    for batch in time_operators(asked.cases):
        for number, timed in batch:
            _send(replies, {"type": "timed", "number": number, "found": timed})
    _send(replies, {"type": "done"})


_OF_KERNELS = {
    "launches": _compile_launches,
    "texts": _compile_texts,
    "describe": _describe_launches,
    "check": _check_kernels,
    "bench": _bench_kernels,
    "corpus": _time_corpus,
    "operators": _time_operators,
}
"""What is asked about kernels that nothing is compiled into here: hand-written ones, texts, and
those that a calibration times, with library operators."""


def _serve_as_template(request: CompileRequest, questions: BinaryIO, replies: BinaryIO) -> None:
    """Serve requests until the parent is gone."""
    from perfcli.worker.forking import Template

    template = Template(request, Path(tempfile.mkdtemp(prefix="replies-")))
    _send(replies, {"type": "done"})
    while line := questions.readline():
        for reply in template.answer(json.loads(line)):
            _send(replies, reply)


def _send(replies: BinaryIO, message: Mapping[str, object]) -> None:
    replies.write(protocol.encode(message))
    replies.flush()


def _exit_now() -> None:
    """Leave without torch's teardown: with a stand-in device it has nothing to tear down, and on a
    CUDA build it would look for one."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
