"""One rank that uses the torch.distributed backend: runs a scenario, prints what came of it as a line of JSON."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import inca
import inca.torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

Tensor = torch.Tensor
TIMEOUT = timedelta(seconds=40)
# What bfp16 may lose of small integers: their blocks' largest element is below 64.
CLOSE = 4 * 64 / 16383


def values(rank: int, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Small integers, which every rank can compute for every other."""
    return ((torch.arange(count) * 7 + rank * 3) % 11).to(dtype)


def all_values(world: int, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.stack([values(rank, count, dtype) for rank in range(world)])


class Checks:
    """Collects what is not as it should be."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.done = 0

    def same(self, what: str, found: Tensor, expected: Tensor, tolerance: float = 0.0) -> None:
        self.done += 1
        apart = (found.to(torch.float64) - expected.to(torch.float64)).abs().max().item() if found.numel() else 0.0
        if found.shape != expected.shape or not apart <= tolerance:
            self.wrong.append(f"{what}: {apart} apart")


def reductions(checks: Checks, rank: int, world: int) -> None:
    """SUM, AVG, MIN and MAX of what can be reduced, into all, one, and shards."""
    floats = (torch.float32, torch.float16, torch.bfloat16)
    for dtype in (*floats, torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16):
        for count in (0, 1, 1500):
            tensor, everything = values(rank, count, dtype), all_values(world, count, torch.float64)
            dist.all_reduce(tensor)
            checks.same(f"sum {dtype} {count}", tensor, everything.sum(0), CLOSE if dtype in floats else 0)
    everything = all_values(world, 1000, torch.float64)
    for op, expected in (
        (dist.ReduceOp.AVG, everything.mean(0)),
        (dist.ReduceOp.MIN, everything.min(0)[0]),
        (dist.ReduceOp.MAX, everything.max(0)[0]),
    ):
        tensor = values(rank, 1000)
        dist.all_reduce(tensor, op=op)
        checks.same(f"op {op}", tensor, expected, CLOSE if op == dist.ReduceOp.AVG else 0)
    largest = values(rank, 50, torch.int64)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    checks.same("max int64", largest, all_values(world, 50, torch.int64).max(0)[0])
    column = torch.zeros(40, 2)
    column[:, 1] = values(rank, 40)
    dist.all_reduce(column[:, 1])
    checks.same("strided", column[:, 1], all_values(world, 40).sum(0), CLOSE)
    checks.same("beside it", column[:, 0], torch.zeros(40))
    works = [(dist.all_reduce(tensor := values(rank, 300 * k), async_op=True), tensor, k) for k in range(6)]
    for work, tensor, k in works:
        work.wait()
        checks.same(f"overlapping {k}", tensor, all_values(world, 300 * k).sum(0), CLOSE)
        if not work.is_completed():
            checks.wrong.append("not completed")
    future = dist.all_reduce(tensor := torch.ones(9), async_op=True).get_future()
    checks.same("future", future.wait()[0], torch.full((9,), float(world)), CLOSE)
    mine = values(rank, 70)
    dist.reduce(mine, dst=world - 1)
    checks.same("reduce", mine, all_values(world, 70).sum(0) if rank == world - 1 else values(rank, 70), CLOSE)
    whole = values(rank, world * 33)
    sums = all_values(world, world * 33).sum(0).view(world, 33)
    shard = torch.zeros(33)
    dist.reduce_scatter(shard, list(whole.view(world, 33)))
    checks.same("reduce_scatter", shard, sums[rank], CLOSE)
    shard = whole.clone().view(world, 33)[rank]
    dist.reduce_scatter_tensor(shard, whole)
    checks.same("reduce_scatter_tensor", shard, sums[rank], CLOSE)


def copies(checks: Checks, rank: int, world: int) -> None:
    """What is only moved, of any type."""
    for dtype in (torch.float32, torch.float64, torch.bool, torch.bfloat16, torch.int64, torch.complex64):
        tensor = values(1, 77).to(dtype) if rank == 1 else torch.zeros(77, dtype=dtype)
        dist.broadcast(tensor, src=1)
        checks.same(f"broadcast {dtype}", tensor.real, values(1, 77).to(dtype).real)
    parts = [torch.zeros(5, 2) for _ in range(world)]
    dist.all_gather(parts, values(rank, 10).view(5, 2))
    checks.same("all_gather", torch.stack(parts).view(world, 10), all_values(world, 10))
    gathered = torch.full((world * 11,), float("nan"), dtype=torch.float64)
    gathered.view(world, 11)[rank] = values(rank, 11, torch.float64)
    dist.all_gather_into_tensor(gathered, gathered.view(world, 11)[rank])
    checks.same("all_gather_into_tensor", gathered.view(world, 11), all_values(world, 11))
    dist.gather(values(rank, 6), parts := [torch.zeros(6) for _ in range(world)] if rank == 0 else None, dst=0)
    if parts:
        checks.same("gather", torch.stack(parts), all_values(world, 6))
    mine = torch.zeros(6)
    dist.scatter(mine, list(all_values(world, 6)) if rank == 2 else None, src=2)
    checks.same("scatter", mine, values(rank, 6))
    objects: list[Any] = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    if [each["rank"] for each in objects] != list(range(world)):
        checks.wrong.append(f"objects {objects}")
    dist.barrier()
    given = torch.stack([values(rank * world + to, 4) for to in range(world)])
    taken = torch.zeros(world, 4)
    dist.all_to_all_single(taken, given)
    checks.same("all_to_all_single", taken, torch.stack([values(each * world + rank, 4) for each in range(world)]))
    # Rank r sends r + 1 elements to everyone.
    uneven = [torch.zeros(each + 1) for each in range(world)]
    dist.all_to_all(uneven, [torch.full((rank + 1,), float(rank)) for _ in range(world)])
    for each, part in enumerate(uneven):
        checks.same(f"all_to_all from {each}", part, torch.full((each + 1,), float(each)))
    # Around a ring; a second message overtakes the first by its tag.
    right, left = (rank + 1) % world, (rank - 1) % world
    sends = [dist.isend(values(rank + tag, 20), right, tag=tag) for tag in (1, 2)]
    for tag in (2, 1):
        dist.recv(tensor := torch.zeros(20), left, tag=tag)
        checks.same(f"recv {tag}", tensor, values(left + tag, 20))
    for work in sends:
        work.wait()


def groups(checks: Checks, rank: int, world: int) -> None:
    """Groups that share ranks, in use at once."""
    pairs = [dist.new_group([0, 1]), dist.new_group(list(range(2, world)))]
    odd = dist.new_group(list(range(1, world, 2)))
    mine, members = (pairs[0], [0, 1]) if rank < 2 else (pairs[1], list(range(2, world)))
    works = [dist.all_reduce(a := values(rank, 500), group=mine, async_op=True)]
    if rank % 2:
        works.append(dist.all_reduce(b := values(rank, 900), group=odd, async_op=True))
    works.append(dist.all_reduce(c := values(rank, 100), async_op=True))
    for work in works:
        work.wait()
    everything = all_values(world, 900)
    checks.same("pair", a, everything[members, :500].sum(0), CLOSE)
    if rank % 2:
        checks.same("odd", b, everything[1::2].sum(0), CLOSE)
    checks.same("all", c, everything[:, :100].sum(0), CLOSE)
    dist.broadcast(tensor := values(rank, 8), src=members[-1], group=mine)
    checks.same("broadcast in a group", tensor, values(members[-1], 8))


def model(checks: Checks, rank: int, world: int) -> None:
    """DDP with this backend alone: same parameters on all ranks before and after, gradients the mean of all."""
    torch.manual_seed(rank)
    network = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 1))
    ddp = DistributedDataParallel(network, find_unused_parameters=True)
    for _ in range(3):
        inputs = torch.rand(8, 20, generator=torch.Generator().manual_seed(rank))
        ddp.zero_grad()
        ddp(inputs).square().mean().backward()
        mine = torch.cat([parameter.grad.reshape(-1) for parameter in network.parameters()])
    alone = [torch.rand(8, 20, generator=torch.Generator().manual_seed(each)) for each in range(world)]
    network.zero_grad()
    network(torch.cat(alone)).square().mean().backward()
    expected = torch.cat([parameter.grad.reshape(-1) for parameter in network.parameters()])
    checks.same("gradients of DDP", mine, expected, 4 * expected.abs().max().item() * world / 16383)


def kind_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def refused(checks: Checks, rank: int, world: int) -> dict[str, str]:
    """What does not go, by name; the group goes on."""
    found = {
        "float64": kind_of(lambda: dist.all_reduce(torch.ones(3, dtype=torch.float64))),
        "bool": kind_of(lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool))),
        "product": kind_of(lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.PRODUCT)),
        "anyone": kind_of(lambda: dist.recv(torch.ones(3))),
        "overflow": kind_of(lambda: dist.all_reduce(torch.full((3,), 100, dtype=torch.int8))),
    }
    dist.all_reduce(tensor := torch.ones(3))
    checks.same("after", tensor, torch.full((3,), float(world)), CLOSE)
    # The last: it ends the group. DDP's C++ must hear of it as of an error, not as of a result.
    found["mismatch"] = kind_of(lambda: dist.all_reduce(torch.ones(3 + rank)))
    network = torch.nn.Linear(3, 1)
    found["after the end"] = kind_of(lambda: DistributedDataParallel(network))
    return found


SCENARIOS: dict[str, Callable[[Checks, int, int], Any]] = {
    "reductions": reductions,
    "copies": copies,
    "groups": groups,
    "model": model,
    "refused": refused,
}


def main() -> None:
    """Initialises the backend as the options say, then runs the scenarios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="+", choices=[*SCENARIOS, "absent"])
    for name in ("interface", "master"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("rank", "world", "port"):
        parser.add_argument(f"--{name}", required=True, type=int)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["INCA_INTERFACE"] = options.interface
    where = f"tcp://{options.master}:{options.port}"
    checks, report = Checks(), {}
    try:
        dist.init_process_group("inca", init_method=where, rank=options.rank, world_size=options.world, timeout=TIMEOUT)
    except inca.IncaError as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        return
    for name in options.scenarios:
        if name == "absent":
            dist.all_reduce(tensor := torch.ones(3))
            checks.same("gloo", tensor, torch.full((3,), float(options.world)))
            subgroup = dist.new_group(list(range(options.world)))
            report["by"] = [type(each).__name__ for each in (dist.group.WORLD, subgroup)]
        else:
            report[name] = SCENARIOS[name](checks, options.rank, options.world)
    dist.destroy_process_group()
    print(json.dumps({"wrong": checks.wrong, "checks": checks.done, **report}), flush=True)


if __name__ == "__main__":
    main()
