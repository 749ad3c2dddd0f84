"""One rank of a soak: sums tensor after tensor through one `inca-agent pipe`, and compares every element.

Elements are whole numbers so small that every format of 16 bits or more holds their sums, so what must come is known
without a model. Tensors change from one operation to the next: a result that is late can't pass for the right one. The
first element is each rank's wish to end; all end after the operation in which one wished so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

TENSORS = 4
LARGEST = 100


def tensor(kind: int, rank: int, count: int) -> Any:
    """What a rank brings."""
    values = np.random.default_rng([kind, rank]).integers(-LARGEST, LARGEST + 1, count).astype("<f4")
    values[0] = 0
    return values


def main() -> None:
    """Sums until the time is over; the last line is a report in JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rank", "world", "count"):
        parser.add_argument(f"--{name}", required=True, type=int)
    parser.add_argument("--seconds", required=True, type=float)
    parser.add_argument("--times", action="store_true", help="report when each operation ended, on the machine's clock")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    agent = subprocess.Popen(options.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    print(json.dumps({"agent": agent.pid}), flush=True)
    mine = [tensor(kind, options.rank, options.count) for kind in range(TENSORS)]
    right = []
    for kind in range(TENSORS):
        sums = np.zeros(options.count, "<f4")
        for rank in range(options.world):
            sums += tensor(kind, rank, options.count)
        right.append(sums)
    head = options.count.to_bytes(8, "little")
    wrong = operations = 0
    times = []
    started = time.monotonic()
    ended = False
    while not ended:
        kind = operations % TENSORS
        values = mine[kind]
        values[0] = time.monotonic() - started >= options.seconds
        try:
            agent.stdin.write(head + values.tobytes())
            agent.stdin.flush()
        except BrokenPipeError:
            sys.exit(agent.wait(10) or 1)
        reply = agent.stdout.read(8 + 4 * options.count)
        if len(reply) != 8 + 4 * options.count or reply[:8] != head:
            sys.exit(agent.wait(10) or 1)
        sums = np.frombuffer(reply, "<f4", offset=8)
        ended = bool(sums[0] > 0)
        wrong += int(np.count_nonzero(sums[1:] != right[kind][1:]))
        operations += 1
        if options.times:
            times.append(round(time.monotonic(), 6))
    seconds = time.monotonic() - started
    agent.communicate()
    report = {"operations": operations, "wrong": wrong, "seconds": seconds}
    print(json.dumps({**report, "ended": times} if options.times else report))
    sys.exit(agent.returncode)


if __name__ == "__main__":
    main()
