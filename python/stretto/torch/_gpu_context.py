"""A group's context on GPUs: its ranks must be on one machine, with GPUs that are served."""

import pathlib
import socket

import torch

import stretto

from ._refusals import NotServed

SERVED = "sm_90"
BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")


def machine_id():
    """What ranks of one machine have alike, in containers too, and others have not, whatever hosts are called."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return socket.gethostname()


def open_context(group, gpu):
    """By the group's store, whatever launcher there was. Raises NotServed, on all ranks."""
    told = {"machine": machine_id(), "host": socket.gethostname(),
            "sm": "sm_%d%d" % torch.cuda.get_device_capability(gpu)}
    stories = group.meeting.agree("context", told, may_differ=told)
    machines, others = {one["machine"] for one in stories}, {one["sm"] for one in stories} - {SERVED}
    if others:
        raise NotServed(f"there are GPUs of {' and '.join(sorted(others))}, and Stretto takes {SERVED} (Hopper)")
    if len(machines) > 1:
        hosts = sorted({one["host"] for one in stories})
        raise NotServed(f"ranks are on {len(machines)} machines ({', '.join(hosts[:3])}); all must be on one")

    def exchange(mine):
        group.meeting.begin()
        group.meeting.say("exchange", mine)
        return [group.meeting.hear(rank, "exchange", "context") for rank in range(group.ranks)]

    try:
        context = stretto.Context(group.options.timeout_s, rank=group.rank, ranks=group.ranks, gpu=gpu,
                                  exchange=exchange, workspace_bytes=group.options.workspace_bytes,
                                  workspace_grows=group.options.workspace_grows,
                                  free_sms=group.options.free_sms,
                                  orders_streams=group.options.orders_streams)
        group.meeting.agree("context", {})  # so that all have heard what is forgotten
    except BaseException:
        group.meeting.begin()
        raise
    finally:
        group.meeting.forget()  # it has the job's secret, which the store need not keep
    return context
