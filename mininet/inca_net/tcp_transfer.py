"""One TCP transfer between two hosts, checked end to end; both ends print a line of JSON.

tcp_transfer.py receive ADDRESS PORT BYTES SECONDS
tcp_transfer.py send    ADDRESS PORT BYTES SECONDS
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import sys
import time

BLOCK = 1 << 16


def pattern(size: int) -> bytes:
    """The same bytes on both ends."""
    return random.Random(size).randbytes(size)


def receive(address: str, port: int, size: int, seconds: float) -> bool:
    """Accepts one connection, compares what comes with the pattern."""
    with socket.create_server((address, port)) as server:
        server.settimeout(seconds)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(seconds)
            digest, count, started = hashlib.sha256(), 0, time.monotonic()
            while block := connection.recv(BLOCK):
                digest.update(block)
                count += len(block)
            right = count == size and digest.digest() == hashlib.sha256(pattern(size)).digest()
            connection.sendall(b"\1" if right else b"\0")
    print(json.dumps({"bytes": count, "right": right, "seconds": time.monotonic() - started}))
    return right


def send(address: str, port: int, size: int, seconds: float) -> bool:
    """Connects (the receiver may not listen yet), sends the pattern, waits for the verdict."""
    started = time.monotonic()
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=seconds)
            break
        except ConnectionRefusedError:
            if time.monotonic() - started > seconds:
                raise
            time.sleep(0.05)
    with connection:
        connection.sendall(pattern(size))
        connection.shutdown(socket.SHUT_WR)
        right = connection.recv(1) == b"\1"
    print(json.dumps({"bytes": size, "right": right, "seconds": time.monotonic() - started}))
    return right


def main() -> int:
    """Parses the arguments."""
    role, address, port, size, seconds = sys.argv[1:6]
    run = {"receive": receive, "send": send}[role]
    return 0 if run(address, int(port), int(size), float(seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
