"""Scripts as people write them, run without a device. What is expected was counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warm import WarmProcess, make_request

from perfcli.errors import PerfcliError, UserCodeFailed
from perfcli.machine import environment, targets
from perfcli.model import CompileRequest, Run, ScriptCommand, Variant

SCRIPTS = Path(__file__).parents[3] / "fixtures" / "scripts"
RunScript = Callable[..., Run]

pytestmark = pytest.mark.torch


@pytest.fixture
def run_script(warm_process: WarmProcess, tmp_path: Path) -> RunScript:
    """Runs a script, by its fixture's name or its text, in an empty folder."""

    def run(
        script: str,
        *arguments: str,
        steps: int = 2,
        options: dict[str, Any] | None = None,
        world: int = 1,
        module: bool = False,
    ) -> Run:
        path = Path(script) if module else SCRIPTS / script
        if "\n" in script:
            path = tmp_path / "script.py"
            path.write_text(script)
        request = CompileRequest(
            scenario=path.name,
            params={},
            preset=None,
            variant=Variant("", options=options or {}),
            device="cuda",
            target=targets.get("h100"),
            jobs=2,
            cache_dir=str(environment.cache_dir()),
            folder=str(tmp_path),
            script=ScriptCommand(str(path), module, arguments, steps),
            world=world,
        )
        return warm_process.compile(request).run

    return run


def test_training_script(run_script: RunScript, tmp_path: Path) -> None:
    arguments = ("--width", "48", "--mode", "max-autotune-no-cudagraphs", "--catch")
    # Which products take templates is asked in test_choices.py: they are slow to compile.
    run = run_script("train.py", *arguments, options={"max_autotune_gemm_backends": "ATEN"})
    assert run.mode == "training"
    assert [graph.name for graph in run.graphs] == ["forward 0", "backward 0"]
    # Two micro-batches make a step; the evaluation before it is none of it.
    kernels = {kernel.graph: kernel.launches for kernel in run.kernels}
    assert kernels == {"forward 0": 2, "backward 0": 2}
    (call,) = run.compiled
    assert (call.name, call.mode, call.count) == ("Net", "max-autotune-no-cudagraphs", 1)
    assert call.place.endswith("train.py:47")
    assert call.graphs == ("forward 0", "backward 0")
    notes = "\n".join(run.notes)
    assert "step 2 of the script, between two steps of its optimizer" in notes
    assert "left out: inference 0" in notes
    assert "train.py:47: torch.compile(mode='max-autotune-no-cudagraphs')" in notes
    # Each step is better than the one before, as comparisons are taken as True; the script catches
    # what ends it behind the second.
    assert "files of tensors without values: not written (×2)" in notes
    assert "processes of data loaders: loaded in the script's own process (×1)" in notes
    assert not (tmp_path / "best.pt").exists()


def test_settings_of_each_call(run_script: RunScript) -> None:
    run = run_script("layers.py", options={"split_reductions": False})
    assert run.mode == "forward"
    found = {call.name: call for call in run.compiled}
    assert found["prepare"].dynamic is True
    assert found["prepare"].fullgraph is True
    layers = [call for call in run.compiled if call.name == "Layer"]
    assert [(call.options, call.count) for call in layers] == [({"max_fusion_size": 32}, 3)]
    assert run.settings["split_reductions"] is False
    # One call of the first, then a round of three layers that share one graph.
    names = [launch.graph for launch in run.launches]
    assert names == ["inference 0", "inference 1", "inference 1", "inference 1"]


def test_a_search_compiles_the_same_kernels(
    run_script: RunScript, warm_process: WarmProcess, tmp_path: Path
) -> None:
    options = {"split_reductions": False}
    run = run_script("layers.py", options=options)
    request = make_request(environment.cache_dir())
    program = SCRIPTS.parent / "generated_script.py"
    found = warm_process.call(request, program, str(SCRIPTS / "layers.py"), options)
    assert found == [[each.name, each.source_hash, each.launches] for each in run.kernels]
    assert len(found) == 2


