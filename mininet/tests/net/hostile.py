"""A host that attacks a running job with reduction packets. hostile.py PLAN.json

The plan says what is known of the job and what to send. The output is a JSON object: frames sent of each kind.
"""

from __future__ import annotations

import json
import random
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONTRIBUTION, PARTIAL, RESULT, PROBE = 1, 2, 3, 4
# What a result says that comes from the parent.
PARENT_MEMBER = 0xFFFF
UDP_PORT = 18766
WORD_BYTES = 256
HEADER_BYTES = 40
OUTER_BYTES = 42
# Frames prepared of each kind.
PREPARED = 200


class Forger:
    """Makes frames that are wrong in one way and right in all others."""

    def __init__(self, plan: dict[str, Any], mac: bytes) -> None:
        self.plan = plan
        self.mac = mac
        self.random = random.Random(plan["seed"])

    def frame(self, payload: bytes, source: str | None = None, target: str | None = None) -> bytes:
        """Ethernet, IPv4 and UDP, to the leaf's service address if nothing else is said."""
        plan = self.plan
        ethernet = bytes.fromhex(plan["service_mac"].replace(":", "")) + self.mac + b"\x08\x00"
        udp = b"".join(
            x.to_bytes(2, "big") for x in (self.random.randrange(1024, 65536), UDP_PORT, 8 + len(payload), 0)
        )
        ip = bytearray.fromhex("45000000000040004011") + bytes(2)
        ip += socket.inet_aton(source or plan["source"]) + socket.inet_aton(target or plan["service"])
        ip[2:4] = (20 + len(udp) + len(payload)).to_bytes(2, "big")
        words = sum(int.from_bytes(ip[i : i + 2], "big") for i in range(0, 20, 2))
        ip[10:12] = (0xFFFF - (words % 0xFFFF)).to_bytes(2, "big")
        return ethernet + bytes(ip) + udp + payload

    def packet(self, **changes: int) -> bytes:
        """A contribution as the job's own look, but for the changes."""
        plan, draw = self.plan, self.random
        fields = {
            "version": 1,
            "opcode": CONTRIBUTION,
            "flags": 0,
            "format": plan["format"],
            "tree_id": plan["tree_id"],
            "member": plan["member"],
            "generation": plan["generation"],
            "slot": draw.randrange(plan["slots"]),
            "sequence": draw.randrange(1, 200),
            "tag": draw.randrange(1 << 32),
            "plane": 2,
            "words": plan["words"],
            "contributions": 1,
            "exp_max": 16384,
            "exp_min": 16384,
            "bias": 0,
            **changes,
        }
        sizes = (1, 1, 1, 1, 2, 2, 4, 4, 4, 4, 1, 1, 2, 2, 2, 8)
        header = b"".join(value.to_bytes(size, "big") for value, size in zip(fields.values(), sizes, strict=True))
        return header + draw.randbytes(fields["words"] * WORD_BYTES)

    def kinds(self) -> dict[str, Callable[[], bytes]]:
        """Each makes one frame; the names are the reasons for which the switch must drop it."""
        plan, draw = self.plan, self.random
        others = [member for member in range(plan["world"]) if member != plan["member"]] + [PARENT_MEMBER]

        def truncated() -> bytes:
            whole = self.frame(self.packet())
            return whole[: draw.randrange(OUTER_BYTES + HEADER_BYTES, len(whole))]

        def lying() -> bytes:
            return self.frame(self.packet() + draw.randbytes(draw.randrange(1, 200)))

        def random_bytes() -> bytes:
            # The version is never ours, so that no draw is right by chance.
            return self.frame(self.packet(version=draw.randrange(2, 256), flags=draw.randrange(256), tag=0))

        def forged() -> bytes:
            opcode = draw.choice((CONTRIBUTION, PARTIAL, PROBE))
            words = 0 if opcode == PROBE else plan["words"]
            plane = draw.randrange(2) if opcode == PARTIAL else 2
            return self.frame(self.packet(member=draw.choice(others), opcode=opcode, words=words, plane=plane))

        def result() -> bytes:
            packet = self.packet(opcode=RESULT, member=PARENT_MEMBER, contributions=plan["world"])
            return self.frame(packet, plan["service"])

        def from_the_switch() -> bytes:
            # What a host would believe if it came from its leaf.
            return self.frame(self.packet(opcode=RESULT), plan["service"], plan["victim"])

        def other_tree() -> bytes:
            return self.frame(self.packet(tree_id=(plan["tree_id"] + draw.randrange(1, 60000)) % 65536))

        everywhere = {
            "drop_parser_error": truncated,
            "drop_bad_length": lying,
            "drop_bad_version": random_bytes,
            "drop_unknown_tree": other_tree,
            "drop_forged_source": from_the_switch,
            "drop_not_admitted": lambda: draw.choice((forged, result))(),
        }
        if not plan["is_member"]:
            # Nothing is right from a port that is not a member's, whatever the packet says.
            return {**everywhere, "drop_not_admitted": lambda: self.frame(self.packet())}
        generation, slots = plan["generation"], plan["slots"]
        stale = (0, generation - 1, generation + 1, 0xFFFFFFFF)
        beyond = (slots, slots + 1, 1 << 31, 0xFFFFFFFF)
        return {
            **everywhere,
            "drop_stale_generation": lambda: self.frame(self.packet(generation=draw.choice(stale))),
            "drop_bad_slot": lambda: self.frame(self.packet(slot=draw.choice(beyond))),
            "drop_bad_format": lambda: self.frame(self.packet(format=3 - plan["format"])),
        }


def main() -> None:
    """Sends what the plan says."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    interface = plan["interface"]
    mac = bytes.fromhex(Path(f"/sys/class/net/{interface}/address").read_text().strip().replace(":", ""))
    forger = Forger(plan, mac)
    frames = {kind: [make() for _ in range(PREPARED)] for kind, make in forger.kinds().items()}
    if plan["replayed"]:
        frames["replayed"] = [bytes.fromhex(frame) for frame in plan["replayed"]]
    sent = dict.fromkeys(frames, 0)
    order = [(kind, frame) for kind, some in frames.items() for frame in some]
    forger.random.shuffle(order)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((interface, 0))
        end = time.monotonic() + plan["seconds"]
        at = 0
        while time.monotonic() < end if plan["seconds"] else at < len(order):
            for kind, frame in order[at % len(order) :][:16]:
                try:
                    raw.send(frame)
                except OSError:
                    # The device's queue is full: this one did not leave.
                    continue
                sent[kind] += 1
            at += 16
            if not plan["seconds"]:
                # Slow enough for the smallest of ingress rings.
                time.sleep(0.004)
    print(json.dumps(sent))


if __name__ == "__main__":
    main()
