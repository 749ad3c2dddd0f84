"""The doctors name what is wrong, and how to mend it: the machine's, and `inca doctor`, which looks at a fabric."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Start

from inca_net import doctor, topology
from inca_net.emulation import CONTROLLER_PORT, Emulation
from inca_net.nodes import ROOT, find_binary

Findings = list[dict[str, str]]


@pytest.fixture
def interface() -> Iterator[str]:
    subprocess.run(["ip", "link", "add", "name", "doc0", "type", "veth", "peer", "name", "doc1"], check=True)
    yield "doc0"
    subprocess.run(["ip", "link", "del", "doc0"], check=True)


def test_m1_offloads_left_on_are_named_with_the_command(interface: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run(False, [interface]) == 1
    text = capsys.readouterr().out
    for offload in ("tx", "tso", "gso"):
        assert f"{offload} offload is on" in text
        assert f"ethtool -K doc0 {offload} off" in text


def test_interface_as_the_doctor_wants_it_is_well(interface: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        "ethtool -K doc0 tso off gso off gro off lro off tx off rx off",
        "sysctl -q -w net.ipv6.conf.doc0.disable_ipv6=1",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)
    assert doctor.run(False, [interface]) == 0
    assert "offloads are off" in capsys.readouterr().out


def test_absent_interface_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run(False, ["nowhere0"]) == 1
    assert "nowhere0" in capsys.readouterr().out


def inca_doctor(*options: str) -> Findings:
    """What `inca doctor` finds beside the controller."""
    argv = [find_binary("inca"), "doctor", "--controller", f"127.0.0.1:{CONTROLLER_PORT}", "--json", *options]
    return judged(subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout)


def on_host(emulation: Emulation, host: str, *options: str) -> Findings:
    """What it finds on a host, without the controller."""
    argv = [find_binary("inca"), "doctor", "--local", "--json", *options]
    (outcome,) = emulation.wait([emulation.start_job(host, argv, "doctor", True)], 60)
    return judged(outcome.text())


def judged(text: str) -> Findings:
    findings: Findings = json.loads(text)
    assert all(finding["what"] and finding["remedy"] for finding in findings)
    return findings


def test_inca_doctor_finds_nothing_in_a_healthy_fabric(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("well", [1, 1]), switch=kind)
    others = ",".join(host.address for host in emulation.network.hosts)
    assert inca_doctor("--switches") == []
    assert on_host(emulation, "h1", "--interface", "h1-eth0", "--host", others) == []


def test_inca_doctor_finds_switches_that_are_dead_or_have_another_program(start: Start, tmp_path: Path) -> None:
    compiled = ROOT / "p4" / "compiled"
    other = tmp_path / "other.json"
    other.write_text((compiled / "inca.json").read_text() + "\n")
    pipeline = {"json": str(other), "p4info": str(compiled / "inca.p4info.txtpb")}
    emulation = start(topology.tree2("ill", [1, 1]), switch="embedded", inventory={"pipeline": pipeline})
    found = inca_doctor("--switches")
    assert len(found) == 3
    assert all("holds another program" in finding["what"] for finding in found)
    emulation.switch("leaf2").kill()
    emulation.wait_status(lambda status: any(switch["state"] != "ready" for switch in status["switches"]), 20)
    texts = [finding["what"] for finding in inca_doctor("--switches")]
    assert any(text.startswith("switch leaf2: unreachable") for text in texts), texts
    assert any("switch leaf2: P4Runtime at" in text and "does not answer" in text for text in texts), texts


def test_inca_doctor_finds_narrow_and_broken_paths(start: Start) -> None:
    emulation = start(topology.tree2("paths", [2, 1], mtu=9000), switch="embedded")
    near, far = (emulation.network.hosts[rank].address for rank in (1, 2))
    assert on_host(emulation, "h1", "--interface", "h1-eth0", "--host", f"{near},{far}") == []
    # One end of the link to the spine is narrower.
    link = emulation.switch("spine1").connectionsTo(emulation.switch("leaf2"))[0]
    for interface in link:
        subprocess.run(["ip", "link", "set", interface.name, "mtu", "1500"], check=True)
    (narrow,) = on_host(emulation, "h1", "--interface", "h1-eth0", "--host", f"{near},{far}")
    assert narrow["what"] == f"the path to host {far} carries packets of 1500 bytes, h1-eth0 has an MTU of 9000"
    assert "at most 5 words get through, not 32" in narrow["remedy"]
    emulation.cut_link("spine1", "leaf2", True)
    # The leaf without a link is another finding, as soon as the controller has noticed.
    broken = [finding["what"] for finding in on_host(emulation, "h1", "--host", f"{near},{far}")]
    assert f"host {far} is not reached by h1-eth0" in broken


def test_inca_doctor_finds_offloads_and_stale_namespaces(interface: str) -> None:
    subprocess.run("mount -t tmpfs none /run && ip netns add forgotten", shell=True, check=True)
    try:
        argv = [find_binary("inca"), "doctor", "--local", "--json", "--interface", interface]
        found = judged(subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout)
    finally:
        subprocess.run("ip netns del forgotten; umount -l /run", shell=True, check=True)
    texts = {finding["what"]: finding["remedy"] for finding in found}
    offloads = next(text for text in texts if "offloads are on" in text)
    assert texts["network namespace forgotten has no process"].startswith("ip netns del forgotten")
    # The remedies help.
    subprocess.run(texts[offloads].split(), check=True, capture_output=True)
    for text, remedy in texts.items():
        if "IPv6" in text or "is down" in text:
            subprocess.run(remedy.split(), check=True, capture_output=True)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (judged(done.stdout), done.returncode) == ([], 0)
