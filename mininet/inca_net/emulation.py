"""A running emulated network: switches, hosts, management bridge and controller, and what can be done with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from mininet.log import setLogLevel
from mininet.net import Mininet

from . import management
from .nodes import (
    SWITCHES,
    FabricHost,
    FabricLink,
    FabricSwitch,
    MissingProgramError,
    find_binary,
    find_switch,
    ipv6_off,
)
from .processes import POLL_SECONDS, Component, ComponentError, Job, Outcome, require, wait_jobs
from .topology import HostSpec, Network, SwitchSpec

CONTROLLER_PORT = 9559
READY_SECONDS = 40.0
HERE = Path(__file__).resolve().parent
PING_INTERVAL = 0.2


@dataclass(frozen=True)
class Settings:
    """How to run a network: everything that is not its shape."""

    switch: str = "embedded"
    run_dir: Path = Path("target/net")
    # Who loses packets: "kernel" (nftables, any switch) or "switch" (the embedded switch's own, seeded).
    loss_by: str = "kernel"
    seed: int = 1
    controller: bool = True
    controller_args: tuple[str, ...] = ()
    privileged_hosts: bool = False
    # Further sections of the controller's inventory, such as {"trees": {"stripes": 2}}.
    inventory: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raises ValueError for a contradiction, MissingProgramError for a program that is not there."""
        if self.switch not in SWITCHES:
            raise ValueError(f"switch '{self.switch}': {' or '.join(SWITCHES)} is valid")
        if self.loss_by not in ("kernel", "switch"):
            raise ValueError(f"loss by '{self.loss_by}': kernel or switch is valid")
        if self.loss_by == "switch" and self.switch != "embedded":
            raise ValueError(f"loss by switch: {self.switch} has no loss of its own, use kernel")
        find_switch(self.switch)
        if self.controller:
            find_binary("inca-controller")


@dataclass(frozen=True)
class Worker:
    """A host in its role as a rank, with what a command on it needs to know."""

    rank: int
    world: int
    host: HostSpec
    controller: str

    def fill(self, argv: Sequence[str]) -> list[str]:
        """Replaces {rank}, {world}, {host}, {interface}, {address} and {controller} in each argument."""
        values = {
            "rank": str(self.rank),
            "world": str(self.world),
            "host": self.host.name,
            "interface": self.host.interface,
            "address": self.host.address,
            "controller": self.controller,
        }
        filled = []
        for argument in argv:
            for key, value in values.items():
                argument = argument.replace("{" + key + "}", value)
            filled.append(argument)
        return filled


