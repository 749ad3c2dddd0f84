"""A plain Linux bridge as a switch: tests of the emulation itself need no programmable switch."""

from __future__ import annotations

from typing import Any

from inca_net.nodes import SWITCHES, FabricSwitch


class BridgeSwitch(FabricSwitch):
    """Same interfaces, offloads, loss and rates as the real ones, forwarding by the kernel."""

    kind = "bridge"

    def start(self, _controllers: Any) -> None:
        self.cmd(f"ip link add {self.name} type bridge && ip link set {self.name} up")
        for interface in self.intfs.values():
            if interface.name != "lo":
                self.cmd(f"ip link set {interface.name} master {self.name}")

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803
        self.cmd(f"ip link del {self.name}")
        super().stop(deleteIntfs)


def register() -> None:
    """Makes `switch="bridge"` valid."""
    SWITCHES["bridge"] = BridgeSwitch
