"""Schemathesis against the controller's REST API: no question makes it fail, and answers are what its document says.

usage: api_schemathesis.py ADDRESS SECONDS

The stream of events has no end and is left out. What the document allows and a network does not have, a host or a job,
may be refused.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

# These two take every refusal of a well-formed question for a fault.
TOO_STRICT = "positive_data_acceptance,negative_data_rejection"
GRACE_S = 60


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    address, seconds = sys.argv[1:]
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"http://{address}/openapi.json",
        *("--checks", "all", "--exclude-checks", TOO_STRICT),
        *("--exclude-path", "/v1/events/stream"),
        *("--phases", "coverage,fuzzing,stateful"),
        *("--max-examples", "20", "--max-time", seconds, "--request-timeout", "10"),
        *("--seed", "1", "--workers", "1", "--generation-database", "none"),
        *("--continue-on-failure", "--no-shrink", "--no-color", "--warnings", "off"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, timeout=float(seconds) + GRACE_S, check=False)
    if done.returncode == 0:
        print("session complete")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
