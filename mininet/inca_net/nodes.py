"""Mininet node, link and interface classes for inca. Usable on their own from any Mininet script.

net = Mininet(switch=EmbeddedSwitch, host=FabricHost, link=FabricLink, controller=None)
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Host, Switch

from .processes import Component, ComponentError, Job

CPU_PORT = 255
# Below the range from which the kernel takes the local ports of connections: one of those may be in use by then.
FIRST_P4RUNTIME_PORT = 20001
READY_SECONDS = 20.0
UNPRIVILEGED_ID = 65534
# With segmentation or receive offloads on, a switch gets frames larger than the MTU or merged ones; with transmit
# checksum offload on, it gets frames whose checksum is not filled in.
OFFLOADS_OFF = "tso off gso off gro off lro off tx off rx off sg off"

SWITCH_BINARIES = {"bmv2": "simple_switch_grpc", "embedded": "inca-switch"}

ROOT = Path(__file__).resolve().parents[2]


class FabricIntf(Intf):
    """A data-plane interface: MTU set, offloads off, optional loss and rate on what it sends."""

    def config(
        self,
        mac: str | None = None,
        ip: str | None = None,
        ifconfig: str | None = None,
        up: bool = True,
        mtu: int = 1500,
        loss: float = 0.0,
        rate_mbit: float | None = None,
        **_params: Any,
    ) -> dict[str, Any]:
        """Called by Mininet when the interface exists, before any switch starts."""
        name = self.name
        self.run(f"ip link set dev {name} mtu {mtu}")
        self.run(f"ethtool -K {name} {OFFLOADS_OFF} >/dev/null")
        if loss > 0.0:
            self.run(f"nft '{loss_rules(name, loss)}'")
        if rate_mbit is not None:
            # A burst of a jiffy's worth of bytes, at least two frames: less can't reach the rate.
            burst = max(int(rate_mbit * 1e6 / 8 / 250), 2 * (mtu + 18))
            self.run(f"tc qdisc add dev {name} root tbf rate {rate_mbit}mbit burst {burst} latency 50ms")
        result: dict[str, Any] = super().config(mac, ip, ifconfig, up)
        return result

    def cut(self, is_cut: bool) -> None:
        """Loses all that it sends, or no longer. It stays up: a program that listens on it sees nothing of a cable."""
        if is_cut:
            self.run(f"nft '{cut_rules(self.name)}'")
        else:
            self.run(f"nft delete chain netdev inca-cut {self.name}")

    def run(self, command: str) -> None:
        """Runs a command in the node; failing is an error, unlike in Mininet."""
        output = self.cmd(f"{{ {command}\n}} 2>&1 || echo inca-failed")
        if "inca-failed" in output:
            raise ComponentError(f"interface {self.name}: {command.splitlines()[0]}: {output.strip()}")


def cut_rules(interface: str) -> str:
    """nftables rules that drop all that `interface` sends."""
    chain = f'type filter hook egress device "{interface}" priority -1; counter drop;'
    return f"table netdev inca-cut {{ chain {interface} {{ {chain} }}; }}"


def loss_rules(interface: str, loss: float) -> str:
    """nftables rules that drop what `interface` sends with probability `loss`.

    On egress, since a packet that arrives is seen by packet sockets, hence by switches, before any ingress rule.
    """
    share = round(loss * 1_000_000)
    return (
        f"table netdev inca-loss {{ chain {interface} {{ "
        f'type filter hook egress device "{interface}" priority 0; '
        f"numgen random mod 1000000 < {share} counter drop; }}; }}"
    )


class FabricLink(Link):
    """A veth pair of `FabricIntf`."""

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        # Mininet passes its own default class.
        params["intf"] = FabricIntf
        super().__init__(node1, node2, **params)


class FabricHost(Host):
    """A worker. Speaks no IPv6, so that no router solicitations reach the switches."""

    def __init__(self, name: str, **params: Any) -> None:
        super().__init__(name, **params)
        self.cmd(ipv6_off())

    def start_job(
        self, argv: Sequence[str], output: Path, label: str, env: dict[str, str] | None = None, privileged: bool = False
    ) -> Job:
        """Starts a command in the host with its output in `output`/`label`.{out,err}.

        Not privileged: as the user nobody, where the emulation itself runs as the real root and nobody can execute it.
        """
        command = ["mnexec", "-a", str(self.pid)]
        if not privileged and can_drop_privileges(argv[0]):
            command += ["setpriv", f"--reuid={UNPRIVILEGED_ID}", f"--regid={UNPRIVILEGED_ID}", "--clear-groups", "--"]
        stdout, stderr = output / f"{label}.out", output / f"{label}.err"
        with stdout.open("wb") as out, stderr.open("wb") as err:
            try:
                process = subprocess.Popen(
                    [*command, *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    env={**os.environ, "PATH": programs_path(), **(env or {})},
                )
            except OSError as error:
                raise ComponentError(f"{self.name}: can't start {argv[0]}: {error.strerror}") from None
        return Job(self.name, list(argv), process, stdout, stderr)


class FabricSwitch(Switch):
    """What both switches share: interfaces without addresses, a P4Runtime port, a log, a process."""

    kind = ""

    def __init__(
        self, name: str, device_id: int, log_dir: str | Path, extra: Sequence[str] = (), **params: Any
    ) -> None:
        # Mininet would derive a datapath id from digits in the name and fail where there are none.
        super().__init__(name, dpid=f"{device_id:x}", **params)
        self.device_id = device_id
        self.p4runtime_port = FIRST_P4RUNTIME_PORT + device_id - 1
        self.log = Path(log_dir) / f"{name}.log"
        self.extra = list(extra)
        self.component: Component | None = None

    @property
    def p4runtime_address(self) -> str:
        """Where the controller reaches it."""
        return f"127.0.0.1:{self.p4runtime_port}"

    def port_arguments(self) -> list[str]:
        """`-i PORT@INTERFACE` for every data-plane port."""
        arguments = []
        for port, interface in sorted(self.intfs.items()):
            if interface.name != "lo":
                arguments += ["-i", f"{port}@{interface.name}"]
        return arguments

    def command(self) -> list[str]:
        """The switch's command line."""
        raise NotImplementedError

    def start(self, _controllers: Any) -> None:
        """Called by Mininet once all links exist."""
        self.launch()

    def launch(self) -> None:
        """Starts the process; `wait_ready` waits for it."""
        # The kernel of the emulation's own namespace must not handle the frames as well. Packet sockets come first.
        for interface in self.intfs.values():
            if interface.name != "lo":
                subprocess.run(["nft", ingress_rules(interface.name)], check=True)
        self.component = Component.start(f"switch {self.name}", self.command(), self.log)

    def wait_ready(self) -> None:
        """Waits until P4Runtime is served."""
        if self.component is not None:
            self.component.wait_for_port(self.p4runtime_port, READY_SECONDS)

    def kill(self) -> None:
        """Ends the process without warning, as a crash would."""
        if self.component is not None:
            self.component.process.kill()
            self.component.process.wait()
            self.component = None

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 (Mininet's name)
        """Called by Mininet."""
        if self.component is not None:
            self.component.stop()
            self.component = None
        super().stop(deleteIntfs)


def ingress_rules(interface: str) -> str:
    """nftables rules that keep what arrives on a switch port from the kernel's own network stack."""
    return (
        f"table netdev inca-ports {{ chain {interface} {{ "
        f'type filter hook ingress device "{interface}" priority 0; drop; }}; }}'
    )


class Bmv2Switch(FabricSwitch):
    """BMv2's simple_switch_grpc, started without a program: the controller pushes it."""

    kind = "bmv2"

    def command(self) -> list[str]:
        return [
            find_switch("bmv2"),
            "--device-id",
            str(self.device_id),
            *self.port_arguments(),
            "--no-p4",
            "--log-console",
            "--log-level",
            "warn",
            *self.extra,
            "--",
            "--grpc-server-addr",
            self.p4runtime_address,
            "--cpu-port",
            str(CPU_PORT),
        ]


class EmbeddedSwitch(FabricSwitch):
    """The embedded switch, which runs the same compiled program."""

    kind = "embedded"

    def command(self) -> list[str]:
        return [
            find_switch("embedded"),
            "--device-id",
            str(self.device_id),
            *self.port_arguments(),
            "--p4runtime-addr",
            self.p4runtime_address,
            *self.extra,
        ]


SWITCHES: dict[str, type[FabricSwitch]] = {"bmv2": Bmv2Switch, "embedded": EmbeddedSwitch}


class MissingProgramError(RuntimeError):
    """A program that the emulation needs is not there; the message says how to get it."""


def find_switch(kind: str) -> str:
    """The path of a switch's program; empty for a kind that has none."""
    if kind not in SWITCH_BINARIES:
        return ""
    if kind == "bmv2":
        path = shutil.which(SWITCH_BINARIES[kind])
        if path is None:
            raise MissingProgramError("simple_switch_grpc not found on PATH; use SWITCH=embedded or install BMv2")
        return path
    return find_binary(SWITCH_BINARIES[kind])


def find_binary(name: str) -> str:
    """One of the project's programs: INCA_BIN_DIR, else the newer of target/release and target/debug, else PATH."""
    chosen = os.environ.get("INCA_BIN_DIR")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folders = [Path(chosen)] if chosen else [target / "release", target / "debug"]
    found = [folder / name for folder in folders if os.access(folder / name, os.X_OK)]
    if found:
        return str(max(found, key=lambda path: path.stat().st_mtime))
    path = None if chosen else shutil.which(name)
    if path is None:
        raise MissingProgramError(f"{name} not found in {', '.join(map(str, folders))}; run: make build")
    return path


def programs_path() -> str:
    """PATH with the project's programs in front, so that commands on hosts may say just `inca-agent`."""
    path = os.environ.get("PATH", os.defpath)
    try:
        return f"{Path(find_binary('inca-agent')).parent}:{path}"
    except MissingProgramError:
        return path


def ipv6_off() -> str:
    """A shell command for a fresh network namespace."""
    return "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 2>/dev/null; true"


_can_drop: dict[str, bool] = {}


def can_drop_privileges(program: str) -> bool:
    """Whether the user nobody exists here (not in a user namespace) and may execute `program`."""
    if program not in _can_drop:
        path = shutil.which(program) or program
        probe = subprocess.run(
            [
                "setpriv",
                f"--reuid={UNPRIVILEGED_ID}",
                f"--regid={UNPRIVILEGED_ID}",
                "--clear-groups",
                "--",
                "test",
                "-x",
                path,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        _can_drop[program] = probe.returncode == 0
    return _can_drop[program]
