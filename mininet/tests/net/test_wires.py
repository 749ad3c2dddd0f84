"""The emulated wires themselves, over plain Linux bridges: what is promised about links holds whatever the switch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Start
from mininet.node import Node

from inca_net import topology
from inca_net.processes import ComponentError, JobError, require
from inca_net.topology import LinkRequest, NetworkRequest

BRIDGE = {"switch": "bridge", "controller": False}


def offloads_on(node: Node, interface: str) -> set[str]:
    """Those of the offloads that matter which are on."""
    text = node.cmd(f"ethtool -k {interface}")
    watched = {
        "rx-checksumming",
        "tx-checksumming",
        "tcp-segmentation-offload",
        "generic-segmentation-offload",
        "generic-receive-offload",
        "large-receive-offload",
    }
    return {line.split(":")[0] for line in text.splitlines() if line.split(":")[0] in watched and ": on" in line}


def dropped(text: str) -> int:
    """Packets dropped by the loss rules in nft's JSON."""
    return sum(
        part["counter"]["packets"]
        for entry in json.loads(text)["nftables"]
        if "rule" in entry
        for part in entry["rule"]["expr"]
        if isinstance(part, dict) and "counter" in part
    )


def test_offloads_are_off_on_both_ends_of_every_link(start: Start) -> None:
    emulation = start(topology.tree2("wires", [2, 1], mtu=9500), **BRIDGE)
    for node in emulation.net.hosts + emulation.net.switches:
        for interface in node.intfList():
            if "eth" in interface.name:
                assert offloads_on(node, interface.name) == set()
                assert "mtu 9500" in node.cmd(f"ip link show {interface.name}")


def test_hosts_reach_each_other_and_the_controller_address_apart(start: Start) -> None:
    emulation = start(topology.tree2("wires", [1, 1]), **BRIDGE)
    jobs = [
        emulation.start_ping("h1", "h2", 2),
        emulation.start_job("h2", ["ping", "-c", "1", "172.31.240.1"], "management"),
        *emulation.start_transfer("h2", "h1", 200_000, 10),
    ]
    require(emulation.wait(jobs, 20))


def test_no_ipv6_on_the_wire(start: Start) -> None:
    emulation = start(topology.single("wires", [2]), **BRIDGE)
    for host in emulation.net.hosts:
        assert host.cmd("ip -6 -o addr show").strip() == ""
    for switch in emulation.net.switches:
        assert switch.cmd("ip -6 -o addr show").strip() == ""


def test_commands_run_unprivileged(start: Start) -> None:
    emulation = start(topology.single("wires", [1]), **BRIDGE)
    outcome = emulation.wait([emulation.start_job("h1", ["id", "-u"], "id")], 10)[0]
    in_user_namespace = Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
    assert outcome.text().strip() == ("0" if in_user_namespace else "65534")


def test_loss_hits_both_directions_of_every_link(start: Start) -> None:
    emulation = start(topology.tree2("wires", [1, 1], loss=0.3), **BRIDGE)
    emulation.net.staticArp()
    for source, target in (("h1", "h2"), ("h2", "h1")):
        address = {host.name: host.address for host in emulation.network.hosts}[target]
        argv = ["ping", "-n", "-q", "-c", "150", "-i", "0.002", "-W", "1", address]
        emulation.wait([emulation.start_job(source, argv, "ping", True)], 20)
    rules = subprocess.run(
        ["nft", "-j", "list", "table", "netdev", "inca-loss"], capture_output=True, text=True, check=True
    )
    chains = {entry["chain"]["name"] for entry in json.loads(rules.stdout)["nftables"] if "chain" in entry}
    assert chains == {"leaf1-eth1", "leaf1-eth2", "leaf2-eth1", "leaf2-eth2", "spine1-eth1", "spine1-eth2"}
    assert dropped(rules.stdout) > 60
    for host in emulation.net.hosts:
        assert dropped(host.cmd("nft -j list table netdev inca-loss")) > 20


def test_loss_of_one_link_is_about_what_was_asked(start: Start) -> None:
    request = NetworkRequest("wires", ["s1", "s2"], [("h1", "s1"), ("h2", "s2")], [LinkRequest("s1", "s2", loss=0.2)])
    emulation = start(request.build(), **BRIDGE)
    argv = ["ping", "-n", "-q", "-c", "600", "-i", "0.002", "-W", "1", emulation.network.hosts[1].address]
    text = emulation.wait([emulation.start_job("h1", argv, "ping", True)], 30)[0].text()
    received = int(text.split(" received")[0].split()[-1])
    # Both directions: 0.8 x 0.8 of 600 = 384, standard deviation 12.
    assert 325 < received < 445


def test_rate_limits_what_a_link_carries(start: Start) -> None:
    emulation = start(topology.single("wires", [2], rate_mbit=20), **BRIDGE)
    outcomes = emulation.wait(emulation.start_transfer("h1", "h2", 2_000_000, 20), 20)
    require(outcomes)
    seconds = outcomes[0].json()["seconds"]
    # 2 MB at 20 Mbit/s take 0.8 s; the burst is free.
    assert 0.7 < seconds < 3


def test_dead_component_is_reported_with_its_log(start: Start, tmp_path: Path) -> None:
    from inca_net.processes import Component

    emulation = start(topology.single("wires", [1]), **BRIDGE)
    emulation.controller = Component.start(
        "controller", ["sh", "-c", "echo out of ideas; kill -SEGV $$"], tmp_path / "controller.log"
    )
    job = emulation.start_job("h1", ["sleep", "30"], "sleep")
    with pytest.raises(ComponentError, match=r"(?s)controller ended with signal SIGSEGV.*out of ideas"):
        emulation.wait([job], 20)
    assert job.process.poll() is not None


def test_job_over_its_limit_is_ended_and_reported(start: Start) -> None:
    emulation = start(topology.single("wires", [2]), **BRIDGE)
    slow = emulation.start_job("h1", ["sh", "-c", "echo begun; sleep 60"], "slow")
    quick = emulation.start_job("h2", ["true"], "quick")
    outcomes = emulation.wait([slow, quick], 0.5)
    assert [outcome.returncode for outcome in outcomes] == [None, 0]
    with pytest.raises(JobError, match=r"(?s)1 of 2 commands failed.*h1.*ran out of time.*begun"):
        require(outcomes)
