"""PyTorch: a backend for `torch.distributed`, and a communication hook for DistributedDataParallel.

    import inca.torch
    import torch.distributed as dist

    dist.init_process_group("inca", init_method=..., rank=..., world_size=...)     # INCA_CONTROLLER=http://ADDRESS:PORT

gives all of torch.distributed over the trees: see `Options` for what else the environment may say. Where only gradients
shall go through the switches, a hook averages each bucket where it lies, beside any other backend:

    dist.init_process_group("gloo", ...)                 # DDP wants one: it carries the parameters at the start
    group = inca.Communicator.join(controller, job, rank, world)
    model = DistributedDataParallel(network)
    model.register_comm_hook(inca.torch.HookState(group), inca.torch.allreduce_hook)

The hook needs float32, float16 or bfloat16 gradients; both want the CPU's memory. Written for Debian 12's python3-torch
(1.13).
"""

import queue
import threading
from typing import Any

import torch
from torch import distributed

from . import Communicator, Handle
from .process_group import BackendError, Options, ProcessGroup, Work, register
from .tensors import NAMES, view

__all__ = [
    "NAMES",
    "BackendError",
    "HookState",
    "Options",
    "ProcessGroup",
    "Work",
    "allreduce_hook",
    "register",
    "view",
]

register()


class HookState:
    """What the hook needs: the group, how long a bucket may take, and a thread that waits for the results in order."""

    def __init__(self, group: Communicator, timeout: float = 60.0) -> None:
        self.group = group
        self.timeout = timeout
        self.buckets = 0
        self._waiting: queue.SimpleQueue[tuple[Handle, torch.Tensor, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._wait, name="inca results", daemon=True)
        self._thread.start()

    def start(self, tensor: torch.Tensor) -> Any:
        """Starts averaging a tensor in place; the future holds it when it is done."""
        array, dtype = view(tensor)
        future = torch.futures.Future()
        handle = self.group.start_allreduce(array, op="average", timeout=self.timeout, dtype=dtype)
        self.buckets += 1
        self._waiting.put((handle, tensor, future))
        return future

    def close(self) -> None:
        """Ends the thread, after what is under way."""
        self._waiting.put(None)
        self._thread.join()

    def _wait(self) -> None:
        while (started := self._waiting.get()) is not None:
            handle, tensor, future = started
            try:
                handle.wait()
            except Exception as error:
                # DDP raises it from the backward pass.
                future.set_exception(error)
            else:
                future.set_result(tensor)


# DDP checks that a hook's annotations are these very types: no deferred ones in this file.
def allreduce_hook(state: HookState, bucket: distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook for DDP: averages a bucket of gradients over all ranks in the switches."""
    return state.start(bucket.buffer())
