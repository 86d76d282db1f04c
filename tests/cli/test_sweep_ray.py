"""perfcli sweep on a real Ray cluster of two nodes, one of which has another torch."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Perfcli

from perfcli.storing import store

ray = pytest.importorskip("ray", reason="needs the extra ray")
ON_RAY = ("sweep", "softmax", "rmsnorm", "-p", "columns=1024,2048", "--executor", "ray")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster whose first node says that it has two GPUs, and whose second one finds torch 9.9.9
    first."""
    from ray.cluster_utils import Cluster

    other = tmp_path_factory.mktemp("other")
    (other / "torch").mkdir()
    (other / "torch" / "__init__.py").touch()
    (other / "torch" / "version.py").write_text('__version__ = "9.9.9"\n')
    patched = pytest.MonkeyPatch()
    patched.setenv("PYTHONPATH", str(ROOT))
    head = {"num_cpus": 1, "num_gpus": 2, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    patched.setenv("PYTHONPATH", f"{other}:{ROOT}")
    cluster.add_node(num_cpus=1)
    patched.undo()
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_both_nodes_take_part_and_nothing_is_there_twice(perfcli: Perfcli, nodes: Any) -> None:
    before = signal.getsignal(signal.SIGTERM)
    result = perfcli(*ON_RAY, "--address", nodes.address, "--json", "sweep.json")
    assert (result.code, result.out.splitlines()[0]) == (0, "4 variants: 4 compiled")
    assert signal.getsignal(signal.SIGTERM) == before, "Ray takes it for itself"
    local = perfcli(*ON_RAY[:-2], "-q")
    assert local.out == "4 variants: 0 compiled, 4 stored before\n"
    rows = json.loads(Path("sweep.json").read_text())["variants"]
    assert sorted(row["run"] for row in rows) == sorted(each.header.id for each in store.runs())


def test_what_no_machine_has_the_memory_for_is_named_and_the_others_go_on(
    perfcli: Perfcli, nodes: Any
) -> None:
    typed = ("--address", nodes.address, "--memory", "rmsnorm=100TB")
    result = perfcli(*ON_RAY, *typed)
    assert (result.code, result.out.splitlines()[0]) == (3, "4 variants: 2 compiled, 2 failed")
    said = " ".join(result.out.split())
    assert "rmsnorm needs 100 TB of memory, and the largest machine of the cluster, " in said


def test_each_session_is_a_task_with_a_gpu(
    perfcli: Perfcli, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = "triton.mix_order_reduction"
    monkeypatch.setenv("PERFCLI_FAKE", f"1;ratio=1.05;only={option};noise=0.002")
    swept = ("sweep", "gqa-transformer", "-p", "layers=1,2", "-o", f"{option}=unset,false")
    typed = (
        *swept,
        "--measure",
        "--target",
        "h200",
        "--executor",
        "ray",
        "--address",
        nodes.address,
    )
    result = perfcli(*typed, "--json", "sweep.json")
    assert (result.code, result.out.splitlines()[0]) == (0, "4 variants: 4 compiled; 4 measured")
    assert "measuring 2 variants on GPUs of the cluster" in result.err
    rows = json.loads(Path("sweep.json").read_text())["variants"]
    assert [row["ratio"] for row in rows] == [1, pytest.approx(1.05, abs=0.002)] * 2
    assert {row["measured"]["clock"] for row in rows} == {"device"}
    again = perfcli(*typed, "-q")
    assert again.out == "4 variants: 0 compiled, 4 stored before; 4 measured (4 before)\n"
    monkeypatch.setenv("PERFCLI_FAKE", "1;fail=dies:head:prepare")
    result = perfcli(*typed, "--fresh", "-q")
    assert (result.code, result.out) == (3, "4 variants: 4 compiled; 0 measured, 4 not\n")


def test_a_cluster_measures_on_any_gpu_of_the_kind_that_is_named(
    perfcli: Perfcli, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfcli.machine.targets.has_gpu", lambda: False)
    typed = ("sweep", "softmax", "--measure", "--executor", "ray", "--address", nodes.address)
    for more, says in (
        ((), "name the GPU of its machines with --target"),
        (("--target", "h100,a100"), "name the GPU of its machines with --target"),
        (("--device", "cpu"), "--measure takes any GPU of it: leave out --device"),
    ):
        result = perfcli(*typed, *more)
        assert (result.code, says in result.complaint) == (2, True)
    monkeypatch.setattr("perfcli.sweep.devices.list_nodes", lambda _: [])
    result = perfcli(*typed, "--target", "h200")
    assert (result.code, "no machine of the cluster has one" in result.complaint) == (2, True)


@pytest.mark.torch
def test_a_machine_with_another_torch_is_named_and_not_used(
    perfcli: Perfcli, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two requests for two cores the second node is asked, too."""
    monkeypatch.setenv("PERFCLI_FAKE", "0")
    Path("model.py").write_text(
        "import torch\nimport helper\n"
        "def block(n=128):\n    return lambda x: helper.act(x), (torch.randn(8, n),)\n"
    )
    Path("helper.py").write_text("def act(x):\n    return x.sin().sum(-1)\n")
    typed = ("sweep", "model.py:block", "-p", "n=64,128", "--executor", "ray")
    result = perfcli(*typed, "--address", nodes.address)
    assert (result.code, result.out.splitlines()[0]) == (0, "2 variants: 2 compiled")
    assert "of the cluster is not used: torch 9.9.9 instead of 2." in result.err
    for stored in store.runs():
        run = store.read(stored.path)
        here = {str(Path.cwd() / name) for name in ("model.py", "helper.py")}
        assert set(run.sources) == here
        assert run.scenario == "model.py:block"


def test_a_search_generates_its_variants_there(perfcli: Perfcli, nodes: Any) -> None:
    typed = ("bisect-config", "softmax", "--metric", "kernels", "--bad", "max_autotune=true")
    here = perfcli(*typed)
    there = perfcli(*typed, "--executor", "ray", "--address", nodes.address)
    assert (there.code, there.out.splitlines()[:5]) == (here.code, here.out.splitlines()[:5])
    counted = "2 compiled · 1 class of variants with identical code"
    assert [counted in each.out for each in (here, there)] == [True, True]


def test_a_cluster_that_is_not_there_is_told_before_any_claim(perfcli: Perfcli) -> None:
    if ray.is_initialized():
        ray.shutdown()
    result = perfcli("reproduce", "--smoke", "--executor", "ray", "--address", "127.0.0.1:1")
    assert (result.code, result.out) == (2, "")
    assert "there is no Ray cluster at 127.0.0.1:1" in result.complaint


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("--executor", "ray", "--address", "127.0.0.1:1"), "no Ray cluster at 127.0.0.1:1"),
        (("--executor", "ray", "--address", "here"), "--address is HOST:PORT"),
        (("--executor", "slurm"), "--executor is local or ray, not 'slurm'"),
        (("--address", "127.0.0.1:1"), "is of a Ray cluster: --executor ray"),
        (("--memory", "much"), "--memory is a size"),
    ],
)
def test_what_is_typed_wrong_is_one_line(
    perfcli: Perfcli, typed: tuple[str, ...], says: str
) -> None:
    if ray.is_initialized():
        ray.shutdown()
    result = perfcli("sweep", "softmax", *typed)
    assert (result.code, says in result.complaint) == (2, True)