# Their own words, huggingface_hub 1.33 and transformers 5.17, of which none is needed for this.
OF_TRANSFORMERS = (
    "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in "
    "the cached files.\nCheck your internet connection or see how to run the library in offline "
    "mode at 'https://huggingface.co/docs/transformers/installation#offline-mode'."
)
OF_HUB = (
    "An error happened while trying to locate the file on the Hub and we cannot find the requested "
    "files in the local cache. Please check your connection and try again or make sure your "
    "Internet connection is on."
)
OF_FLASH_ATTENTION = (
    "FlashAttention2 has been toggled on, but it cannot be used due to the following error: the "
    "package flash_attn seems to be not installed. Please refer to the documentation of https://"
    "huggingface.co/docs/transformers/perf_infer_gpu_one#flashattention-2 to install Flash "
    "Attention 2."
)
CHECKPOINTED = """\
import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

net = checkpoint_wrapper(torch.nn.Linear(4, 4))
net(torch.randn(2, 5))
"""
BEGIN = "import torch\nf = torch.compile(torch.nn.functional.gelu)\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\n\nos.fork()\n", "script.py:3 starts processes"),
        (
            "import torch.multiprocessing as mp\n\n\ndef f(i):\n    pass\n\n\n"
            "if __name__ == '__main__':\n    mp.spawn(f, nprocs=2)\n",
            "script.py:9 starts processes",
        ),
        ("import sys\n\nprint('no data')\nsys.exit(3)\n", "ended with exit code 3"),
        ("\nx = input()\n", "script.py:2 reads standard input"),
        (
            "import torch\nm = torch.nn.Linear(4, 4).cuda()\n"
            "x = torch.ones(2, 4).cuda()\ny = m(x)\n",
            "never compiles anything: what could be compiled is called at script.py:4 m(x)",
        ),
        (
            "from torch import nn\nnet = nn.Linear(4, 4).half()\n\n\ndef step(x):\n"
            "    return net(x)\n",
            "never compiles anything: what could be compiled is called at script.py:6 net(x)",
        ),
        (
            "import os\n\nrank = int(os.environ['LOCAL_RANK'])\n",
            "script.py:3 reads the variable LOCAL_RANK, which torchrun sets: give the number of",
        ),
        (
            BEGIN,
            "compiles gelu at script.py:2, and no kernel came of it: what it returned was never",
        ),
        (
            "import torch\nf = torch.compile(torch.sin, backend='eager')\nf(torch.ones(4))\n",
            "with backend=eager, and no kernel came of it: only the backend inductor makes kernels",
        ),
        (
            "from torch import nn, ones\nm = nn.Sequential(nn.Linear(4, 4), nn.GELU()).cuda()\n"
            "m.compile()\nm(ones(2, 4).cuda())\n",
            "by itself, and skips nn.Sequential; compile a module of a class of your own",
        ),
        ("import nowhere\n\n", "script.py:1 imports nowhere, which is not installed"),
        ("\nx = (\n", "script.py:2 is no Python"),
        (
            "import torch.distributed as d\n\nd.init_process_group('nccl')\n",
            "script.py:3 joins other processes",
        ),
        (f"\nraise OSError({OF_TRANSFORMERS!r})\n", "script.py:2 asks a hub or another host"),
        (
            "class LocalEntryNotFoundError(FileNotFoundError):\n"
            f"    __module__ = 'huggingface_hub.errors'\n\n\n"
            f"raise LocalEntryNotFoundError({OF_HUB!r})\n",
            "script.py:5 asks a hub or another host for something (An error happened while",
        ),
        (
            f"\nraise ImportError({OF_FLASH_ATTENTION!r})\n",
            "script.py:2 failed: ImportError: FlashAttention2 has been toggled on",
        ),
        (
            "import io\nimport pickle\n\npickle.load(io.BytesIO(b''))\n",
            "script.py:4 failed: EOFError: Ran out of input",
        ),
        (CHECKPOINTED, "script.py:5 failed: RuntimeError: "),
        (
            "import argparse\np = argparse.ArgumentParser()\n"
            "p.add_argument('--lr', required=True)\np.parse_args()\n",
            "ended with exit code 2",
        ),
        (
            "import torch\nx = torch.ones(8, 8, device='cuda')\n"
            "torch.compile(torch.mm)(x, x.bfloat16())\n",
            "script.py:3 failed: RuntimeError: expected mat1 and mat2 to have the same dtype",
        ),
        (
            "import torch\nx = torch.ones(600000, device='cuda')\n"
            "x.data_ptr()\nraise ValueError(x)\n",
            "script.py:4 failed: ValueError: FakeTensor(...",
        ),
    ],
)
def test_what_cannot_be_run(run_script: RunScript, text: str, said: str) -> None:
    with pytest.raises(PerfcliError) as caught:
        run_script(text)
    assert isinstance(caught.value, UserCodeFailed)
    assert caught.value.exit_code == 2
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


