"""torch.distributed's allreduce by gloo over a list of sizes, timed and checked. Rank 0 prints one line of JSON.

Run by the experiments on every emulated host, with sizes as bytes:iterations:warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import time

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist


def main() -> None:
    """Measures each size in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", required=True)
    parser.add_argument("--interface", required=True)
    parser.add_argument("--rank", required=True, type=int)
    parser.add_argument("--world", required=True, type=int)
    parser.add_argument("sizes", nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = options.interface
    world = options.world
    dist.init_process_group("gloo", init_method=f"tcp://{options.master}:29500", rank=options.rank, world_size=world)
    rows = []
    for text in options.sizes:
        size, iterations, warmup = map(int, text.split(":"))
        base = torch.arange(size // 4, dtype=torch.int64) % 251
        mine = (base + options.rank).to(torch.float32)
        times = []
        dist.barrier()
        for turn in range(-warmup, iterations):
            # In place only; the copy is not timed.
            buffer = mine.clone()
            start = time.perf_counter()
            dist.all_reduce(buffer)
            if turn >= 0:
                times.append(time.perf_counter() - start)
        wrong = int((buffer != (base * world + world * (world - 1) // 2).to(torch.float32)).sum())
        times.sort()
        # The group is as fast as its slowest rank.
        figures = torch.tensor([sum(times) / iterations, times[iterations // 2], times[0]], dtype=torch.float64)
        dist.all_reduce(figures, op=dist.ReduceOp.MAX)
        errors = torch.tensor([wrong])
        dist.all_reduce(errors)
        mean, median, fastest = figures.tolist()
        rows.append({"bytes": size, "mean": mean, "median": median, "fastest": fastest, "wrong": int(errors)})
    if options.rank == 0:
        print(json.dumps({"world": world, "rows": rows}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
