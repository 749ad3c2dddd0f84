"""Trees over several spines, and through a spine without room: every element is right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import Start

from inca_net import topology
from inca_net.collectives import counted
from inca_net.emulation import Emulation, Worker
from inca_net.jobs import agent_command, perf_command, run_perf
from inca_net.processes import require

STRIPES = {"trees": {"stripes": 2}}
SPINES = ("spine1", "spine2")
SWEEP = ["-b", "4", "-e", "256K", "-f", "8", "-n", "3", "-w", "1", "--check", "full"]


def carried(emulation: Emulation) -> dict[str, int]:
    """Bytes that each spine has got from the leaves and sent to them, so far."""
    found = dict.fromkeys(SPINES, 0)
    for link in emulation.network.links:
        found[link.b] += sum(value for key, value in counted(f"{link.b}-eth{link.b_port}").items() if "bytes" in key)
    return found


@pytest.mark.parametrize("dtype", ["i32", "f32"])
def test_both_spines_add_their_half_and_every_element_is_right(dtype: str, kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 1], spines=2), switch=kind, inventory=STRIPES)
    before = carried(emulation)
    reports = run_perf(emulation, "striped", [*SWEEP, "--dtype", dtype], 60)
    after = carried(emulation)
    assert {row["wrong"] for report in reports for row in report["rows"]} == {0}
    share = [after[spine] - before[spine] for spine in SPINES]
    # 300 KB of contributions from two leaves, in both planes, and their results; probes are a few KB.
    assert min(share) > 500_000, share
    assert max(share) < 1.5 * min(share), share


def test_a_job_with_a_spine_less_goes_on_over_the_other(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [1, 1], spines=2), switch=kind, inventory=STRIPES)
    arguments = ["--bytes", "4M", "--dtype", "i32", "--check", "full", "--deadline", "50"]
    jobs = emulation.start_workers(lambda _worker: agent_command("allreduce", "cut", arguments), "cut")
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    emulation.cut_link("leaf1", "spine1", True)
    require(emulation.wait(jobs, 60))
    before = carried(emulation)
    run_perf(emulation, "next", ["-b", "256K", "-e", "256K", "-n", "2", "-w", "0", "--check", "full"], 60)
    after = carried(emulation)
    share = {spine: after[spine] - before[spine] for spine in SPINES}
    assert share["spine2"] > 500_000 > 10 * share["spine1"], share


def test_a_switch_without_room_is_passed_through(kind: str, start: Start) -> None:
    """One job leaves no room in the only spine; the next one's packets go through it as ordinary traffic."""
    network = topology.tree2("t", [1, 1, 1, 1])
    emulation = start(network, switch=kind, inventory={"trees": {"slots_per_tree": 3000}})
    first = ["--bytes", "64K", "--repeat", "1000000", "--dtype", "i32", "--deadline", "50"]
    holding = [
        emulation.start_job(worker.host.name, worker.fill(agent_command("allreduce", "first", first)), "first")
        for worker in ranks(emulation, [2, 3])
    ]
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    second = [
        emulation.start_job(worker.host.name, worker.fill(perf_command("second", SWEEP)), "second")
        for worker in ranks(emulation, [0, 1])
    ]
    outcomes = emulation.wait(second, 60)
    require(outcomes)
    assert {row["wrong"] for outcome in outcomes for row in outcome.json()["rows"]} == {0}
    used = {switch["name"]: switch["slots_used"] for switch in emulation.status()["switches"]}
    assert used["spine1"] == used["leaf3"] == used["leaf4"] == 3000, used
    for job in holding:
        assert job.process.poll() is None
        job.process.terminate()
    emulation.wait(holding, 20)


def ranks(emulation: Emulation, hosts: list[int]) -> list[Worker]:
    """These hosts as the ranks of a job of their own."""
    workers = [emulation.workers[host] for host in hosts]
    return [replace(worker, rank=rank, world=len(hosts)) for rank, worker in enumerate(workers)]
