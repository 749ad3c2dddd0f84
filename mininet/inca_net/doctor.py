"""Says what this machine can do for emulations, and what to install or change where it can't."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .isolate import IsolationError, isolated

OK, MISSING, OPTIONAL = "ok", "missing", "absent"

PROGRAMS = {
    "mnexec": "mininet",
    "ip": "iproute2",
    "tc": "iproute2",
    "ethtool": "ethtool",
    "nft": "nftables",
    "ifconfig": "net-tools",
    "ping": "iputils-ping",
    "sysctl": "procps",
    "setpriv": "util-linux",
}
PYTHON_MODULES = {
    "mininet": "mininet",
    "yaml": "python3-yaml",
    "numpy": "python3-numpy",
    "sklearn": "python3-sklearn",
}
OPTIONAL_PROGRAMS = {
    "simple_switch_grpc": "BMv2: without it only the embedded switch runs",
    "p4c-bm2-ss": "p4c: without it p4/ can't be recompiled",
    "chromium": "apt-get install chromium: without it the controller's page is not tested",
    "tshark": "apt-get install tshark: without it the Wireshark dissector is not tested",
}


@dataclass
class Finding:
    """One thing looked at."""

    what: str
    state: str
    text: str


def why_not() -> str | None:
    """Why no emulation can run here; None if it can. Quick: looks for programs and modules only."""
    for program, package in PROGRAMS.items():
        if find_program(program) is None:
            return f"{program} not found: apt-get install {package}"
    if importlib.util.find_spec("mininet") is None or importlib.util.find_spec("mininet.net") is None:
        return f"{sys.executable} has no module mininet: apt-get install mininet, and use /usr/bin/python3"
    return None


def find_program(program: str) -> str | None:
    """Like shutil.which, also where an ordinary user's PATH does not look."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return shutil.which(program, path=path)


def run(only_can_emulate: bool, interfaces: Sequence[str] = ()) -> int:
    """Prints the findings; 0 if all is well. With interfaces: looks at those of a network of one's own instead."""
    if interfaces:
        return show([finding for interface in interfaces for finding in interface_findings(interface)])
    if only_can_emulate:
        problem = why_not() or kernel_problem()
        if problem:
            print(problem)
        return 1 if problem else 0
    return show(program_findings() + kernel_findings())


def show(findings: Sequence[Finding]) -> int:
    """Prints a table; 1 if something is missing."""
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{finding.what:<{width}}  {finding.state:<8} {finding.text}")
    return 1 if any(finding.state == MISSING for finding in findings) else 0


# What `ethtool -k` calls them, and the short name that switches each off.
HARMFUL_OFFLOADS = {
    "tx-checksumming": "tx",
    "rx-checksumming": "rx",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
}


