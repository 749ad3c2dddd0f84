"""What figures depend on besides the program: machine, versions, build flags, load."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from . import peers
from .nodes import ROOT, SWITCH_BINARIES, MissingProgramError, find_binary, find_switch


def describe() -> dict[str, Any]:
    """All of it, as JSON takes it."""
    return {
        "time": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "cpu": first_match(Path("/proc/cpuinfo"), r"model name\s*: (.*)"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_kib": int(first_match(Path("/proc/meminfo"), r"MemTotal:\s*(\d+)") or 0),
        "kernel": platform.release(),
        "system": first_match(Path("/etc/os-release"), r'PRETTY_NAME="?([^"\n]*)'),
        "load_average": list(os.getloadavg()),
        "python": platform.python_version(),
        "commit": output(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
        "versions": {**switch_versions(), **peers.versions()},
        "build": build_flags(),
    }


def first_match(path: Path, pattern: str) -> str:
    """The first group of the first match in a file, or nothing."""
    try:
        found = re.search(pattern, path.read_text())
    except OSError:
        return ""
    return found[1].strip() if found else ""


def output(argv: list[str]) -> str:
    """The first line that a command prints, or nothing where it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else ""


def switch_versions() -> dict[str, str]:
    """Of the switches that are there."""
    found = {}
    for kind in SWITCH_BINARIES:
        try:
            found[kind] = output([find_switch(kind), "--version"])
        except MissingProgramError:
            continue
    return found


def build_flags() -> dict[str, str]:
    """How the programs were built, as far as that can be told."""
    try:
        profile = Path(find_binary("inca-switch")).parent.name
    except MissingProgramError:
        profile = "not built"
    return {
        "profile": profile,
        "rustc": output(["rustc", "--version"]),
        "RUSTFLAGS": os.environ.get("RUSTFLAGS", ""),
        "mpi_program": "mpicc -O2",
    }


def line(machine: dict[str, Any]) -> str:
    """In one line for people."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    load = " ".join(f"{value:.2f}" for value in machine["load_average"])
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Linux {machine['kernel']}; "
        f"{machine['build']['profile']} build at {machine['commit']}, {machine['build']['rustc']}; {versions}; "
        f"load {load} at {machine['time']}"
    )
