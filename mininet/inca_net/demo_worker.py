"""One rank of the demo: computes real gradients, has the switches sum them, steps; checks every bit of every sum.

Prints a line of JSON per step. Run on a host by demo.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# One thread: ranks recompute each other's gradients for the check, and must get the same bits.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from inca_net import bfp16  # noqa: E402
from inca_net.training import Classifier, Floats, Samples, samples  # noqa: E402

SAMPLES_PER_RANK = 512
BATCH = 128
HIDDEN = 128
RATE = 1.5
CHUNK_WORDS = 5
SEED = 20


class Summer:
    """Sums vectors over all ranks with inca-agent, through files."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.input, self.output = folder / "gradient", folder / "sum"
        self.calls = 0
        # Spent in the switches and on the wire, without starting the agent and joining.
        self.seconds = 0.0

    def sum(self, values: Floats) -> Floats:
        """The sum over all ranks."""
        self.calls += 1
        self.input.write_bytes(values.astype("<f4").tobytes())
        options = self.options
        command = [
            options.agent,
            "allreduce",
            "--controller",
            options.controller,
            "--job",
            f"{options.job}-{self.calls}",
            "--rank",
            str(options.rank),
            "--world",
            str(options.world),
            "--interface",
            options.interface,
            "--chunk-words",
            str(CHUNK_WORDS),
            "--input",
            str(self.input),
            "--output",
            str(self.output),
            "--json",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            sys.exit(f"step {self.calls}: inca-agent: exit code {done.returncode}\n{done.stderr}")
        self.seconds += json.loads(done.stdout)["seconds"]
        return np.frombuffer(self.output.read_bytes(), "<f4").copy()


def batch(data: Samples, step: int) -> Samples:
    """The step's part of a rank's samples."""
    start = step * BATCH % SAMPLES_PER_RANK
    return Samples(data.images[start : start + BATCH], data.labels[start : start + BATCH])


def train(options: argparse.Namespace, folder: Path) -> None:
    """The training loop, with the same training on exact sums beside it."""
    shards = [samples(SEED + rank, SAMPLES_PER_RANK) for rank in range(options.world)]
    everything = Samples(np.concatenate([s.images for s in shards]), np.concatenate([s.labels for s in shards]))
    network, reference = Classifier(HIDDEN, SEED), Classifier(HIDDEN, SEED)
    summer = Summer(options, folder)
    rate = RATE / options.world
    for step in range(options.steps + 1):
        report: dict[str, int | float | str] = {
            "step": step,
            "loss": network.loss(everything),
            "reference_loss": reference.loss(everything),
            "accuracy": network.accuracy(everything),
            "reduce_ms": 0.0,
            "wrong": 0,
            "elements": 0,
        }
        if step < options.steps:
            before = summer.seconds
            total = summer.sum(network.gradient(batch(shards[options.rank], step)))
            # The check alone needs the other ranks' gradients.
            inputs = [network.gradient(batch(shard, step)) for shard in shards]
            right = bfp16.allreduce(inputs, CHUNK_WORDS)
            report["wrong"] = int(np.count_nonzero(total.view(np.uint32) != right.view(np.uint32)))
            report["elements"] = len(total)
            report["reduce_ms"] = (summer.seconds - before) * 1e3
            network.step(total, rate)
            exact = np.sum([reference.gradient(batch(s, step)).astype(np.float64) for s in shards], axis=0)
            reference.step(exact.astype(np.float32), rate)
        report["digest"] = hashlib.sha256(network.parameters.tobytes()).hexdigest()
        print(json.dumps(report), flush=True)


def main() -> None:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("agent", "controller", "interface", "job"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("rank", "world", "steps"):
        parser.add_argument(f"--{name}", required=True, type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        train(options, Path(folder))
        print(f"{time.monotonic() - started:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
