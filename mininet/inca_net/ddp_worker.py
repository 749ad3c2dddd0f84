"""One worker of a training with PyTorch: a small convolutional network on the digits.

Its gradients go by inca's hook, by inca as the backend, or by gloo. Run by ddp.py on emulated hosts.
Prints a line of JSON for each step, then one with the parameters' hash.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time

os.environ["OMP_NUM_THREADS"] = "1"

import inca
import inca.torch
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

BATCH = 32


def network() -> nn.Module:
    """28 thousand parameters for images of 8 by 8."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 40),
        nn.ReLU(),
        nn.Linear(40, 10),
    )


def main() -> None:
    """Trains, with the gradients' averages from where the options say."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("controller", "interface", "job", "master"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("rank", "world", "steps"):
        parser.add_argument(f"--{name}", required=True, type=int)
    parser.add_argument("--by", choices=("inca", "backend", "gloo"), default="inca")
    parser.add_argument("--format", default="bfp16")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(3)
    os.environ["GLOO_SOCKET_IFNAME"] = options.interface
    ours = inca.torch.Options(
        controller=options.controller, job=options.job, interface=options.interface, format=options.format
    )
    dist.init_process_group(
        "inca" if options.by == "backend" else "gloo",
        init_method=f"tcp://{options.master}:29500",
        rank=options.rank,
        world_size=options.world,
        pg_options=ours if options.by == "backend" else None,
    )
    digits = load_digits()
    images = torch.tensor(digits.images[:, None] / 16.0 - 0.5, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(5))
    share = order[options.rank :: options.world]
    model = DistributedDataParallel(network(), bucket_cap_mb=1)
    group = state = None
    if options.by == "inca":
        group = inca.Communicator.join(
            options.controller,
            options.job,
            options.rank,
            options.world,
            interface=options.interface,
            dtype="f32",
            op="average",
            format=options.format,
        )
        state = inca.torch.HookState(group)
        model.register_comm_hook(state, inca.torch.allreduce_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(options.steps):
        picked = share[torch.arange(step * BATCH, (step + 1) * BATCH) % len(share)]
        started = time.monotonic()
        optimizer.zero_grad()
        loss = cross_entropy(model(images[picked]), labels[picked])
        loss.backward()
        optimizer.step()
        spent = time.monotonic() - started
        # Of all samples: the same on every rank as long as the parameters are.
        with torch.no_grad():
            whole = cross_entropy(model.module(images), labels).item()
        print(json.dumps({"step": step, "loss": whole, "ms": spent * 1e3}), flush=True)
    parameters = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    report = {"digest": hashlib.sha256(parameters).hexdigest(), "buckets": state.buckets if state else 0}
    if options.by == "backend":
        report["chunks"] = dist.group.WORLD.stats()["chunks"]
    print(json.dumps(report), flush=True)
    if state and group:
        state.close()
        group.leave()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
