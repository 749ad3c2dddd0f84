"""One of eight ranks that train by inca as torch's backend: sharded as FSDP does, then 2x2x2 parallel.

Run by parallel.py on emulated hosts. Every rank computes the same steps alone as well, to compare.
Prints a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os

os.environ["OMP_NUM_THREADS"] = "1"

import inca.torch
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

WORLD = 8
BATCH = 16
RATE = 0.5
MOMENTUM = 0.9
WIDTH = 32
HIDDEN = 64
MICRO = 2

Report = dict[str, float]


def batch(step: int, part: int, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    """Inputs, and outputs that a smooth function gives: of one rank or replica, which every other can compute."""
    inputs = torch.randn(BATCH, width, generator=torch.Generator().manual_seed(1000 * step + part))
    return inputs, torch.tanh(inputs.roll(1, dims=1) - inputs)


def loss_of(network: nn.Module, samples: list[tuple[Tensor, Tensor]]) -> Tensor:
    inputs, outputs = (torch.cat(each) for each in zip(*samples, strict=True))
    return (network(inputs) - outputs).square().mean()


def sharded(rank: int, steps: int) -> Report:
    """Each rank keeps an eighth of parameters and momentum: gathers all for a step, gets its share of the gradient."""
    torch.manual_seed(7)
    network = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, WIDTH))
    start = parameters_to_vector(network.parameters()).detach()
    size = -(-start.numel() // WORLD)
    whole, gradient = torch.zeros(size * WORLD), torch.zeros(size * WORLD)
    whole[: start.numel()] = start
    shard, momentum, share = whole.view(WORLD, size)[rank].clone(), torch.zeros(size), torch.zeros(size)
    for step in range(steps):
        dist.all_gather_into_tensor(whole, shard)
        vector_to_parameters(whole[: start.numel()], network.parameters())
        loss = loss_of(network, [batch(step, rank)])
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        gradient[: start.numel()] = torch.cat([each.reshape(-1) for each in gradients])
        dist.reduce_scatter_tensor(share, gradient, op=dist.ReduceOp.AVG)
        momentum.mul_(MOMENTUM).add_(share)
        shard.sub_(RATE * momentum)
    dist.all_gather_into_tensor(whole, shard)
    vector_to_parameters(start.clone(), network.parameters())
    alone = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM)
    for step in range(steps):
        alone.zero_grad()
        loss_of(network, [batch(step, each) for each in range(WORLD)]).backward()
        alone.step()
    expected = parameters_to_vector(network.parameters()).detach()
    return compare(whole[: start.numel()], expected, start)


class HalfStage:
    """A tensor-parallel rank's part of a stage: x -> relu(x A) B with half of A's columns and of B's rows."""

    def __init__(self, a: Tensor, b: Tensor, tensor: dist.ProcessGroup, data: dist.ProcessGroup) -> None:
        self.a, self.b = a, b
        self.tensor, self.data = tensor, data
        self.sums: list[Tensor] = []
        self.works: list[dist.Work] = []

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The hidden layer's half, and the whole output."""
        hidden = torch.relu(x @ self.a)
        y = hidden @ self.b
        dist.all_reduce(y, group=self.tensor)
        return hidden, y

    def backward(self, x: Tensor, hidden: Tensor, gradient: Tensor) -> Tensor:
        """Starts averaging this half's gradients over the replicas; returns the input's."""
        back = (gradient @ self.b.T) * (hidden > 0)
        for each in (x.T @ back, hidden.T @ gradient):
            self.sums.append(each)
            self.works.append(dist.all_reduce(each, op=dist.ReduceOp.AVG, group=self.data, async_op=True))
        down = back @ self.a.T
        dist.all_reduce(down, group=self.tensor)
        return down

    def in_flight(self) -> int:
        """Averages under way."""
        return sum(not work.is_completed() for work in self.works)

    def update(self) -> None:
        """A step, with the gradients of all micro-batches."""
        for work in self.works:
            work.wait()
        self.a -= RATE * sum(self.sums[0::2])
        self.b -= RATE * sum(self.sums[1::2])
        self.sums, self.works = [], []

    def parameters(self) -> Tensor:
        """A copy, flat."""
        return torch.cat([self.a.reshape(-1), self.b.reshape(-1)])


