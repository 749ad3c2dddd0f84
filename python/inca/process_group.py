"""The `torch.distributed` backend "inca": `import inca.torch`, then `init_process_group("inca")`; see `inca.torch`.

A process group is one communicator for each number format that it needs: block floating point for sums of floats and
for whatever is only moved, others (integers, minima and maxima) joined when they are first called for, by all ranks at
once, since all call the same. torch asks only the members of a new group to make it, so groups join the controller by
name instead of splitting their parent; the names, and whether all ranks have joined, go through torch's store.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import queue
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch._C import _distributed_c10d as c10d

from . import Communicator, Handle, IncaError
from .tensors import NAMES, raw_view, view

if TYPE_CHECKING:
    from ._native import Op

LOG = logging.getLogger("inca.torch")
GOODBYE_SECONDS = 2.0
# Works that nobody has waited for: C++ may still come for them, and finds no Python methods on one that was collected.
KEPT_WORKS = 1024
# What to join for a sum of this type; sums of floats go through the group's first communicator.
SUMS = {torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64"}
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
EXTREMES = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}

Finish = Callable[[], None]


class BackendError(IncaError, RuntimeError):
    """The process group can't be formed, or does not do what was asked; the message says what it does."""


@dataclass(frozen=True)
class Options:
    """Where to join and how: `init_process_group("inca", pg_options=Options(...))`, or the environment.

    controller, token, ca, job, job_token   as `Communicator.join` has them: INCA_CONTROLLER, INCA_TOKEN, ...; a job
                  without a name gets one from rank 0
    interface, format, chunk_words          likewise: INCA_INTERFACE, INCA_FORMAT, INCA_CHUNK_WORDS
    join_timeout  seconds for all ranks to come: INCA_JOIN_TIMEOUT
    fallback      "gloo": warn and go on over gloo where joining fails, on all ranks; "": an error. INCA_TORCH_FALLBACK
    """

    controller: str = ""
    job: str = ""
    interface: str | None = None
    format: str | None = None
    chunk_words: int = 5
    token: str | None = None
    ca: str | None = None
    job_token: str | None = None
    join_timeout: float = 60.0
    fallback: str = ""

    @staticmethod
    def from_environment() -> Options:
        """What the INCA_ variables say; raises BackendError for numbers that are none."""
        env = os.environ
        try:
            words, seconds = int(env.get("INCA_CHUNK_WORDS", "5")), float(env.get("INCA_JOIN_TIMEOUT", "60"))
        except ValueError as error:
            raise BackendError(f"INCA_CHUNK_WORDS, INCA_JOIN_TIMEOUT: must be numbers: {error}") from error
        return Options(
            controller=env.get("INCA_CONTROLLER", ""),
            job=env.get("INCA_JOB", ""),
            interface=env.get("INCA_INTERFACE") or None,
            format=env.get("INCA_FORMAT") or None,
            chunk_words=words,
            token=env.get("INCA_TOKEN") or None,
            ca=env.get("INCA_CA") or None,
            job_token=env.get("INCA_JOB_TOKEN") or None,
            join_timeout=seconds,
            fallback=env.get("INCA_TORCH_FALLBACK", ""),
        )

    def problem(self) -> str:
        """Why nobody can join so, or nothing."""
        if self.fallback not in ("", "gloo"):
            return f"fallback {self.fallback!r}: gloo is valid, or nothing"
        return "" if self.controller else "no controller: set INCA_CONTROLLER=http://ADDRESS:PORT"

    def join(self, group: str, rank: int, world: int, dtype: str, op: Op) -> Communicator:
        """Joins one group of the job; only sums of floats have a format to choose."""
        return Communicator.join(
            self.controller,
            self.job,
            rank,
            world,
            group=group,
            dtype=dtype,
            op=op,
            format=self.format if (dtype, op) == ("f32", "sum") else None,
            chunk_words=self.chunk_words,
            interface=self.interface,
            timeout=self.join_timeout,
            token=self.token,
            ca=self.ca,
            job_token=self.job_token,
        )


