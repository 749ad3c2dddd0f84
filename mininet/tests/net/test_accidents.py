"""Noise on the wire, and the death of a controller or a switch in the middle of a job."""

from __future__ import annotations

import sys
from pathlib import Path

from conftest import Start

from inca_net import topology
from inca_net.emulation import Emulation
from inca_net.jobs import agent_command, perf_command, run_perf, wrong_elements
from inca_net.processes import Job, require

NOISE = str(Path(__file__).with_name("noise.py"))
SHORT_SWEEP = ["-b", "4K", "-e", "64K", "-f", "4", "-w", "1", "--dtype", "i32"]


def endless_job(emulation: Emulation) -> list[Job]:
    """A job that goes on until something ends it; returns when it is running."""
    arguments = ["--bytes", "1M", "--repeat", "100000", "--dtype", "i32", "--deadline", "15"]
    jobs = emulation.start_workers(lambda _worker: agent_command("allreduce", "endless", arguments), "endless")
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    return jobs


def test_m6_noise_makes_no_hosts_no_links_and_no_difference(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 1]), switch=kind)
    before = emulation.status()
    noise = [
        emulation.start_job(host.name, [sys.executable, NOISE, host.interface], "noise", True)
        for host in emulation.network.hosts
    ]
    job = emulation.start_workers(lambda _worker: perf_command("noisy", [*SHORT_SWEEP, "-n", "30"]), "noisy")
    require(emulation.wait(noise, 30))
    outcomes = emulation.wait(job, 60)
    require(outcomes)
    assert wrong_elements([outcome.json() for outcome in outcomes]) == 0
    after = emulation.status()
    assert {host["address"] for host in after["hosts"]} == {host.address for host in emulation.network.hosts}
    assert sorted(map(str, after["links"])) == sorted(map(str, before["links"]))


def test_killed_controller_disturbs_neither_jobs_nor_traffic(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [1, 1]), switch=kind)
    jobs = [
        emulation.start_workers(
            lambda _worker: agent_command("allreduce", "long", ["--bytes", "1M", "--repeat", "16", "--dtype", "i32"]),
            "long",
        )
    ][0]
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    controller = emulation.controller
    assert controller is not None
    emulation.controller = None
    controller.process.kill()
    controller.process.wait()
    for outcome in emulation.wait(jobs, 60):
        assert outcome.returncode == 0, outcome.report()
    require(
        emulation.wait([emulation.start_ping("h1", "h2", 2), *emulation.start_transfer("h2", "h1", 100_000, 10)], 20)
    )
    emulation.start_controller()
    emulation.wait_ready()
    assert wrong_elements(run_perf(emulation, "after", [*SHORT_SWEEP, "-n", "2"])) == 0


def test_killed_switch_without_another_is_named_and_a_new_one_is_put_to_work(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [1, 1]), switch=kind, inventory={"failure": {"patience_ms": 2000}})
    jobs = endless_job(emulation)
    spine = emulation.switch("spine1")
    spine.kill()
    for outcome in emulation.wait(jobs, 60):
        assert outcome.returncode == 4, outcome.report()
        text = outcome.stderr.read_text()
        assert "spine1 is unreachable" in text, text
        assert "partitioned" in text, text
    spine.launch()
    spine.wait_ready()
    emulation.wait_ready()
    assert wrong_elements(run_perf(emulation, "after", [*SHORT_SWEEP, "-n", "2"])) == 0
