"""Sends one gratuitous ARP: the switches hand it to the controller, which learns where the host is attached.

Run inside a host: announce.py INTERFACE ADDRESS
"""

from __future__ import annotations

import errno
import socket
import sys
from pathlib import Path

ETHERTYPE_ARP = 0x0806
BROADCAST = b"\xff" * 6


def gratuitous_arp(mac: bytes, address: bytes) -> bytes:
    """An Ethernet frame (RFC 826, RFC 5227: announcement)."""
    arp = b"\x00\x01\x08\x00\x06\x04\x00\x01" + mac + address + bytes(6) + address
    return (BROADCAST + mac + ETHERTYPE_ARP.to_bytes(2, "big") + arp).ljust(60, b"\0")


def main() -> None:
    """Sends it."""
    interface, address = sys.argv[1:3]
    mac = bytes.fromhex(Path(f"/sys/class/net/{interface}/address").read_text().strip().replace(":", ""))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((interface, ETHERTYPE_ARP))
        try:
            raw.send(gratuitous_arp(mac, socket.inet_aton(address)))
        except OSError as error:
            # Emulated loss on the way out is told to the sender, unlike loss elsewhere.
            if error.errno != errno.ENOBUFS:
                raise


if __name__ == "__main__":
    main()