def cube(rank: int, steps: int) -> Report:
    """Two replicas of two stages of two halves: each rank is in a group of each kind.

    A stage is x -> relu(x A) B; a tensor-parallel rank has half of A's columns and of B's rows, so that the halves' sum
    is the stage's output (as in Megatron-LM). Of two micro-batches the second is under way in the stages (messages) and
    their halves (sums) while the first one's gradients are summed over the replicas.
    """
    replica, stage, half = rank // 4, rank // 2 % 2, rank % 2
    ranks = {
        "data": [[stage * 2 + half + 4 * each for each in (0, 1)] for stage in (0, 1) for half in (0, 1)],
        "tensor": [[first, first + 1] for first in range(0, WORLD, 2)],
        "pipeline": [[first, first + 2] for first in (0, 1, 4, 5)],
    }
    mine = {kind: [dist.new_group(each) for each in all_of_kind] for kind, all_of_kind in ranks.items()}
    data, tensor, pipeline = (
        next(group for group, members in zip(mine[kind], ranks[kind], strict=True) if rank in members)
        for kind in ("data", "tensor", "pipeline")
    )
    torch.manual_seed(11)
    weights = [(torch.randn(WIDTH, HIDDEN) / WIDTH**0.5, torch.randn(HIDDEN, WIDTH) / HIDDEN**0.5) for _ in (0, 1)]
    columns = slice(half * HIDDEN // 2, (half + 1) * HIDDEN // 2)
    a, b = weights[stage][0][:, columns].clone(), weights[stage][1][columns].clone()
    half_stage = HalfStage(a, b, tensor, data)
    begun = half_stage.parameters()
    other = rank + 2 if stage == 0 else rank - 2
    in_flight = 0
    for step in range(steps):
        inputs, outputs = (each.chunk(MICRO) for each in batch(step, replica))
        stored: list[tuple[Tensor, Tensor]] = []
        messages = []
        if stage == 0:
            for x in inputs:
                hidden, y = half_stage.forward(x)
                stored.append((x, hidden))
                messages.append((dist.isend(y, other, group=pipeline), y))
            for x, hidden in stored:
                gradient = torch.zeros(BATCH // MICRO, WIDTH)
                dist.recv(gradient, other, group=pipeline)
                half_stage.backward(x, hidden, gradient)
        else:
            for wanted in outputs:
                x = torch.zeros(BATCH // MICRO, WIDTH)
                dist.recv(x, other, group=pipeline)
                hidden, y = half_stage.forward(x)
                down = half_stage.backward(x, hidden, 2 * (y - wanted) / (BATCH * WIDTH))
                messages.append((dist.isend(down, other, group=pipeline), down))
        in_flight = max(in_flight, half_stage.in_flight())
        for message, _ in messages:
            message.wait()
        half_stage.update()
    trained = [(first.clone().requires_grad_(), second.clone().requires_grad_()) for first, second in weights]
    for step in range(steps):
        total = torch.zeros(())
        for each in (0, 1):
            value, wanted = batch(step, each)
            for first, second in trained:
                value = torch.relu(value @ first) @ second
            total = total + (value - wanted).square().mean() / 2
        flat = [weight for pair in trained for weight in pair]
        for weight, gradient in zip(flat, torch.autograd.grad(total, flat), strict=True):
            weight.data -= RATE * gradient
    first, second = (weight.detach() for weight in trained[stage])
    expected = torch.cat([first[:, columns].reshape(-1), second[columns].reshape(-1)])
    return compare(half_stage.parameters(), expected, begun) | {"in_flight": in_flight}


def compare(found: Tensor, expected: Tensor, start: Tensor) -> Report:
    """Largest difference from what one process computes, and largest change by training."""
    return {"apart": (found - expected).abs().max().item(), "change": (expected - start).abs().max().item()}


def main() -> None:
    """Both trainings."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("controller", "interface", "master"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("rank", "steps"):
        parser.add_argument(f"--{name}", required=True, type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ours = inca.torch.Options(controller=options.controller, job="parallel", interface=options.interface)
    where = f"tcp://{options.master}:29500"
    dist.init_process_group("inca", init_method=where, rank=options.rank, world_size=WORLD, pg_options=ours)
    report = {"sharded": sharded(options.rank, options.steps), "cube": cube(options.rank, options.steps)}
    dist.destroy_process_group()
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
