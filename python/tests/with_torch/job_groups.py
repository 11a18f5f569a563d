"""Groups: the world, a mesh's dimensions, options, ranks that disagree, forks."""

import os

import torch.distributed as dist

import stretto.torch as st

from job_common import close, inputs, layer, right_layer


def check_world_without_init(mesh):
    rank = dist.get_rank()
    close(layer(*inputs(rank), None), right_layer(range(4))[rank])
    assert st.report().served["all_gather_matmul"] == 1, st.report()


def check_groups_of_a_mesh(mesh):
    """Two groups of two ranks each, at once, and the other way across."""
    rank, tp = dist.get_rank(), mesh["tp"]
    group = st.init(tp, fallback=False)
    assert (group.rank, group.ranks) == (rank % 2, 2)
    mine = [rank // 2 * 2, rank // 2 * 2 + 1]
    close(layer(*inputs(rank), tp), right_layer(mine)[rank % 2])
    across = [rank % 2, rank % 2 + 2]
    close(layer(*inputs(rank), mesh["dp"].get_group()), right_layer(across)[rank // 2])
    try:
        st.all_gather_matmul(inputs(rank)[0], inputs(rank)[1], group=mesh)
        raise AssertionError("a mesh of two dimensions is no group")
    except ValueError as error:
        assert 'mesh["tp"]' in str(error), error


def check_who_is_not_in_a_group_is_told(mesh):
    some = dist.new_group([1, 3])
    if dist.get_rank() in (1, 3):
        close(layer(*inputs(dist.get_rank()), some), right_layer([1, 3])[dist.get_rank() // 2])
        return
    try:
        layer(*inputs(dist.get_rank()), some)
        raise AssertionError("it is not in the group")
    except ValueError as error:
        assert f"rank {dist.get_rank()} of the world is not in this group" in str(error), error


def check_dtensors_are_refused(mesh):
    from torch.distributed._tensor import DTensor, Replicate
    x, up, _ = inputs(0, False)
    spread = DTensor.from_local(x, mesh["tp"], [Replicate()], run_check=False)
    for call in (lambda: st.column_matmul(spread, up, group=mesh["tp"]),
                 lambda: st.matmul_all_reduce(spread, up, group=mesh["tp"])):
        try:
            call()
            raise AssertionError("a DTensor")
        except TypeError as error:
            assert "x is a DTensor, and operators take what a rank has: give its to_local()" in str(error), error


def check_init_with_other_options(mesh):
    assert st.init(mesh["tp"], fallback=False) is st.init(mesh["tp"].get_group(), fallback=False)
    try:
        st.init(mesh["tp"], fallback=False, timeout_s=3)
        raise AssertionError("other options")
    except ValueError as error:
        assert "close() it before" in str(error), error


def check_ranks_that_disagree(mesh):
    """All ranks are told the same, and the group is of use behind it."""
    rank = dist.get_rank()
    x, up, _ = inputs(rank, False)
    try:
        st.matmul_all_reduce(x[:6] if rank == 2 else x, up)
        raise AssertionError("they disagree")
    except ValueError as error:
        assert str(error) == ("ranks disagree at matmul_all_reduce: m is 8 on ranks 0, 1 and 3, "
                              "6 on rank 2"), error
    try:
        (st.matmul_all_reduce if rank == 1 else st.matmul_reduce_scatter)(x, up)
        raise AssertionError("they disagree")
    except ValueError as error:
        assert "operator is matmul_reduce_scatter on ranks 0, 2 and 3, matmul_all_reduce on rank 1" in str(
            error), error
    close(layer(*inputs(rank), None), right_layer(range(4))[rank])


def check_a_fork_is_refused(mesh):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            st.matmul_all_reduce(*inputs(0, False)[:2])
            said = "nothing"
        except RuntimeError as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(read, 4096).decode()
    assert "was forked from the one that made group" in said and "'spawn'" in said, said


def check_close_and_init_again(mesh):
    st.init(mesh["tp"], fallback=False).close()
    other = st.init(mesh["tp"], timeout_s=5)
    layer(*inputs(dist.get_rank()), mesh["tp"])
    other.close()
    st.init(mesh["tp"], fallback=False)  # as other checks have it
