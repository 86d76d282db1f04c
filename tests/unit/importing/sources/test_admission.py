"""Which sources may be compiled: what Inductor writes, and nothing that could run anything else."""

from __future__ import annotations

import pytest
from wrappers import text_of

from perfcli.importing.sources.admission import refuse
from perfcli.importing.sources.wrapper import read_wrapper

WRITTEN = (
    "rmsnorm_backward_2.11", "rmsnorm_backward_2.13", "softmax_dynamic_2.11", "user_kernel_2.13",
    "convolution_backward_2.13", "conditional_2.13",
)  # fmt: skip

KERNEL = """\
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
triton_helpers.set_driver_to_gpu()

@triton_heuristics.pointwise(
    size_hints={'x': 16},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32'}, 'device': DeviceProperties(type='cuda')},
    inductor_meta={'autotune_hints': set(), 'autotune_remote_cache': None},
)
@triton.jit
def kernel(in_ptr0, xnumel, XBLOCK : tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    tmp0 = tl.load(in_ptr0 + xindex, xindex < xnumel).to(tl.float32)
    tmp1 = libdevice.exp(tmp0)
    tl.store(in_ptr0 + xindex, tmp1, xindex < xnumel)
"""


@pytest.mark.parametrize("name", WRITTEN)
def test_what_inductor_writes_is_let_through(name: str) -> None:
    kernels = read_wrapper(text_of(name)).kernels
    assert kernels
    for kernel in kernels:
        assert refuse(kernel.definition.source, kernel.definition.name) == ""


def test_the_kernel_of_these_tests_is_let_through() -> None:
    assert refuse(KERNEL, "kernel") == ""


AT_THE_TOP = [
    "import os",
    "import triton as tl",
    "import triton.language as os, os",
    "from os import system",
    "from torch._inductor.runtime import triton_helpers, compile_tasks",
    "from torch._inductor.runtime.hints import typing",
    "from torch._inductor.runtime.hints import ReductionHint as set",
    "from . import x",
    "from torch import *",
    "open('/tmp/x', 'w')",
    "X = __import__('os')",
    "X = open('/etc/passwd').read()",
    "X = (lambda: 1)()",
    "X = [c for c in ().__class__.__bases__]",
    "X = f'{__file__.x}'",
    "X = tl.core",
    "X = DeviceProperties.__init__",
    "X = 'a' * 10",
    "triton_helpers = 3",
    "float = 3",
    "__file__ = 'x'",
    "class A: pass",
    "def f(): pass",
    "@triton.jit\ndef f(x=open('x')): pass",
    "@triton.jit\ndef f(x: print('x')): pass",
    "@triton.jit\ndef f() -> print('x'): pass",
    "@triton.jit(repr=lambda x: x)\ndef f(): pass",
    "@triton.autotune(configs=[])\n@triton.jit\ndef f(): pass",
    "@triton.jit\n@triton_heuristics.pointwise()\ndef f(): pass",
    "@triton.jit\ndef f(*args): pass",
    "@triton.jit\ndef kernel(): pass",
    "async def f(): pass",
    "for x in [1]: pass",
    "if True: import os",
    "triton_helpers.set_driver_to_gpu(1)",
    "triton_helpers.get_backend_options()",
    "triton.compile('x')",
    "del triton",
    "global x",
    "assert print('x')",
    "X: print('x') = 3",
    "try:\n    pass\nexcept Exception: pass",
]


@pytest.mark.parametrize("line", AT_THE_TOP)
def test_what_python_would_run_is_refused(line: str) -> None:
    head, at, rest = KERNEL.partition("@triton_heuristics")
    assert refuse(f"{head}{line}\n{at}{rest}", "kernel") != ""


@pytest.mark.parametrize(
    "line",
    [
        "tmp2 = tl.math.exp2(tmp0)",
        "tmp2 = tl.extra.cuda.libdevice.exp(tmp0)",
        "tl.extra.cuda.experimental_tensormap_fenceproxy_acquire(in_ptr0)",
        "tmp2 = triton.language.make_tensor_descriptor(in_ptr0, [8], [1], [8]).load([0])",
        "ACC : tl.constexpr = tl.float32",
        "tmp2 = tl.dot(tmp0, tmp0.T, acc=tmp0, allow_tf32=True).to(in_ptr0.dtype.element_ty)",
        "for i in tl.range(0, 8):\n        tmp0 += float('-inf')",
        "tl.static_assert(XBLOCK % 2 == 0, f'{XBLOCK}')",
        "tmp2 = triton_helpers.promote_to_tensor(triton_helpers.max2(tmp0, 1))",
    ],
)
def test_what_templates_and_users_write_is_let_through(line: str) -> None:
    assert refuse(f"{KERNEL}    {line}\n", "kernel") == ""


