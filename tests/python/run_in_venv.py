"""Run a script in a virtual environment of its own, made on first use and kept under target/venvs.

usage: run_in_venv.py REQUIREMENTS SCRIPT [ARGUMENT ...]

The environment is named after the requirements file and a hash of its content, so a changed pin makes a new one.
Exits with the script's status, or with 77 and a line that starts with "skipped:" if the packages can't be installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

SKIPPED = 77
INSTALL_TIMEOUT_S = 300
VENVS = Path(__file__).resolve().parents[2] / "target" / "venvs"


class SkipError(Exception):
    """The environment can't be made on this machine."""


def environment(requirements: Path) -> Path:
    """Return the interpreter of the environment for these requirements, making it if needed."""
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = VENVS / f"{requirements.stem}-{digest}"
    python = home / "bin" / "python"
    VENVS.mkdir(parents=True, exist_ok=True)
    with (VENVS / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (home / "complete").exists():
            return python
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise SkipError(f"pip took more than {INSTALL_TIMEOUT_S} s to install {requirements.name}") from error
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise SkipError(f"pip can't install {requirements.name}: {lines[-1]}")
        (home / "complete").touch()
    return python


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    requirements, script, *arguments = sys.argv[1:]
    try:
        python = environment(Path(requirements))
    except SkipError as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: no virtual environment: {error}")
        return SKIPPED
    sys.stdout.flush()
    os.execv(python, [str(python), script, *arguments])


if __name__ == "__main__":
    sys.exit(main())