COUNTING = """\
import torch
from package import f

for n in range(200):
    f(torch.ones(8, device="cuda"))
"""


def test_a_module_whose_package_compiles(run_script: RunScript, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    return x + 1\n"
    )
    (package / "count.py").write_text(COUNTING)
    run = run_script("package.count", module=True)
    assert [(call.name, call.place) for call in run.compiled] == [("f", "package/__init__.py:4")]
    assert len(run.launches) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\n\nsys.exit(3)\n", "ended with exit code 3 before it compiled anything"),
        ("import nowhere\n", "package/__init__.py:1 imports nowhere, which is not installed"),
        ("import package.nowhere\n", "package/__init__.py:1 imports package.nowhere, which is"),
        ("x = (\n", "package/__init__.py:1 is no Python"),
        ("", "-m package.absent: there is no such module, or a package without __main__.py"),
    ],
)
def test_a_module_whose_package_fails(
    run_script: RunScript, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text(text)
    with pytest.raises(PerfcliError) as caught:
        run_script("package.absent", module=True)
    assert said in str(caught.value)


def test_what_it_printed_is_shown(run_script: RunScript) -> None:
    with pytest.raises(UserCodeFailed) as caught:
        run_script("import sys\n\nprint('no data')\nsys.exit(3)\n")
    assert "no data" in caught.value.detail


HOSTILE = """\
# -*- coding: latin-1 -*-
import io
import os
import subprocess
import sys

sys.path.insert(0, "own")
import beside
import torch

assert len("caf\xe9") == 4 and sys.argv == [__file__, "a b", "--x"]
assert subprocess.run(["true"]).returncode == 0 and open("config.txt").read() == "3"
net = torch.compile(beside.Net().cuda())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
os.chdir("/")
sys.stdout, sys.stderr = io.StringIO(), None
for step in range(beside.STEPS):
    try:
        net(torch.randn(4, 8).cuda()).relu().sum().backward()
        optimizer.step()
    except BaseException as error:
        print(error)
sys.stdout.close()
"""


def test_what_a_script_may_do(run_script: RunScript, tmp_path: Path) -> None:
    """It changes its folder, its streams and its path, starts a program, catches everything, and
    has a name with blanks and another encoding."""
    (tmp_path / "own").mkdir()
    beside = "import torch\n\nSTEPS = 50\n\n\nclass Net(torch.nn.Linear):\n"
    (tmp_path / "own" / "beside.py").write_text(
        beside + "    def __init__(self):\n        super().__init__(8, 8)\n"
    )
    (tmp_path / "config.txt").write_text("3")
    script = tmp_path / "my train.py"
    script.write_bytes(HOSTILE.encode("latin-1"))
    run = run_script(str(script), "a b", "--x")
    assert run.mode == "training"
    assert {graph.direction for graph in run.graphs} == {"forward", "backward"}
    assert {Path(path).name for path in run.sources} == {"my train.py", "beside.py", "config.txt"}


def test_exit_after_compiling_counts(run_script: RunScript) -> None:
    run = run_script(BEGIN + "f(torch.ones(64, device='cuda'))\nraise SystemExit(1)\n")
    assert len(run.kernels) == 1
    expected = "the script ended itself with exit code 1 at script.py:4: what it compiled until"
    assert any(note.startswith(expected) for note in run.notes)


INFERENCE = """\
import torch
import torch.nn as nn


class Cached(nn.Linear):
    def __init__(self):
        super().__init__(16, 16)
        self.register_buffer("seen", torch.zeros(4, 16, dtype=torch.float16))

    def forward(self, x, at):
        self.seen[:, at] = x[:, at]
        return super().forward(self.seen).relu()


@torch.{guard}()
def main():
    net = torch.compile(Cached().half().cuda().eval())
    at, x = torch.tensor([0], device="cuda"), torch.arange(64).view(4, 16).cuda().half()
    for _ in range(4):
        x = torch.softmax(net(x, at).float(), -1).half()
        at += 1
    print(x.cpu().tolist(), x.dtype == torch.float16, x.device)


main()
"""


def test_inference_mode_compiles_as_without_gradients(run_script: RunScript) -> None:
    modes = ("inference_mode", "no_grad")
    inference, plain = (run_script(INFERENCE.replace("{guard}", mode)) for mode in modes)
    assert inference.kernels
    assert [k.source for k in inference.kernels] == [k.source for k in plain.kernels]
    assert inference.externs == plain.externs
    assert inference.notes == plain.notes


WITHOUT_STAND_IN = """\
import torch
from torch.utils._python_dispatch import _disable_current_modes

with _disable_current_modes():
    torch.ones(2).bernoulli_().as_strided((2,), (1,)).to(device="cuda")
"""


def test_what_nothing_stands_in_for_is_told_without_the_dispatchers_table(
    run_script: RunScript,
) -> None:
    with pytest.raises(UserCodeFailed) as caught:
        run_script(WITHOUT_STAND_IN)
    assert str(caught.value).startswith("script.py:5 asks the device for what nothing stands in")
    assert "Could not run 'aten::empty_strided'" in str(caught.value)
    assert len(str(caught.value)) < 300
    assert "registered at" not in caught.value.detail
    assert len(caught.value.detail.splitlines()) < 8


def test_missing_file(run_script: RunScript) -> None:
    with pytest.raises(PerfcliError, match=r"there is no file .*absent.py"):
        run_script("absent.py")


OBJECTS = """\
import torch


class Image(torch.Tensor):
    pass


@torch.compile
def pick(x):
    left = torch.tensor([i for i in range(6)], device=x.device)
    return x[:, left].float() * 2


generator = torch.Generator(device="cuda").manual_seed(1)
assert isinstance(generator, torch.Generator)
assert isinstance(torch.default_generator, torch.Generator)
images = [torch.ones(3, 400, 400).as_subclass(Image) for _ in range(4)]
stream, start, end = torch.cuda.Stream(), torch.cuda.Event(True), torch.cuda.Event(True)
with torch.cuda.stream(stream):
    start.record()
    pick(torch.stack(images).cuda().view(48, -1))
    pick(torch.rand(48, 40000, device="cuda", generator=generator))
    end.record()
stream.synchronize()
print(1 / start.elapsed_time(end), torch.cuda.mem_get_info()[0] > 0)
"""


def test_objects_of_the_device(run_script: RunScript) -> None:
    run = run_script(OBJECTS)
    assert [call.name for call in run.compiled] == ["pick"]
    assert run.kernels


OF_RANKS = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
x = torch.randn(64, 256, device=device)
"""


def test_a_script_of_several_ranks(run_script: RunScript) -> None:
    """Two micro-batches, of which only the second sends its gradients, 256 × 256 numbers of 4 bytes
    and a mean of the loss: a rank sends 7/8 of them twice."""
    script = OF_RANKS + (
        "model = torch.nn.Linear(256, 256, bias=False).to(device)\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.compile(model), [device.index])\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(9):\n"
        "    with model.no_sync():\n"
        "        model(x).relu().sum().backward()\n"
        "    loss = model(x).relu().sum()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    dist.all_reduce(loss)\n"
        "    dist.barrier()\n"
        "    print(loss.item())\n"
        "dist.destroy_process_group()\n"
    )
    run = run_script(script, world=8)
    calls = [call for extern in run.externs if "all" in extern.op for call in extern.calls]
    sent = sorted((call.work.sizes["sent"], call.count) for call in calls if call.work)
    assert sent == [(2 * 7 / 8 * 4, 1), (2 * 7 / 8 * 256 * 256 * 4, 1)]


def test_what_one_rank_collects_or_hands_out_is_counted(run_script: RunScript) -> None:
    """Of 8 ranks, one of each machine, each has 64 × 256 numbers of 4 bytes. Sums pass the whole
    on; the root of the others receives or sends 7/8 of 8 such tensors, whichever rank it is."""
    script = OF_RANKS + (
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "mesh = init_device_mesh('cuda', (8, 8), mesh_dim_names=('dp', 'tp'))\n"
        "group = mesh.get_group('dp')\n"
        "torch.compile(lambda x: x + 1)(x)\n"
        "parts = [torch.empty_like(x) for _ in range(8)]\n"
        "dist.reduce(x, 0, group=group)\n"
        "dist.gather(x, parts, 0, group=group)\n"
        "dist.gather(x, None, 8, group=group)\n"
        "dist.scatter(x, parts, 0, group=group)\n"
        "dist.scatter(x, None, 8, group=group)\n"
    )
    run = run_script(script, world=64)
    size = 64 * 256 * 4
    calls = {extern.op: extern.calls for extern in run.externs}
    sent = [
        (name, call.work.sizes["sent"], call.work.sizes["machines"], call.count)
        for name in ("c10d.reduce_", "c10d.gather_", "c10d.scatter_")
        for call in calls[name]
        if call.work
    ]
    assert sent == [
        ("c10d.reduce_", size, 8, 1),
        ("c10d.gather_", 7 * size, 8, 1),
        ("c10d.gather_", 7 * size, 8, 1),
        ("c10d.scatter_", 7 * size, 8, 1),
        ("c10d.scatter_", 7 * size, 8, 1),
    ]
    assert calls["c10d.wait"][0].count == 5


def test_objects_of_other_ranks_are_those_of_this_one(run_script: RunScript) -> None:
    """Lists are given by torch's own names. The width of a product says what came back."""
    script = OF_RANKS + (
        "every, at_root, own = [None] * 8, [None] * 8, [None]\n"
        "dist.all_gather_object(object_list=every, obj=3)\n"
        "dist.gather_object(obj=5, object_gather_list=at_root, dst=0)\n"
        "dist.gather_object(5, dst=1)\n"
        "dist.scatter_object_list(\n"
        "    scatter_object_output_list=own, scatter_object_input_list=list(range(7, 15)), src=0\n"
        ")\n"
        "w = torch.randn(256, sum(every) + 10 * sum(at_root) + own[0], device=device)\n"
        "torch.compile(lambda x: x @ w)(x)\n"
    )
    run = run_script(script, world=8)
    (product,) = [call.work for extern in run.externs if "mm" in extern.op for call in extern.calls]
    assert product
    assert product.sizes["n"] == 8 * 3 + 10 * 8 * 5 + 7


def test_what_needs_single_other_ranks_is_refused(run_script: RunScript) -> None:
    with pytest.raises(UserCodeFailed, match="exchanges tensors with a single other rank"):
        run_script(OF_RANKS + "dist.send(x, 1)\n", world=8)


def test_an_eager_update_and_hooks_are_told(run_script: RunScript) -> None:
    """Adafactor reads its step's number with ``.item()``, so that Dynamo leaves it eager. A hook is
    no graph: a device's backward calls it in a thread where Dynamo does not listen."""
    run = run_script(EAGER)
    assert [graph.name for graph in run.graphs] == ["forward 0", "backward 0"]
    (note,) = [note for note in run.notes if note.startswith("outside of graphs")]
    # Norms of the weight, of its gradient's rows and columns, and of the update.
    assert "aten.linalg_vector_norm.default (×4)" in note


EAGER = """\
import torch

model = torch.nn.Linear(32, 32, bias=False).cuda()
model.weight.register_hook(lambda gradient: gradient * 0.5)
optimizer = torch.optim.Adafactor(model.parameters())


@torch.compile
def step(x):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


for _ in range(3):
    step(torch.randn(8, 32, device="cuda"))
"""


EARLY = """\
import torch

net = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(net.parameters())
net.to("cuda")
step = torch.compile(optimizer.step)
net = torch.compile(net)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(8, 64, device="cuda")).sum().backward()
    step()
"""


def test_an_optimizer_made_before_its_model_is_moved(run_script: RunScript) -> None:
    """A device's parameters stay the same objects, so that the compiled step updates them."""
    early, late = (run_script(text) for text in (EARLY, _move_first(EARLY)))
    assert [launch.name for launch in early.launches] == [launch.name for launch in late.launches]
    assert early.launches[-1].graph == "inference 0"


def _move_first(text: str) -> str:
    moved = 'net.to("cuda")\n'
    return text.replace(moved, "").replace("optimizer = ", f"{moved}optimizer = ", 1)


def test_variables_that_an_imported_file_asks_for(run_script: RunScript, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(
        "import os\n\nenv = os.environ\nROWS = int(env.get('ROWS_OF_IT', '8'))\n"
    )
    text = "import settings\nx = torch.ones(settings.ROWS, device='cuda')\nf(x)\n"
    assert run_script(BEGIN + text).asked_variables == {"ROWS_OF_IT": ""}