def interface_findings(interface: str) -> list[Finding]:
    """Whether a data-plane interface is fit for a switch: offloads off, IPv6 off."""
    done = subprocess.run(["ethtool", "-k", interface], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [Finding(interface, MISSING, done.stderr.strip().splitlines()[-1])]
    on = [
        short
        for line in done.stdout.splitlines()
        for name, short in HARMFUL_OFFLOADS.items()
        if line.startswith(f"{name}: on") and "[fixed]" not in line
    ]
    findings = []
    for short in on:
        harm = "unfilled checksums" if short in ("tx", "rx") else "merged or oversized frames"
        text = f"{short} offload is on, switches see {harm}: ethtool -K {interface} {short} off"
        findings.append(Finding(interface, MISSING, text))
    if not on:
        findings.append(Finding(interface, OK, "offloads are off"))
    ipv6 = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
    if ipv6.exists() and ipv6.read_text().strip() == "0":
        text = f"IPv6 is on, router solicitations reach switches: sysctl -w net.ipv6.conf.{interface}.disable_ipv6=1"
        findings.append(Finding(interface, OPTIONAL, text))
    return findings


def p4_finding() -> Finding:
    """Whether p4/compiled/ was made from the sources beside it: their hash is kept with it."""
    script = Path(__file__).resolve().parents[2] / "p4" / "build.py"
    # Without a PATH no compiler is found, and hashes are compared alone.
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False, env={"PATH": "/nowhere"}
    )
    lines = (done.stdout + done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
    return Finding("p4/compiled", OK if done.returncode == 0 else MISSING, lines[-1])


def program_findings() -> list[Finding]:
    """What is installed."""
    findings = [p4_finding()]
    for program, package in PROGRAMS.items():
        path = find_program(program)
        findings.append(Finding(program, OK if path else MISSING, path or f"apt-get install {package}"))
    for module, package in PYTHON_MODULES.items():
        found = importlib.util.find_spec(module) is not None
        text = sys.executable if found else f"apt-get install {package}"
        findings.append(Finding(f"python {module}", OK if found else MISSING, text))
    for program, text in OPTIONAL_PROGRAMS.items():
        path = shutil.which(program)
        findings.append(Finding(program, OK if path else OPTIONAL, path or text))
    if importlib.util.find_spec("mininet") is not None:
        from .nodes import MissingProgramError, find_binary

        for name in ("inca-switch", "inca-controller", "inca-agent"):
            try:
                findings.append(Finding(name, OK, find_binary(name)))
            except MissingProgramError as error:
                findings.append(Finding(name, MISSING, str(error)))
    return findings


# Each is tried on a veth pair (dt0, dt1) in namespaces of its own.
KERNEL_TRIALS: tuple[tuple[str, str, str, str], ...] = (
    ("veth", "ip link show dt0", MISSING, "virtual Ethernet pairs"),
    ("bridge", "ip link add dtbr type bridge", MISSING, "the management network"),
    (
        "offloads off",
        "ethtool -K dt0 tso off gso off gro off lro off tx off rx off sg off",
        MISSING,
        "with offloads on, switches see merged frames and unfilled checksums",
    ),
    (
        "random loss",
        'nft \'table netdev dt { chain c { type filter hook egress device "dt0" priority 0; '
        "numgen random mod 100 < 5 counter drop; }; }'",
        OPTIONAL,
        "--loss (nftables numgen on egress)",
    ),
    (
        "port isolation",
        "nft 'table netdev du { chain c { type filter hook ingress device \"dt0\" priority 0; drop; }; }'",
        MISSING,
        "keeps fabric frames from the emulation's own kernel",
    ),
    ("rate limit", "tc qdisc add dev dt0 root tbf rate 10mbit burst 15k latency 50ms", OPTIONAL, "--rate (tbf)"),
    ("netem", "tc qdisc replace dev dt0 root netem delay 1ms", OPTIONAL, "not used: delay in experiments of your own"),
    (
        "IPv6 off",
        "sysctl -q -w net.ipv6.conf.default.disable_ipv6=1 || ! test -e /proc/sys/net/ipv6",
        MISSING,
        "router solicitations reach the switches",
    ),
)


def kernel_problem() -> str | None:
    """The first thing without which no emulation works."""
    for finding in kernel_findings():
        if finding.state == MISSING:
            return f"{finding.what}: {finding.text}"
    return None


def kernel_findings() -> list[Finding]:
    """Tries what the emulations do, in a namespace that is gone afterwards."""
    read, write = os.pipe()

    def inside() -> int:
        report = []
        pair = "ip link set lo up; ip link add name dt0 type veth peer name dt1; ip link set dt0 up"
        subprocess.run(["sh", "-c", pair], capture_output=True, check=False)
        for what, command, otherwise, text in KERNEL_TRIALS:
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
            state = OK if done.returncode == 0 else otherwise
            reason = "" if done.returncode == 0 else f" ({(done.stderr.strip().splitlines() or ['failed'])[-1]})"
            report.append(f"{what}\t{state}\t{text}{reason}")
        os.write(write, "\n".join(report).encode())
        return 0

    child = os.fork()
    # In a child: entering namespaces can't be undone.
    if child == 0:
        os._exit(_in_child(inside, write))
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return [Finding(*line.split("\t", 2)) for line in text.splitlines()]


def _in_child(inside: Callable[[], int], write: int) -> int:
    try:
        return isolated(None, inside, 30)
    except IsolationError as error:
        os.write(write, f"namespaces\t{MISSING}\t{error}".encode())
        return 1