class Work(c10d.Work):
    """An operation under way."""

    def __init__(self, group: ProcessGroup, result: list[torch.Tensor], source: int = -1) -> None:
        super().__init__()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._tensors = result
        self._source = source
        self._future: Any = torch.futures.Future()
        self._group = weakref.ref(group)

    def end(self, error: BaseException | None) -> None:
        """Once, when it has ended."""
        self._error = error
        self._ended.set()
        self._future.set_result(self._tensors if error is None else error)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks; raises what the operation failed with, TimeoutError if it goes on beyond the timeout."""
        seconds = timeout.total_seconds() if timeout else None
        if not self._ended.wait(seconds or None):
            raise TimeoutError(f"the operation has not ended after {seconds} s")
        self._forget()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Any:
        """A future of the tensors. An error raised in `then` is one for C++ too, which set_exception's is not."""
        self._forget()

        def check(future: Any) -> list[torch.Tensor]:
            value = future.value()
            if isinstance(value, BaseException):
                raise value
            tensors: list[torch.Tensor] = value
            return tensors

        return self._future.then(check)

    def _forget(self) -> None:
        if (group := self._group()) is not None:
            group.forget(self)


class Lane:
    """A thread that does one thing after the other. It ends with its process."""

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, args=(self._tasks,), name=name, daemon=True).start()

    def put(self, work: Work, task: Callable[[], None]) -> None:
        """The work ends as the task does."""

        def run() -> None:
            try:
                task()
            except BaseException as error:
                work.end(error)
            else:
                work.end(None)

        self._tasks.put(run)

    def close(self) -> None:
        self._tasks.put(None)

    @staticmethod
    def _run(tasks: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while (task := tasks.get()) is not None:
            task()
            del task


class ProcessGroup(distributed.ProcessGroup):
    """What torch.distributed calls. Operations start in the order of the calls and are pipelined."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, options: Options, name: str) -> None:
        super().__init__(rank, size)
        self._rank, self._world = rank, size
        self._store, self._options, self._name = store, options, name
        self._seconds = timeout.total_seconds()
        self._communicators: dict[tuple[str, Op], Communicator] = {}
        self._communicators["f32", "sum"] = self._first = options.join(name, rank, size, "f32", "sum")
        # Only some ranks call send and recv, so all tell their addresses now.
        self._first.connect_peers(timeout=options.join_timeout)
        self._results = Lane("inca results")
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._unclaimed: deque[Work] = deque(maxlen=KEPT_WORKS)
        self._last: Work | None = None
        self._exchanges = 0
        self._closed = False
        LIVE.add(self)

    def __del__(self) -> None:
        if hasattr(self, "_closed"):
            self.close()

    def close(self) -> None:
        """Leaves, once all ranks are about to, or after two seconds: who leaves fails what others have under way."""
        if self._closed:
            return
        self._closed = True
        part(self._store, self._world, "inca/leaving")
        for communicator in self._communicators.values():
            try:
                communicator.leave()
            except IncaError as error:
                LOG.debug("leaving: %s", error)
        for lane in [self._results, *self._lanes.values()]:
            lane.close()

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        return "inca"

    name = getBackendName
    _get_backend_name = getBackendName

    def forget(self, work: Work) -> None:
        """Somebody holds it, or is through with it."""
        with contextlib.suppress(ValueError):
            self._unclaimed.remove(work)

    def stats(self) -> dict[str, int | float | None]:
        """Of the communicator for sums of floats: see `Communicator.stats`."""
        return self._first.stats()

    # Reductions

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        op = reduction(opts)
        handles, finish = [], []
        for tensor in tensors:
            communicator = self._communicator(tensor, op)
            dense = tensor.contiguous()
            array, dtype = view(dense)
            handles.append(communicator.start_allreduce(array, op=op, timeout=self._timeout(opts), dtype=dtype))
            finish.append(copy_back(dense, tensor))
        return self._work(handles, finish, tensors)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        (tensor,) = tensors
        op = reduction(opts)
        dense = tensor.contiguous()
        array, dtype = view(dense)
        communicator = self._communicator(tensor, op)
        handle = communicator.start_reduce(array, opts.rootRank, op=op, timeout=self._timeout(opts), dtype=dtype)
        is_root = opts.rootRank == self._rank
        return self._work([handle], [copy_back(dense, tensor)] if is_root else [], tensors)

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None) -> Work:
        (output,), (parts,) = outputs, inputs
        if len(parts) != self._world or any(part.numel() != output.numel() for part in parts):
            sizes = [part.numel() for part in parts]
            message = f"reduce_scatter: {sizes} elements, must be {self._world} parts of {output.numel()}"
            raise BackendError(message)
        return self._reduce_scatter_base(output, torch.cat([part.reshape(-1) for part in parts]), opts)

    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Work:
        op = reduction(opts)
        communicator = self._communicator(given, op)
        source, target = apart(given.contiguous(), output), output.contiguous()
        (array, dtype), (out, _) = view(source), view(target)
        handle = communicator.start_reduce_scatter(array, out, op=op, timeout=self._timeout(opts), dtype=dtype)
        return self._work([handle], [copy_back(target, output)], [output])

    reduce_scatter_tensor = _reduce_scatter_base

    # Copies: of any type, bit for bit

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Work:
        (tensor,) = tensors
        dense = tensor.contiguous()
        array, dtype = raw_view(dense)
        handle = self._first.start_broadcast(array, opts.rootRank, timeout=self._timeout(opts), dtype=dtype)
        return self._work([handle], [copy_back(dense, tensor)], tensors)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        handles, finish = [], []
        for parts, given in zip(outputs, inputs, strict=True):
            if len(parts) != self._world or any(part.numel() != given.numel() for part in parts):
                sizes = [part.numel() for part in parts]
                message = f"allgather: room for {sizes} elements, must be {self._world} times {given.numel()}"
                raise BackendError(message)
            whole = torch.empty((self._world, given.numel()), dtype=given.dtype)
            handles.append(self._gather(given, whole, opts))
            finish.append(copies(whole, parts))
        return self._work(handles, finish, [part for parts in outputs for part in parts])

    allgather_coalesced = allgather

    def _allgather_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Work:
        target = output.contiguous()
        return self._work([self._gather(given, target, opts)], [copy_back(target, output)], [output])

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> Work:
        (given,) = inputs
        # All hear everything, as gathering by multicast has it; the root keeps it.
        parts = outputs[0] if opts.rootRank == self._rank else [torch.empty_like(given) for _ in range(self._world)]
        return self.allgather([parts], inputs, opts)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> Work:
        (output,) = outputs
        whole = torch.empty((self._world, output.numel()), dtype=output.dtype)
        if opts.rootRank == self._rank:
            whole.copy_(torch.stack([part.reshape(-1) for part in inputs[0]]))
        array, dtype = raw_view(whole)
        handle = self._first.start_broadcast(array, opts.rootRank, timeout=self._timeout(opts), dtype=dtype)
        return self._work([handle], [copies(whole[self._rank : self._rank + 1], outputs)], outputs)

    def barrier(self, opts: Any = None) -> Work:
        self._first.barrier(timeout=self._timeout(opts))
        return self._ended([])

    # From host to host

    def alltoall_base(
        self,
        output: torch.Tensor,
        given: torch.Tensor,
        output_splits: list[int] | None = None,
        input_splits: list[int] | None = None,
        opts: Any = None,
    ) -> Work:
        if output_splits or input_splits:
            to = list(torch.split(output, output_splits or output.shape[0] // self._world))
            return self.alltoall(to, list(torch.split(given, input_splits or given.shape[0] // self._world)), opts)
        # The library wants no other operation of the group beside it.
        if self._last is not None:
            self._last._ended.wait()
        source, target = apart(given.contiguous(), output), output.contiguous()
        (array, dtype), (out, _) = raw_view(source), raw_view(target)
        self._first.alltoall(array, out, timeout=self._timeout(opts), dtype=dtype)
        copy_back(target, output)()
        return self._ended([output])

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        """Parts of any lengths, as messages."""
        if len(outputs) != self._world or len(inputs) != self._world:
            message = f"alltoall: {len(inputs)} parts in and {len(outputs)} out, must be {self._world} each"
            raise BackendError(message)
        self._exchanges += 1
        tag = 2 * (self._exchanges % (1 << 30)) + 1
        outputs[self._rank].copy_(inputs[self._rank])
        # Everyone sends to the k-th rank after it and hears from the k-th before, all k at once.
        others = [(self._rank + step) % self._world for step in range(1, self._world)]
        works = [self._send(inputs[rank], rank, tag) for rank in others]
        works += [self._receive(outputs[rank], rank, tag) for rank in others]
        whole = Work(self, outputs)
        self._keep(whole)

        def wait() -> None:
            for work in works:
                work.wait()

        self._lane("exchange", self._rank).put(whole, wait)
        return whole

    def send(self, tensors: list[torch.Tensor], to: int, tag: int = 0) -> Work:
        (tensor,) = tensors
        return self._send(tensor, to, 2 * tag)

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int = 0) -> Work:
        (tensor,) = tensors
        return self._receive(tensor, source, 2 * tag)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> Work:
        raise BackendError("recv from any rank: inca receives from a rank that is named; give src")

    def _start_coalescing(self) -> None:
        """Messages go as they come."""

    def _end_coalescing(self, works: list[Work]) -> None:
        """Nothing was held back."""

    def _set_sequence_number_for_group(self) -> None:
        """Every operation of a group has a number as it is."""

    # How

    def _send(self, tensor: torch.Tensor, to: int, tag: int) -> Work:
        array, dtype = raw_view(tensor.contiguous())
        work = Work(self, [tensor])
        self._keep(work)
        first, seconds = self._first, self._seconds
        self._lane("send", to).put(work, lambda: first.send(array, to, tag=tag, timeout=seconds, dtype=dtype))
        return work

    def _receive(self, tensor: torch.Tensor, source: int, tag: int) -> Work:
        target = tensor.contiguous()
        array, dtype = raw_view(target)
        work = Work(self, [tensor], source)
        self._keep(work)
        first, seconds = self._first, self._seconds

        def receive() -> None:
            first.recv(array, source, tag=tag, timeout=seconds, dtype=dtype)
            copy_back(target, tensor)()

        self._lane("receive", source).put(work, receive)
        return work

    def _gather(self, given: torch.Tensor, whole: torch.Tensor, opts: Any) -> Handle:
        source = apart(given.contiguous(), whole)
        (array, dtype), (out, _) = raw_view(source), raw_view(whole)
        return self._first.start_allgather(array, out, timeout=self._timeout(opts), dtype=dtype)

    def _communicator(self, tensor: torch.Tensor, op: Op) -> Communicator:
        """The one whose format carries this; joined when first asked for, as all ranks do."""
        if tensor.dtype not in FLOATS and tensor.dtype not in SUMS:
            names = ", ".join(str(dtype) for dtype in (*FLOATS, *SUMS))
            raise TypeError(f"reducing a tensor of {tensor.dtype}: {names} can be reduced")
        if op in ("min", "max"):
            key: tuple[str, Op] = (EXTREMES[tensor.element_size()], "max")
        else:
            key = ("f32" if tensor.dtype in FLOATS else SUMS[tensor.dtype], "sum")
        if key not in self._communicators:
            name = f"{self._name}/{key[0]}.{key[1]}"
            self._communicators[key] = self._options.join(name, self._rank, self._world, *key)
        return self._communicators[key]

    def _work(self, handles: list[Handle], finish: list[Finish], result: list[torch.Tensor]) -> Work:
        work = Work(self, result)
        self._keep(work)
        self._last = work

        def task() -> None:
            for handle in handles:
                handle.wait()
            for step in finish:
                step()

        self._results.put(work, task)
        return work

    def _ended(self, result: list[torch.Tensor]) -> Work:
        work = Work(self, result)
        self._keep(work)
        work.end(None)
        return work

    def _keep(self, work: Work) -> None:
        self._unclaimed.append(work)

    def _lane(self, kind: str, rank: int) -> Lane:
        """Messages to one rank, and from one, in order; those of different ranks beside each other."""
        if (kind, rank) not in self._lanes:
            self._lanes[kind, rank] = Lane(f"inca {kind} {rank}")
        return self._lanes[kind, rank]

    def _timeout(self, opts: Any) -> float:
        given = getattr(opts, "timeout", None)
        # Options without one have -1 ms or so.
        seconds = given.total_seconds() if isinstance(given, timedelta) else 0.0
        return seconds if seconds > 0.0 else self._seconds


def reduction(opts: Any) -> Op:
    """inca's name of the options' reduction."""
    wanted = getattr(opts, "reduceOp", distributed.ReduceOp.SUM)
    names: dict[str, Op] = {"SUM": "sum", "AVG": "average", "MIN": "min", "MAX": "max"}
    for name, ours in names.items():
        if wanted == getattr(distributed.ReduceOp, name):
            return ours
    others = [name for name in ("PRODUCT", "BAND", "BOR", "BXOR") if wanted == getattr(distributed.ReduceOp, name)]
    raise BackendError(f"reduction {', '.join(others) or wanted}: {', '.join(names)} are valid")


def copy_back(dense: torch.Tensor, tensor: torch.Tensor) -> Finish:
    """What to do in the end if a tensor that is not contiguous was copied."""

    def copy() -> None:
        if dense.data_ptr() != tensor.data_ptr() or not tensor.is_contiguous():
            with torch.no_grad():
                tensor.copy_(dense)

    return copy


def copies(whole: torch.Tensor, parts: list[torch.Tensor]) -> Finish:
    """What to do in the end: each row of the whole to its part."""

    def copy() -> None:
        with torch.no_grad():
            for part, row in zip(parts, whole, strict=True):
                part.copy_(row.view(part.shape))

    return copy


def apart(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The source, or a copy if it shares memory with the target, as shards of what is gathered do."""
    start, end = source.data_ptr(), source.data_ptr() + source.numel() * source.element_size()
    low, high = target.data_ptr(), target.data_ptr() + target.numel() * target.element_size()
    return source.clone() if start < high and low < end else source


# Groups that are open; left when the interpreter ends, while it still can.
LIVE: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()


@atexit.register
def close_all() -> None:
    for group in list(LIVE):
        group.close()


class Session:
    """What groups take from the default one."""

    options = Options()
    is_gloo = False


def create(given: Any, options: Options | None) -> Any:
    """Called by torch on all members of a group: a process group; gloo's if that was asked for and there is none."""
    store, rank, size = given.store, given.group_rank, given.group_size
    is_default = not distributed.is_initialized()
    group, problem = None, ""
    if is_default:
        try:
            Session.options, Session.is_gloo = options or Options.from_environment(), False
        except BackendError as error:
            Session.options, problem = Options(), str(error)
    elif Session.is_gloo:
        return gloo(given)
    options = options or Session.options
    problem = problem or options.problem()
    if not options.job:
        if rank == 0:
            store.set("inca/job", f"torch-{secrets.token_hex(4)}")
        options = replace(options, job=store.get("inca/job").decode())
    if is_default:
        Session.options = options
    # Nobody waits for ranks that will not come.
    problems = agree(store, rank, size, "inca/options", problem, options.fallback)
    if not problems:
        name = "" if is_default else f"g{given.group_id}"
        try:
            group = ProcessGroup(store, rank, size, given.timeout, options, name)
        except IncaError as error:
            problem = f"{type(error).__name__}: {error}"
        problems = agree(store, rank, size, "inca/joined", problem, options.fallback)
        if not problems:
            return group
    if group is not None:
        group.close()
    # The store goes with rank 0: all shall have read why.
    part(store, size, "inca/told")
    message = f"process group of {size} ranks: {problems}"
    if options.fallback != "gloo":
        raise BackendError(f"{message}; INCA_TORCH_FALLBACK=gloo goes on without the switches")
    LOG.warning("INCA IS NOT USED, gloo is instead, and no switch sums anything: %s", message)
    Session.is_gloo = Session.is_gloo or is_default
    return gloo(given)


def agree(store: Any, rank: int, size: int, key: str, problem: str, fallback: str) -> str:
    """Tells all ranks this one's problem and whether it would go on over gloo; all ranks' problems."""
    store.set(f"{key}/{rank}", json.dumps([problem, fallback]))
    told = [json.loads(store.get(f"{key}/{each}")) for each in range(size)]
    if len({theirs for _, theirs in told}) > 1:
        wanted = ", ".join(f"rank {each}: {theirs or 'none'}" for each, (_, theirs) in enumerate(told))
        raise BackendError(f"fallback must be the same on all ranks, is {wanted}")
    return "; ".join(f"rank {each}: {theirs}" for each, (theirs, _) in enumerate(told) if theirs)


def part(store: Any, size: int, key: str) -> None:
    """Waits until all ranks have come here, two seconds at most."""
    # An error: the store was rank 0's, which has gone, and saw everybody here.
    with contextlib.suppress(RuntimeError):
        store.add(key, 1)
        until = time.monotonic() + GOODBYE_SECONDS
        while store.add(key, 0) < size and time.monotonic() < until:
            time.sleep(0.005)


def gloo(given: Any) -> Any:
    store = c10d.PrefixStore("gloo", given.store)
    return distributed.ProcessGroupGloo(store, given.group_rank, given.group_size, timeout=given.timeout)


def register() -> None:
    """Once for a process."""
    if not hasattr(distributed.Backend, "INCA"):
        distributed.Backend.register_backend("inca", create, extended_api=True)


__all__ = ["NAMES", "BackendError", "Options", "ProcessGroup", "Work", "register"]
