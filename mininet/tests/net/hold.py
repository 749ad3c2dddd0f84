"""A small network that stays up until its standard input ends; prints `up` when it is. hold.py NAME RUN_DIR"""

from __future__ import annotations

import sys
from pathlib import Path

import bridge

from inca_net import topology
from inca_net.emulation import Emulation, Settings
from inca_net.isolate import EXIT_LOCKED, LockedError, isolated

bridge.register()


def inside() -> int:
    network = topology.single("hold", [2])
    with Emulation(network, Settings(switch="bridge", controller=False, run_dir=Path(sys.argv[2]))) as emulation:
        emulation.start_job("h1", ["sleep", "1000"], "sleep")
        print("up", flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(isolated(sys.argv[1], inside, 60))
    except LockedError as error:
        print(error, file=sys.stderr)
        sys.exit(EXIT_LOCKED)
