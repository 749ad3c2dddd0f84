"""Hosts that send forged, truncated, replayed and random reduction packets while a job runs.

The sums stay exact, every packet that is dropped is counted under its reason, and nothing ends.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from conftest import Start

from inca_net import topology
from inca_net.emulation import Emulation, Worker
from inca_net.jobs import agent_command
from inca_net.processes import Job, Outcome, require

HOSTILE, STEADY = (str(Path(__file__).with_name(name)) for name in ("hostile.py", "steady.py"))
FLOOD_SECONDS = 3.0
# Reasons that no packet of the job itself is ever dropped for.
REASONS = (
    "drop_parser_error",
    "drop_bad_length",
    "drop_bad_version",
    "drop_unknown_tree",
    "drop_forged_source",
    "drop_stale_generation",
    "drop_bad_slot",
    "drop_bad_format",
    "drop_not_admitted",
)
SLOTS, WORDS, FORMAT_I32 = 16, 5, 1
# h1, h2 and h4 are the job; h3, at h1's and h2's leaf, is a stranger.
RANKS = ("h1", "h2", "h4")


def start_rank(emulation: Emulation, rank: int, stop: Path) -> Job:
    spec = next(host for host in emulation.network.hosts if host.name == RANKS[rank])
    worker = Worker(rank, len(RANKS), spec, emulation.controller_url)
    pipe = agent_command("pipe", "target", ["--dtype", "i32", "--deadline", "60"], json=False)
    return emulation.start_job(spec.name, worker.fill([sys.executable, STEADY, str(stop), *pipe]), "target")


def capture(interface: str, seconds: float) -> list[str]:
    """Contributions that come in by a switch's port, as hexadecimal digits."""
    frames = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as raw:
        raw.bind((interface, 0))
        raw.settimeout(seconds)
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(frames) < 100:
            try:
                frame = raw.recv(2000)
            except TimeoutError:
                break
            if len(frame) > 82 and frame[36:38] == (18766).to_bytes(2, "big") and frame[42:44] == b"\x01\x01":
                frames.append(frame.hex())
    assert frames, f"no contribution seen at {interface}"
    return frames


def counters(emulation: Emulation, switch: str) -> Counter[str]:
    found = next(one for one in emulation.status(counters=True)["switches"] if one["name"] == switch)
    return Counter({name: int(count) for name, count in found["counters"].items()})


def attack(emulation: Emulation, host: str, plan: dict[str, Any], label: str) -> Job:
    spec = next(spec for spec in emulation.network.hosts if spec.name == host)
    path = emulation.run_dir / f"{label}-{host}.json"
    path.write_text(json.dumps({**plan, "interface": spec.interface, "source": spec.address}))
    return emulation.start_job(host, [sys.executable, HOSTILE, str(path)], label, True)


def sent(outcomes: list[Outcome]) -> Counter[str]:
    require(outcomes)
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total += Counter(outcome.json())
    return total


def test_hostile_hosts_change_nothing_and_every_drop_is_counted(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [3, 1]), switch=kind)
    stop = emulation.run_dir / "stop"
    stop.unlink(missing_ok=True)
    ranks = [start_rank(emulation, rank, stop) for rank in range(3)]
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    job = next(job for job in emulation.status()["jobs"] if job["state"] == "running")
    port = {host.name: host.port for host in emulation.network.hosts}
    plan = {
        "service": "10.255.0.1",
        "service_mac": "02:1c:a0:00:00:01",
        "victim": next(host.address for host in emulation.network.hosts if host.name == "h1"),
        "tree_id": job["tree"][0]["tree_id"],
        "generation": job["generation"],
        "slots": SLOTS,
        "words": WORDS,
        "format": FORMAT_I32,
        "world": 3,
        "seed": 1,
        "seconds": 0,
    }
    of_h1, of_h2 = capture(f"leaf1-eth{port['h1']}", 5.0), capture(f"leaf1-eth{port['h2']}", 5.0)
    # The stranger says it is h1; the other attacker shares a host with rank 1, so that its port is a member's.
    stranger = {**plan, "member": 0, "is_member": False, "replayed": of_h1}
    insider = {**plan, "member": 1, "is_member": True, "replayed": []}

    # Slowly, so that every frame reaches the switch: counts are equal, reason by reason. A busy machine may lose one on
    # the way all the same; then the attack is repeated, and a reason that is never counted right fails each time.
    for _attempt in range(3):
        before = counters(emulation, "leaf1")
        outcomes = emulation.wait(
            [attack(emulation, "h3", stranger, "slow"), attack(emulation, "h2", insider, "slow")], 30
        )
        expected = sent(outcomes)
        expected["drop_not_admitted"] += expected.pop("replayed")
        emulation.pause(0.3)
        seen = counters(emulation, "leaf1") - before
        assert all(200 <= expected[reason] >= seen[reason] for reason in REASONS), (seen, expected)
        if all(seen[reason] == expected[reason] for reason in REASONS):
            break
    assert all(seen[reason] == expected[reason] for reason in REASONS), (seen, expected)

    # At full speed, old packets of the member's own among them; the switch's ports lose some.
    before = counters(emulation, "leaf1")
    flood = [
        attack(emulation, "h3", {**stranger, "seconds": FLOOD_SECONDS}, "flood"),
        attack(emulation, "h2", {**insider, "replayed": of_h2, "seconds": FLOOD_SECONDS}, "flood"),
    ]
    outcomes = emulation.wait(flood, 30)
    expected = sent(outcomes)
    emulation.pause(0.3)
    seen = counters(emulation, "leaf1") - before
    stranger_replays = outcomes[0].json()["replayed"]
    for reason in REASONS:
        most = expected[reason] + (stranger_replays if reason == "drop_not_admitted" else 0)
        assert 0 < seen[reason] <= most, (reason, seen, expected)

    # The job went on all the time, each of its sums was exact, and it ends in good order.
    stop.touch()
    outcomes = emulation.wait(ranks, 60)
    require(outcomes)
    assert len({outcome.json()["rounds"] for outcome in outcomes}) == 1
    assert outcomes[0].json()["rounds"] > 5
