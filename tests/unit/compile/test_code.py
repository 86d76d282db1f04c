"""The hash of generated code, of modules as Inductor 2.13 writes them, cut short."""

from __future__ import annotations

import pytest

from perfcli.compile.capture.captured import Capture, CapturedGraph
from perfcli.compile.code import _digest
from perfcli.model import GraphFacts

HEAD = """# AOT ID: ['0_backward']
import triton
async_compile = AsyncCompile()

"""


def kernel(name: str, body: str = "tl.store(out_ptr0, tl.load(in_ptr0))", origin: str = "") -> str:
    said = f"\n    # ORIGIN:\n    # {origin}\n    # END ORIGIN\n\n" if origin else ""
    return f"""# kernel path: /tmp/{name}.py
# Topologically Sorted Source Nodes: [sum_1]
{name} = async_compile.triton('{name}', '''
import triton

@triton_heuristics.reduction(inductor_meta={{'kernel_name': '{name}'}})
@triton.jit
def {name}(in_ptr0, out_ptr0):
{said}    {body}
''', device_str='cuda')

"""


def module(*kernels: str, calls: tuple[str, ...], buffer: str = "buf0") -> str:
    runs = "".join(f"    {name}.run({buffer}, stream=stream0)\n" for name in calls)
    return f"{HEAD}{''.join(kernels)}def call(args):\n{runs}    return ({buffer}, )\n"


def digest(text: str) -> str:
    graph = CapturedGraph(GraphFacts("backward 0", "backward", 0, 3), calls=1, text=text)
    return _digest(Capture(graphs=[graph]))


PLAIN = module(kernel("triton_per_2"), calls=("triton_per_2", "triton_per_2"))


def test_one_kernel_that_comments_make_two_of_is_the_same_code() -> None:
    """With ``comment_origin`` the kernels' texts differ, so that Inductor writes two."""
    two = (kernel("triton_per_2", origin="aten.sum"), kernel("triton_per_3", origin="aten.mul"))
    assert digest(module(*two, calls=("triton_per_2", "triton_per_3"))) == digest(PLAIN)


@pytest.mark.parametrize(
    "other",
    [
        module(kernel("triton_per_2"), calls=("triton_per_2",)),
        module(kernel("triton_per_2", "pass"), calls=("triton_per_2", "triton_per_2")),
        module(kernel("triton_per_2"), calls=("triton_per_2", "triton_per_2"), buffer="buf1"),
        module(
            kernel("triton_per_2"),
            kernel("triton_per_3", "pass"),
            calls=("triton_per_2", "triton_per_3"),
        ),
    ],
)
def test_what_is_code_is_other_code(other: str) -> None:
    assert digest(other) != digest(PLAIN)


def test_the_order_of_calls_is_code() -> None:
    both = (kernel("triton_0"), kernel("triton_1", "pass"))
    assert digest(module(*both, calls=("triton_0", "triton_1"))) != digest(
        module(*both, calls=("triton_1", "triton_0"))
    )
    renamed = (kernel("triton_2"), kernel("triton_0", "pass"))
    assert digest(module(*both, calls=("triton_0", "triton_1"))) == digest(
        module(*renamed, calls=("triton_2", "triton_0"))
    )


def test_a_module_that_is_not_python_is_hashed_as_it_is() -> None:
    assert digest("#include <a.h>\nint f();") != digest("#include <b.h>\nint f();")
