import pytest

from perfcli.facts.collectives import count_collective, is_collective_kernel, name_collective


@pytest.mark.parametrize(
    ("name", "sent", "read", "written"),
    [
        # Eight ranks, 8000 bytes in all: 1000 of them belong to each.
        ("all_reduce", 14000, 8000, 8000),
        ("all_gather", 7000, 1000, 8000),
        ("reduce_scatter", 7000, 8000, 1000),
        ("all_to_all", 7000, 8000, 8000),
        ("broadcast", 8000, 8000, 8000),
        ("reduce", 8000, 8000, 8000),
        ("gather", 7000, 1000, 8000),
        ("scatter", 7000, 8000, 1000),
    ],
)
def test_a_rank_sends_what_the_others_lack(name: str, sent: int, read: int, written: int) -> None:
    work = count_collective(name, 8000, 8)
    assert work.sizes == {"ranks": 8.0, "machines": 1.0, "sent": sent, "received": sent}
    assert (work.read, work.written, work.variant) == (read, written, name)


@pytest.mark.parametrize(
    ("kernel", "waits"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("c10d::_allgather_base_ ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)", True),
        ("void nvshmem_wait(int*)", True),
        ("triton_poi_fused_add_0", False),
        ("fsdp::all_gather_copy_in void at::native::multi_tensor_apply_kernel<float>()", False),
    ],
)
def test_kernels_of_collectives_are_told_by_their_names(kernel: str, waits: bool) -> None:
    assert is_collective_kernel(kernel) is waits


def test_a_rank_alone_sends_nothing() -> None:
    assert count_collective("all_reduce", 8000, 1).sizes["sent"] == 0
    assert count_collective("broadcast", 8000, 1).sizes["sent"] == 0
    assert count_collective("reduce", 8000, 1).sizes["sent"] == 0


def test_ranks_are_on_as_few_machines_as_hold_them_unless_it_is_known() -> None:
    assert [count_collective("broadcast", 1, n).sizes["machines"] for n in (8, 9, 64)] == [1, 2, 8]
    assert count_collective("broadcast", 1, 8, machines=8).sizes["machines"] == 8


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("_c10d_functional.all_reduce_.default", "all_reduce"),
        ("torch.ops._c10d_functional.all_gather_into_tensor.default", "all_gather"),
        ("_c10d_functional.reduce_scatter_tensor.default", "reduce_scatter"),
        ("_dtensor.shard_dim_alltoall.default", "all_to_all"),
        ("_c10d_functional.wait_tensor.default", "wait"),
        ("c10d.reduce_", "reduce"),
        ("c10d.gather_", "gather"),
        ("c10d.scatter_", "scatter"),
        ("c10d._reduce_scatter_base_", "reduce_scatter"),
        ("aten.all_reduce.default", ""),
    ],
)
def test_collectives_are_known_by_their_operators(operator: str, name: str) -> None:
    assert name_collective(operator) == name
