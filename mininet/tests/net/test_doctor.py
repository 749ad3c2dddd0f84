"""The doctor names what is wrong with an interface, and how to mend it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from inca_net import doctor


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
