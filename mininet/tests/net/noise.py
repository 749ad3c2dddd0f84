"""What other systems put on a wire: router solicitations, mDNS, spanning tree, LLDP of their own. noise.py INTERFACE"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

FRAMES_OF_EACH = 50


def frames(mac: bytes) -> list[bytes]:
    """One of each kind, from this MAC address."""
    link_local = bytes.fromhex("fe80000000000000") + bytes(5) + mac[3:]
    all_routers = bytes.fromhex("ff020000000000000000000000000002")
    solicitation = bytes([133, 0, 0, 0, 0, 0, 0, 0])
    ipv6 = bytes([0x60, 0, 0, 0, 0, len(solicitation), 58, 255]) + link_local + all_routers + solicitation
    mdns_payload = bytes.fromhex("0000000000010000000000000b5f6d79736572766963650000ff0001")
    udp = (5353).to_bytes(2, "big") * 2 + (8 + len(mdns_payload)).to_bytes(2, "big") + bytes(2) + mdns_payload
    ipv4 = bytearray.fromhex("45000000000040000111") + bytes(2) + bytes([192, 0, 2, 77, 224, 0, 0, 251])
    ipv4[2:4] = (20 + len(udp)).to_bytes(2, "big")
    words = sum(int.from_bytes(ipv4[i : i + 2], "big") for i in range(0, 20, 2))
    ipv4[10:12] = (0xFFFF - (words % 0xFFFF)).to_bytes(2, "big")
    lldp = bytes.fromhex("020704") + mac + bytes.fromhex("040307") + b"p1" + bytes.fromhex("06020078") + bytes(2)
    spanning_tree = bytes.fromhex("0026424203000000000000000000000000000000000000000000000000")
    return [
        bytes.fromhex("333300000002") + mac + bytes.fromhex("86dd") + ipv6,
        bytes.fromhex("01005e0000fb") + mac + bytes.fromhex("0800") + bytes(ipv4) + udp,
        bytes.fromhex("0180c200000e") + mac + bytes.fromhex("88cc") + lldp,
        bytes.fromhex("0180c2000000") + mac + spanning_tree,
    ]


def main() -> None:
    """Sends them, spread over about a second."""
    interface = sys.argv[1]
    mac = bytes.fromhex(Path(f"/sys/class/net/{interface}/address").read_text().strip().replace(":", ""))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((interface, 0))
        for _ in range(FRAMES_OF_EACH):
            for frame in frames(mac):
                raw.send(frame.ljust(60, b"\0"))
            time.sleep(0.02)


if __name__ == "__main__":
    main()
