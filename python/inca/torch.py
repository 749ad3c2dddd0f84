"""PyTorch: gradients of DistributedDataParallel through the reduction trees.

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    import inca
    import inca.torch

    dist.init_process_group("gloo", ...)                 # DDP wants one: it carries the parameters at the start
    group = inca.Communicator.join(controller, job, rank, world)
    model = DistributedDataParallel(network)
    model.register_comm_hook(inca.torch.HookState(group), inca.torch.allreduce_hook)

Each bucket of gradients is averaged by the switches where it lies, while the backward pass goes on with the next one.
Needs float32, float16 or bfloat16 gradients on the CPU. Written for Debian 12's python3-torch (1.13) and later.
"""

import queue
import threading
from typing import Any

import torch
from torch import distributed

from . import Communicator, Handle

NAMES = {torch.float32: None, torch.float16: None, torch.bfloat16: "bf16", torch.int32: None, torch.int64: None}


def view(tensor: torch.Tensor) -> tuple[Any, str | None]:
    """A tensor as an array on the same memory, and the name of its type where NumPy has none.

    Raises TypeError or ValueError for what can't be used where it lies: another device, another type, strides.
    """
    if tensor.device.type != "cpu":
        raise ValueError(f"tensor on {tensor.device}: only memory of the CPU can be sent")
    if tensor.dtype not in NAMES:
        raise TypeError(f"tensor of {tensor.dtype}: {', '.join(map(str, NAMES))} are carried")
    if not tensor.is_contiguous():
        raise ValueError(f"tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} is not contiguous")
    flat = tensor.detach().view(-1)
    if tensor.dtype == torch.bfloat16:
        flat = flat.view(torch.int16)
    return flat.numpy(), NAMES[tensor.dtype]


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
