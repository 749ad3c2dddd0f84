"""One rank of a job that sums until it is told to stop, and checks every sum. steady.py STOP_FILE COMMAND...

COMMAND is `inca-agent pipe` with its options, for i32. All ranks stop after the same sum: its first element counts the
ranks that have seen the stop file. Prints a JSON object with the rounds and the longest of them in seconds; ends with 1
at the first wrong sum.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from array import array
from pathlib import Path

ELEMENTS = 20_000


def main() -> int:
    """Sums until all stop."""
    stop, command = Path(sys.argv[1]), sys.argv[2:]
    rank, world = (int(command[command.index(option) + 1]) for option in ("--rank", "--world"))
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ)
    assert agent.stdin is not None
    assert agent.stdout is not None
    rounds, longest = 0, 0.0
    fallen = 1000 * sum(range(world))
    while True:
        started = time.monotonic()
        tensor = array("i", range(rounds + 1000 * rank, rounds + 1000 * rank + ELEMENTS))
        tensor[0] = int(stop.exists())
        agent.stdin.write(ELEMENTS.to_bytes(8, "little") + tensor.tobytes())
        agent.stdin.flush()
        answer = agent.stdout.read(8 + 4 * ELEMENTS)
        if len(answer) != 8 + 4 * ELEMENTS:
            print(f"round {rounds}: no sum; inca-agent ended with {agent.wait()}", file=sys.stderr)
            return 4
        total = array("i", answer[8:])
        first = world * rounds + fallen
        expected = array("i", range(first, first + world * ELEMENTS, world))
        expected[0] = total[0]
        if total != expected or not 0 <= total[0] <= world:
            wrong = [index for index in range(ELEMENTS) if total[index] != expected[index]]
            print(f"round {rounds}: {len(wrong)} elements wrong, first {wrong[:1]}, flag {total[0]}", file=sys.stderr)
            return 1
        rounds += 1
        longest = max(longest, time.monotonic() - started)
        if total[0]:
            break
    agent.stdin.close()
    code = agent.wait()
    print(json.dumps({"rank": rank, "rounds": rounds, "longest_seconds": round(longest, 3)}))
    return code


if __name__ == "__main__":
    sys.exit(main())
