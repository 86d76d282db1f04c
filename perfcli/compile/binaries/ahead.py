"""Has other processes compile the binaries of Triton kernels while this one still generates code,
and lets it load each kernel once its binaries are there.

Two processes that generate the same kernels at the same time, and share Inductor's folder of
caches, compile each of them once.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from perfcli.compile.binaries.assembler import look_up_release
from perfcli.compile.binaries.binaries import keep_binaries, prepare_process
from perfcli.compile.capture.captured import CapturedKernel
from perfcli.compile.capture.definition import Definition
from perfcli.compile.stand_in.device import install_triton_driver, replace_for_block
from perfcli.errors import CompileFailed
from perfcli.model import Target

_LAUNCHERS = ("use_static_cuda_launcher", "use_static_triton_launcher")
_LAUNCHED_BY_INDUCTOR = ("StaticTritonCompileResult",)
"""What Inductor launches itself, without Triton's launcher (torch 2.11 to 2.13)."""


class BinariesAhead:
    """Holds ``jobs`` processes, which are forked when it is made: before a device is used. Their
    failures are left to who loads a kernel, and then compiles it. ``waiting`` makes the context in
    which a kernel that is launched is waited for."""

    def __init__(
        self,
        jobs: int,
        target: Target,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.waited = 0.0
        """Seconds for which a kernel that was to be loaded was not compiled yet."""
        self._waiting = waiting
        self._target = target
        self._begun: dict[str, tuple[Definition, Future[bool]]] = {}
        self._made = ""
        """The kernel that Inductor makes at the moment."""
        look_up_release(target)
        context = multiprocessing.get_context("fork")
        self._executor = ProcessPoolExecutor(jobs, context, _prepare, (target,))
        self._executor.submit(os.getpid).result()  # forks all of them now

    def submit(self, kernel: CapturedKernel) -> None:
        definition = kernel.definition
        if definition.language == "triton" and definition.source not in self._begun:
            with suppress(RuntimeError):  # a process was killed
                work = self._executor.submit(_compile, definition, self._target, waits=False)
                self._begun[definition.source] = definition, work

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Let kernels that Inductor would load in the block be loaded once they are launched, and
        wait for their binaries then: the backward's code is generated meanwhile."""
        from torch._inductor.async_compile import AsyncCompile
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner

        make: Any = AsyncCompile.triton
        load: Any = CachingAutotuner.precompile

        @functools.wraps(make)
        def triton(its: Any, name: str, source: str, *rest: Any, **options: Any) -> Any:
            # Where its function begins in the file is part of what Triton finds a binary by.
            self._made = source.strip()
            try:
                return make(its, name, self._made, *rest, **options)
            finally:
                self._made = ""

        @functools.wraps(load)
        def precompile(tuner: Any, *args: Any, **options: Any) -> Any:
            if self._made not in self._begun:
                return load(tuner, *args, **options)

            def load_now(source: str, *_: Any, **__: Any) -> None:
                if self._made:
                    return  # another graph has the same kernel; nobody launches it yet
                del tuner.precompile
                self._wait(source)
                try:
                    CachingAutotuner.precompile(tuner, *args, **options)
                except Exception as error:
                    name = tuner.inductor_meta.get("kernel_name", "a kernel")
                    reason = str(error).strip().partition("\n")[0]
                    raise CompileFailed(
                        f"Inductor could not compile {name}: {type(error).__name__}: {reason}"
                    ) from error

            # Called by its first launch, since there is no launcher.
            tuner.precompile = functools.partial(load_now, self._made)
            return None

        with (
            replace_for_block(AsyncCompile, triton=triton),
            replace_for_block(CachingAutotuner, precompile=precompile),
        ):
            yield

    def _wait(self, source: str) -> None:
        definition, work = self._begun.pop(source, (None, None))
        if definition is None or work is None:
            return
        if _is_compiled(work):
            return
        began = time.monotonic()
        # Who loads it says what is wrong.
        with self._waiting(), suppress(Exception):
            if not work.result():
                self._executor.submit(_compile, definition, self._target, waits=True).result()
        self.waited += time.monotonic() - began

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)


def _is_compiled(work: Future[bool]) -> bool:
    return work.done() and not work.cancelled() and not work.exception() and work.result()


def _prepare(target: Target) -> None:
    from torch._inductor import config

    install_triton_driver(target)  # that of the device would be asked whether there is one
    launchers = {name: getattr(config, name) for name in _LAUNCHERS if name in config._config}
    prepare_process(lambda text: None)
    for name, value in launchers.items():
        setattr(config, name, value)


def _compile(definition: Definition, target: Target, waits: bool) -> bool:
    """Have Triton's cache hold a kernel's binaries. Return whether it does: unless it ``waits``, a
    kernel that another process is compiling is left to that."""
    folder = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "compiling")
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(definition.source.encode()).hexdigest()
    with (folder / name).open("w") as claim:
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        for result in keep_binaries(definition, target):
            if type(result).__name__ not in _LAUNCHED_BY_INDUCTOR:
                build_launcher(result.kernel)
    return True


def build_launcher(kernel: Any) -> None:
    """Have the launcher's C module compiled: Triton 3.6 needs one for each signature; later
    versions do not, and without a driver library there is nothing to link it to."""
    with suppress(Exception):
        from triton.backends.nvidia.driver import CudaLauncher

        CudaLauncher(kernel.src, kernel.metadata)
