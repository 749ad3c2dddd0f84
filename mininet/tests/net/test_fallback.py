"""A job that finds no room in the switches: an error, or, where it was asked for, a ring of the hosts that says so."""

from __future__ import annotations

import sys
from pathlib import Path

from conftest import Start

from inca_net import topology
from inca_net.emulation import Emulation
from inca_net.jobs import agent_command, perf_command
from inca_net.processes import Job, require

STEADY = str(Path(__file__).with_name("steady.py"))
# All slots of a switch: the first job leaves none.
GREEDY = {"trees": {"slots_per_tree": 4096}}
SWEEP = ["-b", "4", "-e", "256K", "-f", "16", "-n", "2", "-w", "1", "--check", "full"]


def occupy(emulation: Emulation) -> tuple[list[Job], Path]:
    """A job that sums in the switches until the file appears."""
    stop = emulation.run_dir / "stop"
    stop.unlink(missing_ok=True)
    pipe = agent_command("pipe", "greedy", ["--dtype", "i32", "--deadline", "30"], json=False)
    jobs = emulation.start_workers(lambda _worker: [sys.executable, STEADY, str(stop), *pipe], "greedy")
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    return jobs, stop


def test_job_without_room_runs_as_a_ring_and_says_so(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 1]), switch=kind, inventory=GREEDY)
    greedy, stop = occupy(emulation)
    for dtype in ("i32", "f32"):
        arguments = [*SWEEP, "--dtype", dtype, "--fallback", "ring"]
        jobs = emulation.start_workers(lambda _worker, a=arguments: perf_command("ring", a), "ring")
        outcomes = emulation.wait(jobs, 60)
        require(outcomes)
        for outcome in outcomes:
            report = outcome.json()
            assert "no room" in report["fallback"]
            assert {row["wrong"] for row in report["rows"]} == {0}
            assert "FALLBACK" in outcome.stderr.read_text()
    closed = [job for job in emulation.status()["jobs"] if job["name"] == "ring"]
    assert all("no room" in job["fallback"] for job in closed)
    assert "FALLBACK" in (emulation.run_dir / "controller.log").read_text()
    strict = emulation.start_workers(lambda _worker: perf_command("strict", SWEEP), "strict")
    for outcome in emulation.wait(strict, 30):
        assert outcome.returncode == 3, outcome.report()
        assert "no room" in outcome.stderr.read_text()
    stop.touch()
    require(emulation.wait(greedy, 60))


def test_rank_killed_in_a_ring_is_named_by_all_others(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 2]), switch=kind, inventory=GREEDY)
    greedy, stop = occupy(emulation)
    arguments = ["--bytes", "4M", "--repeat", "1000", "--dtype", "i32", "--deadline", "20", "--fallback", "ring"]
    jobs = emulation.start_workers(lambda _worker: agent_command("allreduce", "ring", arguments), "ring")
    emulation.wait_status(lambda status: any("ring" in job["state"] for job in status["jobs"]), 20)
    emulation.pause(0.5)
    jobs[2].process.kill()
    for outcome in emulation.wait([jobs[0], jobs[1], jobs[3]], 30):
        assert outcome.returncode == 4, outcome.report()
        assert outcome.seconds < 15
        assert "rank 2 " in outcome.stderr.read_text()
    stop.touch()
    require(emulation.wait(greedy, 60))
