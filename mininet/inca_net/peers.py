"""What the sums are compared with: Open MPI and gloo, on the same hosts, over the same links and switches.

Open MPI's ranks run one on each emulated host: mpirun on the first starts a daemon on each of the others by an agent
that enters their namespaces instead of logging in by ssh. Its control traffic takes the management network, its data
the fabric.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from . import management
from .emulation import Emulation
from .experiment_file import ALGORITHMS, Job, Size
from .nodes import ROOT
from .processes import Outcome, require
from .topology import FABRIC_SUBNET

SOURCES = ROOT / "bench" / "peers"
MPI_PROGRAM = ROOT / "target" / "peers" / "mpi_allreduce"
GLOO_PROGRAM = SOURCES / "gloo_allreduce.py"

# Runs a command under a host's name (daemons of one name would share a folder), with a table of all hosts' addresses
# in place of a name server, which none of them could reach.
NAMED = """\
#!/bin/sh
name=$1
shift
exec unshare --uts --mount sh -c '
    hostname "$0"
    mount --bind {names} /etc/hosts
    mount --bind {none} /etc/resolv.conf
    exec "$@"' "$name" "$@"
"""
# Takes the place of ssh: enters the network of the host that is named.
AGENT = """\
#!/bin/sh
pid=$(sed -n "s/^$1 //p" {hosts})
name=$1
shift
exec mnexec -a "$pid" {named} "$name" sh -c "$*"
"""


def missing(kind: str) -> str:
    """Why a peer can't run here, or nothing."""
    if kind == "openmpi":
        absent = [name for name in ("mpicc", "mpirun") if shutil.which(name) is None]
        return f"{' and '.join(absent)} not found; run: make setup-bench" if absent else ""
    if kind == "gloo":
        found = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False)
        return "" if found.returncode == 0 else "python3-torch not found; run: make setup-bench"
    return ""


def build_mpi_program() -> None:
    """Compiles it where it is older than its source."""
    source = SOURCES / "allreduce.c"
    if MPI_PROGRAM.exists() and MPI_PROGRAM.stat().st_mtime > source.stat().st_mtime:
        return
    MPI_PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mpicc", "-O2", "-o", str(MPI_PROGRAM), str(source)], check=True)


def arguments(sizes: Sequence[Size]) -> list[str]:
    """As both programs take them."""
    return [f"{size.bytes}:{size.iterations}:{size.warmup}" for size in sizes]


def run_gloo(emulation: Emulation, label: str, sizes: Sequence[Size], seconds: float) -> dict[str, Any]:
    """The report of rank 0."""
    master = emulation.network.hosts[0].address
    command = [sys.executable, str(GLOO_PROGRAM), "--master", master, "--interface", "{interface}"]
    command += ["--rank", "{rank}", "--world", "{world}", *arguments(sizes)]
    outcomes = emulation.run_workers(lambda _worker: command, label, seconds)
    return report(outcomes)


def run_openmpi(emulation: Emulation, label: str, job: Job, sizes: Sequence[Size], seconds: float) -> dict[str, Any]:
    """The report of rank 0."""
    build_mpi_program()
    hosts = emulation.network.hosts
    names = "".join(f"{management.management_address(index)} {host.name}\n" for index, host in enumerate(hosts))
    files = {
        "hosts": write(emulation, "mpi-hosts", "".join(f"{h.name} {emulation.host(h.name).pid}\n" for h in hosts)),
        "names": write(emulation, "mpi-names", f"127.0.0.1 localhost\n{names}"),
        "none": write(emulation, "mpi-no-name-server", ""),
    }
    files["named"] = write(emulation, "mpi-named", NAMED.format(**files), True)
    agent = write(emulation, "mpi-agent", AGENT.format(**files), True)
    command = [files["named"], hosts[0].name, "mpirun", *options(job, agent)]
    command += ["--host", ",".join(f"{host.name}:1" for host in hosts)]
    command += ["-n", str(len(hosts)), str(MPI_PROGRAM), *arguments(sizes)]
    started = emulation.start_job(hosts[0].name, command, label, privileged=True)
    outcomes = emulation.wait([started], seconds)
    require(outcomes)
    return report(outcomes)


def write(emulation: Emulation, name: str, text: str, is_program: bool = False) -> str:
    """A file in the run's folder, as a word of a shell."""
    path = emulation.run_dir / name
    path.write_text(text)
    if is_program:
        path.chmod(0o755)
    return shlex.quote(str(path))


def options(job: Job, agent: str) -> list[str]:
    """Open MPI at its best here: ranks that wait give the core away, the algorithm is fixed, data takes the fabric."""
    settings = {
        "plm_rsh_agent": agent,
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": str(management.SUBNET),
        "btl": "tcp,self",
        "btl_tcp_if_include": str(FABRIC_SUBNET),
        "mpi_yield_when_idle": "1",
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_allreduce_algorithm": str(ALGORITHMS[job.algorithm]),
    }
    chosen = ["--allow-run-as-root", "--bind-to", "none", "--oversubscribe"]
    for name, value in settings.items():
        chosen += ["--mca", name, value]
    return chosen


def report(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """What rank 0 printed."""
    found: dict[str, Any] = outcomes[0].json()
    return found


def versions() -> dict[str, str]:
    """Of the peers that are there."""
    found = {}
    if not missing("openmpi"):
        done = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False)
        found["openmpi"] = done.stdout.splitlines()[0] if done.stdout else ""
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        found["torch (gloo)"] = done.stdout.strip()
    return found