IN_THE_BODY = [
    "tl.extra.cuda.utils",
    "triton.language.core.warn('x')",
    "m = triton.language\n    m.core",
    "tl.math.os.system('x')",
    "tl.extra.hip.libdevice.exp(tmp0)",
    "import os",
    "open('x')",
    "exec('x')",
    "eval('1')",
    "getattr(tl, 'core')",
    "__import__('os')",
    "print(__builtins__)",
    "tl.core.warn('x')",
    "tl.core.inspect.os.system('x')",
    "tl.extra.os.system('x')",
    "tl.extra.cuda.libdevice.core.inspect.os",
    "tl.math.core.inspect",
    "m = tl.core",
    "m = tl.math\n    m.core.inspect.os.system('x')",
    "triton_helpers.warnings.sys.exit()",
    "triton_helpers.pymath.sqrt(2)",
    "triton_helpers.triton.runtime",
    "triton_heuristics.os.system('x')",
    "libdevice.core",
    "triton.compile('x')",
    "triton.runtime.driver",
    "tl.load.__globals__",
    "tmp0.__class__",
    "tmp0.handle.get_context().x",
    "tmp0.system('x')",
    "(lambda: 1)()",
    "tl.arange(0, 8)[0](3)",
    "[x for x in range(3)]",
    "tl = 3",
    "float = 3",
    "__x = 3",
    "global os",
    "with tmp0: pass",
    "raise ValueError",
    "def inner(): pass",
    "class A: pass",
    "yield 1",
    "(y := 3)",
    "DeviceProperties.create(0)",
    "ReductionHint.mro()",
    "del tmp0",
]


@pytest.mark.parametrize("line", IN_THE_BODY)
def test_what_triton_would_call_is_refused(line: str) -> None:
    assert refuse(f"{KERNEL}    {line}\n", "kernel") != ""


DECORATED = [
    ("filename=__file__", "filename='/etc/x'"),
    ("filename=__file__", "filename=open('x')"),
    ("filename=__file__", "**{'filename': 'x'}"),
    ("'autotune_remote_cache': None", "'autotune_remote_cache': True"),
    ("'autotune_remote_cache': None", "'bundled_autotune_remote_cache': 1"),
    ("set()", "set(open('x'))"),
    ("set()", "{open('x')}"),
    ("triton_heuristics.pointwise", "triton_heuristics.cached_autotune"),
    ("triton_heuristics.pointwise", "triton_heuristics.os.system"),
    ("size_hints={'x': 16}", "configs=[{'ir_override': '/etc/x'}]"),
    ("size_hints={'x': 16}", "configs=[{'pre_hook': print}]"),
    ("DeviceProperties(type='cuda')", "DeviceProperties(type=open('x'))"),
    ("def kernel(", "def other("),
    ("@triton.jit\n", ""),
    ("@triton.jit\n", "@print\n"),
]


@pytest.mark.parametrize(("old", "new"), DECORATED)
def test_what_a_decorator_would_run_is_refused(old: str, new: str) -> None:
    assert old in KERNEL
    assert refuse(KERNEL.replace(old, new, 1), "kernel") != ""


@pytest.mark.parametrize(
    "source",
    ["", "\0", "(" * 5000, "-" * 20_000 + "1", "a\n" * 140_000, "#" * (5 << 20), "\x1b[31m"],
    ids=["empty", "null", "nested", "signs", "many", "large", "escape"],
)  # fmt: skip
def test_nonsense_is_refused_in_one_line(source: str) -> None:
    why = refuse(source, "kernel")
    assert why
    assert "\n" not in why
    assert len(why) < 400


def test_the_reason_names_what_is_refused() -> None:
    head, at, rest = KERNEL.partition("@triton_heuristics")
    why = refuse(f"{head}import os\n{at}{rest}", "kernel")
    assert why == "it imports what no generated kernel needs: 'import os'"
    assert refuse(f"{KERNEL}    open('x')\n", "kernel") == (
        "it uses the name 'open', which no kernel has"
    )