class Emulation:
    """Context manager: the network is up inside, gone after. Must run isolated (see `isolate`)."""

    def __init__(self, network: Network, settings: Settings) -> None:
        self.network = network
        self.settings = settings
        self.run_dir = settings.run_dir.resolve()
        self.controller: Component | None = None
        self.controller_port = CONTROLLER_PORT
        # From starting the controller to its knowing all switches, links and hosts.
        self.discovery_seconds = 0.0
        self._net: Mininet | None = None
        self._jobs = 0

    def __enter__(self) -> Emulation:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def controller_url(self) -> str:
        """Where hosts reach the northbound API."""
        return f"http://{management.CONTROLLER_ADDRESS}:{self.controller_port}"

    @property
    def workers(self) -> list[Worker]:
        """Every host as a rank, in order."""
        hosts = self.network.hosts
        return [Worker(rank, len(hosts), host, self.controller_url) for rank, host in enumerate(hosts)]

    @property
    def store(self) -> Path:
        """Where the controller remembers what the next one must know."""
        return self.run_dir / "controller.redb"

    @property
    def net(self) -> Mininet:
        """The Mininet underneath, for its command line and for scripts."""
        if self._net is None:
            raise RuntimeError("the emulation is not running")
        return self._net

    def host(self, name: str) -> FabricHost:
        """A host's Mininet node."""
        return self.net.nameToNode[name]  # type: ignore[no-any-return]

    def switch(self, name: str) -> FabricSwitch:
        """A switch's Mininet node."""
        return self.net.nameToNode[name]  # type: ignore[no-any-return]

    @property
    def switches(self) -> list[FabricSwitch]:
        """All switches' Mininet nodes."""
        return [self.switch(spec.name) for spec in self.network.switches]

    # Start and stop

    def start(self) -> None:
        """Builds the network, starts the switches and the controller and waits until they are ready."""
        if os.getpid() != 1:
            raise RuntimeError("an emulation must run in its own namespaces: use inca_net.isolate.isolated")
        self.settings.check()
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.store.unlink(missing_ok=True)
        self._build()
        for switch in self.switches:
            switch.start([])
        for switch in self.switches:
            switch.wait_ready()
        if self.settings.controller:
            started = time.monotonic()
            self.start_controller()
            self.wait_ready()
            self.discovery_seconds = time.monotonic() - started

    def stop(self) -> None:
        """Ends everything; safe to call twice."""
        if self.controller is not None:
            self.controller.stop()
            self.controller = None
        if self._net is not None:
            for switch in self._net.switches:
                if switch.component is not None:
                    switch.component.stop()
                    switch.component = None
            self._net.stop()
            self._net = None
        management.remove()
        subprocess.run(["nft", "flush", "ruleset"], check=False, capture_output=True)

    def _build(self) -> None:
        subprocess.run(["sh", "-c", f"ip link set lo up; {ipv6_off()}"], check=True)
        # Mininet would raise limits and system-wide settings on first use, outside of our namespaces too.
        Mininet.inited = True
        setLogLevel("output")
        spec = self.network
        net = Mininet(host=FabricHost, link=FabricLink, controller=None, build=False)
        self._net = net
        for switch in spec.switches:
            net.addSwitch(
                switch.name,
                cls=SWITCHES[self.settings.switch],
                device_id=switch.device_id,
                log_dir=self.run_dir,
                extra=self._loss_arguments(switch),
            )
        for host in spec.hosts:
            net.addHost(host.name, ip=f"{host.address}/8", mac=host_mac(host.address))
        for link in spec.links:
            self._link(link.a, link.a_port, link.b, link.b_port, link.loss, link.rate_mbit)
        for host in spec.hosts:
            self._link(host.name, 0, host.switch, host.port, None, None)
        net.build()
        management.build([self.host(host.name) for host in spec.hosts])

    def _link(self, a: str, a_port: int, b: str, b_port: int, loss: float | None, rate_mbit: float | None) -> None:
        spec = self.network
        probability = spec.loss if loss is None else loss
        self.net.addLink(
            a,
            b,
            port1=a_port,
            port2=b_port,
            mtu=spec.mtu,
            loss=probability if self.settings.loss_by == "kernel" else 0.0,
            rate_mbit=spec.rate_mbit if rate_mbit is None else rate_mbit,
        )

    def _loss_arguments(self, switch: SwitchSpec) -> list[str]:
        """Options that make the embedded switch lose packets as the kernel would: each direction of each link once."""
        spec = self.network
        if self.settings.loss_by != "switch":
            return []
        losses: list[tuple[int, str, float]] = []
        for link in spec.links:
            loss = spec.loss if link.loss is None else link.loss
            losses += [
                (port, "tx", loss) for end, port in ((link.a, link.a_port), (link.b, link.b_port)) if end == switch.name
            ]
        for host in spec.hosts:
            if host.switch == switch.name:
                losses += [(host.port, direction, spec.loss) for direction in ("rx", "tx")]
        arguments = ["--loss-seed", str(self.settings.seed + switch.device_id)]
        for port, direction, loss in losses:
            if loss > 0.0:
                arguments += ["--loss-port", f"{port}:{direction}:{loss}"]
        return arguments

    def inventory(self) -> str:
        """The controller's list of switches, as YAML (JSON is YAML too)."""
        switches = [
            {
                "name": switch.name,
                "device_id": switch.device_id,
                "target": self.switch(switch.name).p4runtime_address,
                "ports": self.network.ports(switch.name),
            }
            for switch in self.network.switches
        ]
        return json.dumps({"switches": switches, **self.settings.inventory}, indent=2) + "\n"

    def start_controller(self) -> None:
        """Starts the controller (again)."""
        self.controller = self.launch_controller("controller", CONTROLLER_PORT)

    def launch_controller(self, name: str, port: int, *arguments: str) -> Component:
        """Starts a controller that uses the emulation's store, beside whatever others there are."""
        inventory = self.run_dir / "inventory.yaml"
        inventory.write_text(self.inventory())
        argv = [
            find_binary("inca-controller"),
            "--inventory",
            str(inventory),
            "--listen",
            f"0.0.0.0:{port}",
            "--store",
            str(self.store),
            *self.settings.controller_args,
            *arguments,
        ]
        controller = Component.start(name, argv, self.run_dir / f"{name}.log")
        controller.wait_for_port(port, READY_SECONDS)
        return controller

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Waits until the controller knows all switches, links and hosts; hosts announce themselves meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            self.check_alive()
            missing = self._missing(self.status())
            if not missing:
                return
            if time.monotonic() > deadline:
                log = self.controller.log if self.controller else None
                raise ComponentError(f"controller: after {seconds:.0f} s still missing {missing}; see {log}")
            if missing.startswith("host"):
                self.announce()
            time.sleep(0.1)

    def _missing(self, status: dict[str, Any]) -> str:
        states = {switch["name"]: switch["state"] for switch in status["switches"]}
        for switch in self.network.switches:
            if states.get(switch.name) != "ready":
                return f"switch {switch.name}: {states.get(switch.name, 'unknown')}"
        links = {(link["from_switch"], link["from_port"]) for link in status["links"]}
        for link in self.network.links:
            for end in ((link.a, link.a_port), (link.b, link.b_port)):
                if end not in links:
                    return f"link at {end[0]} port {end[1]}"
        hosts = {host["address"] for host in status["hosts"]}
        for host in self.network.hosts:
            if host.address not in hosts:
                return f"host {host.name} ({host.address})"
        return ""

    def announce(self) -> None:
        """Every host sends a gratuitous ARP."""
        script = str(HERE / "announce.py")
        jobs = [
            self.start_job(host.name, [sys.executable, script, host.interface, host.address], "announce", True)
            for host in self.network.hosts
        ]
        require(wait_jobs(jobs, 10.0, self.check_alive))

    def check_alive(self) -> None:
        """Raises if a switch or the controller has died."""
        if self._net is not None:
            for switch in self._net.switches:
                if switch.component is not None:
                    switch.component.check()
        if self.controller is not None:
            self.controller.check()

    # What can be done with it

    def status(self, counters: bool = False) -> dict[str, Any]:
        """The controller's view."""
        argv = [
            find_binary("inca-controller"),
            "status",
            "--controller",
            f"127.0.0.1:{self.controller_port}",
            "--json",
        ]
        if counters:
            argv.append("--counters")
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
        if done.returncode != 0:
            self.check_alive()
            raise ComponentError(f"inca-controller status: {done.stderr.strip()}")
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def wait_status(self, condition: Callable[[dict[str, Any]], bool], seconds: float) -> None:
        """Waits until the controller's view satisfies `condition`."""
        deadline = time.monotonic() + seconds
        while not condition(self.status()):
            if time.monotonic() > deadline:
                raise ComponentError(f"controller: not as awaited after {seconds:.0f} s: {json.dumps(self.status())}")
            time.sleep(0.05)

    def pause(self, seconds: float) -> None:
        """Lets time pass; raises if a component dies meanwhile."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check_alive()
            time.sleep(POLL_SECONDS)

    def start_job(
        self,
        host: str,
        argv: Sequence[str],
        label: str,
        privileged: bool | None = None,
        env: dict[str, str] | None = None,
    ) -> Job:
        """Starts a command on a host; its output goes to a numbered file in the run directory."""
        self._jobs += 1
        folder = self.run_dir / "jobs"
        folder.mkdir(exist_ok=True)
        return self.host(host).start_job(
            argv,
            folder,
            f"{self._jobs:04}-{label}-{host}",
            env,
            self.settings.privileged_hosts if privileged is None else privileged,
        )

    def start_workers(
        self,
        command: Callable[[Worker], Sequence[str]],
        label: str,
        env: dict[str, str] | None = None,
        ranks: Sequence[int] | None = None,
    ) -> list[Job]:
        """Starts `command(worker)` on every host (or on some ranks) at once."""
        workers = self.workers if ranks is None else [self.workers[rank] for rank in ranks]
        return [self.start_job(w.host.name, w.fill(command(w)), label, env=env) for w in workers]

    def wait(self, jobs: Sequence[Job], time_limit: float) -> list[Outcome]:
        """Waits for jobs; raises `ComponentError` if a component died, ends jobs at the limit."""
        return wait_jobs(jobs, time_limit, self.check_alive)

    def run_workers(
        self,
        command: Callable[[Worker], Sequence[str]],
        label: str,
        time_limit: float,
        env: dict[str, str] | None = None,
    ) -> list[Outcome]:
        """Runs `command(worker)` on every host at once; raises `JobError` if one fails."""
        outcomes = self.wait(self.start_workers(command, label, env), time_limit)
        require(outcomes)
        return outcomes

    def start_ping(self, source: str, target: str, count: int = 5) -> Job:
        """Starts a ping from one host to another's data-plane address."""
        address = self._address(target)
        argv = ["ping", "-n", "-c", str(count), "-i", str(PING_INTERVAL), "-W", "2", address]
        return self.start_job(source, argv, "ping", True)

    def start_transfer(self, source: str, target: str, size: int, seconds: float, port: int = 5001) -> list[Job]:
        """Starts a checked TCP transfer of `size` bytes; both ends must end with 0."""
        script, address = str(HERE / "tcp_transfer.py"), self._address(target)
        rest = [address, str(port), str(size), str(seconds)]
        return [
            self.start_job(target, [sys.executable, script, "receive", *rest], "tcp-receive"),
            self.start_job(source, [sys.executable, script, "send", *rest], "tcp-send"),
        ]

    def set_link(self, a: str, b: str, up: bool) -> None:
        """Takes a link (both its ends) down or up."""
        self.net.configLinkStatus(a, b, "up" if up else "down")

    def cut_link(self, a: str, b: str, is_cut: bool) -> None:
        """Cuts the cable between two nodes, or mends it; the interfaces at its ends stay up.

        BMv2 hears nothing on any of its ports while one of its interfaces is down, so `set_link` breaks more than a
        link there.
        """
        ends = self.net.nameToNode[a].connectionsTo(self.net.nameToNode[b])
        for interface in (interface for pair in ends for interface in pair):
            interface.cut(is_cut)

    def _address(self, host: str) -> str:
        for spec in self.network.hosts:
            if spec.name == host:
                return spec.address
        raise KeyError(f"no host '{host}'")


def host_mac(address: str) -> str:
    """A locally administered MAC that shows the address."""
    return "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))


__all__ = ["Emulation", "MissingProgramError", "Settings", "Worker", "host_mac"]
