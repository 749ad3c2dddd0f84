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
import time
from pathlib import Path

# One thread: ranks recompute each other's gradients for the check, and must get the same bits.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from inca_net import blocks  # noqa: E402
from inca_net.training import Classifier, Floats, Samples, load_digits  # noqa: E402

BATCH = 64
HIDDEN = 128
RATE = 0.5
CHUNK_WORDS = 5
SEED = 20


class Summer:
    """Sums vectors over all ranks through `inca-agent pipe`, which stays a member of the job meanwhile."""

    def __init__(self, options: argparse.Namespace) -> None:
        command = [options.agent, "pipe", "--controller", options.controller, "--job", options.job]
        command += ["--rank", str(options.rank), "--world", str(options.world), "--interface", options.interface]
        command += ["--chunk-words", str(CHUNK_WORDS), "--deadline", "30", "--format", options.format]
        command += ["--error-feedback"] if options.error_feedback else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def sum(self, values: Floats) -> Floats:
        """The sum over all ranks; ends the program if the agent has ended (it says why on stderr)."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        head = len(values).to_bytes(8, "little")
        try:
            self.process.stdin.write(head + values.astype("<f4").tobytes())
            self.process.stdin.flush()
        except BrokenPipeError:
            sys.exit(self.process.wait(10) or 1)
        reply = self.process.stdout.read(8 + 4 * len(values))
        if len(reply) < 8 + 4 * len(values) or reply[:8] != head:
            sys.exit(self.process.wait(10) or 1)
        return np.frombuffer(reply[8:], "<f4").copy()

    def leave(self) -> None:
        """Leaves the job."""
        self.process.communicate()
        if self.process.returncode != 0:
            sys.exit(self.process.returncode)


def batch(data: Samples, step: int) -> Samples:
    """The step's part of a rank's samples."""
    start = step * BATCH % max(1, len(data.labels) - BATCH + 1)
    return data.part(start, start + BATCH)


def train(options: argparse.Namespace) -> None:
    """The training loop, with the same training on exact sums beside it."""
    training, test = load_digits(Path(options.data), SEED)
    share = len(training.labels) // options.world
    shards = [training.part(rank * share, (rank + 1) * share) for rank in range(options.world)]
    network, reference = Classifier(HIDDEN, SEED), Classifier(HIDDEN, SEED)
    summer = Summer(options)
    rate = RATE / options.world
    # The formats that are checked here bit by bit; the others are by `inca-agent perf`.
    lane_bits = {"bfp8": 8, "bfp16": 16}.get(options.format)
    for step in range(options.steps + 1):
        report: dict[str, int | float | str | None] = {
            "step": step,
            "loss": network.loss(training),
            "reference_loss": reference.loss(training),
            "accuracy": network.accuracy(test),
            "reference_accuracy": reference.accuracy(test),
            "reduce_ms": 0.0,
            "wrong": 0,
            "elements": 0,
        }
        if step < options.steps:
            gradient = network.gradient(batch(shards[options.rank], step))
            started = time.monotonic()
            total = summer.sum(gradient)
            report["reduce_ms"] = (time.monotonic() - started) * 1e3
            report["wrong"] = None
            if lane_bits and not options.error_feedback:
                # The check alone needs the other ranks' gradients.
                inputs = [network.gradient(batch(shard, step)) for shard in shards]
                right = blocks.allreduce(inputs, CHUNK_WORDS, lane_bits)
                report["wrong"] = int(np.count_nonzero(total.view(np.uint32) != right.view(np.uint32)))
            report["elements"] = len(total)
            network.step(total, rate)
            exact = np.sum([reference.gradient(batch(s, step)).astype(np.float64) for s in shards], axis=0)
            reference.step(exact.astype(np.float32), rate)
        report["digest"] = hashlib.sha256(network.parameters.tobytes()).hexdigest()
        print(json.dumps(report), flush=True)
    summer.leave()


def main() -> None:
    """Parses the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("agent", "controller", "interface", "job", "data"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("rank", "world", "steps"):
        parser.add_argument(f"--{name}", required=True, type=int)
    parser.add_argument("--format", default="bfp16", help="number format on the wire (default: bfp16)")
    parser.add_argument("--error-feedback", action="store_true", help="add what the format takes to the next gradient")
    options = parser.parse_args()
    train(options)


if __name__ == "__main__":
    main()
