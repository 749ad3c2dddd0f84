"""Captures the first bytes of all packets on the hosts' links, at the switches' ports, into a pcap file of a job.

A packet socket in a process of its own; where packets come faster than it writes, the kernel leaves some out.
"""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

# This file is also a program of its own.
if TYPE_CHECKING:
    from .emulation import Emulation

SNAP_BYTES = 128
ETH_P_ALL = 0x0003
LINKTYPE_ETHERNET = 1
READY = b"ready\n"
# Magic of microseconds, version 2.4, no time zone, snap length, link type: https://www.tcpdump.org/manpages/pcap-savefile.5.html
FILE_HEADER = struct.Struct("<IHHiIII")
PACKET_HEADER = struct.Struct("<IIII")


class Capture:
    """Context manager: captures while it is open, if `wanted`."""

    def __init__(self, emulation: Emulation, label: str, wanted: bool) -> None:
        self.interfaces = [f"{host.switch}-eth{host.port}" for host in emulation.network.hosts] if wanted else []
        self.path = emulation.run_dir / f"{label}.pcap"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Capture:
        if self.interfaces:
            argv = [sys.executable, __file__, str(self.path), *self.interfaces]
            self.process = subprocess.Popen(argv, stdout=subprocess.PIPE)
            assert self.process.stdout is not None
            self.process.stdout.readline()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(10)
            if self.process.stdout is not None:
                self.process.stdout.close()


def capture(path: Path, interfaces: set[str]) -> None:
    """Writes packets of these interfaces until a signal comes."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as source, path.open("wb") as file:
        source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        file.write(FILE_HEADER.pack(0xA1B2C3D4, 2, 4, 0, 0, SNAP_BYTES, LINKTYPE_ETHERNET))
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        buffer = bytearray(1 << 16)
        while True:
            length, _ancillary, _flags, address = source.recvmsg_into([buffer])
            if address[0] not in interfaces:
                continue
            seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
            kept = min(length, SNAP_BYTES)
            file.write(PACKET_HEADER.pack(seconds, nanoseconds // 1000, kept, length) + buffer[:kept])


def _end(_signal: int, _frame: object) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    capture(Path(sys.argv[1]), set(sys.argv[2:]))
