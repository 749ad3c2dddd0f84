"""Reductions on emulated trees, on every switch there is: each element of each rank is compared with the reference."""

from __future__ import annotations

import pytest
from conftest import Start

from inca_net import topology
from inca_net.jobs import agent_command, check_traffic, run_perf
from inca_net.processes import require
from inca_net.topology import Network

# 4 B to 256 KiB; one element, a part of a chunk, one chunk and a bit, many.
SWEEP = ["-b", "4", "-e", "256K", "-f", "8", "-n", "3", "-w", "1", "--check", "full"]
LOSSY_SWEEP = ["-b", "1K", "-e", "64K", "-f", "8", "-n", "3", "-w", "1", "--check", "full"]
DTYPES = ("i32", "f32")

SHAPES = {
    "single-4": topology.single("t", [4]),
    "tree2-1+1": topology.tree2("t", [1, 1]),
    "tree2-3+1": topology.tree2("t", [3, 1]),
    "tree2-2+0": topology.tree2("t", [2, 0]),
    "tree2-5+1+2": topology.tree2("t", [5, 1, 2]),
    "tree2-2+2-two-spines": topology.tree2("t", [2, 2], spines=2),
    "tree3-1+1": topology.tree3("t", [1, 1]),
    "tree3-3+1": topology.tree3("t", [3, 1]),
    "tree3-5+1+2": topology.tree3("t", [5, 1, 2]),
    "line-1+2+1": topology.line("t", [1, 2, 1]),
}
LOSSY = {
    "tree2-2+1-10%": topology.tree2("t", [2, 1], loss=0.1),
    "tree3-1+1+1-5%": topology.tree3("t", [1, 1, 1], loss=0.05),
}


def sweep_is_exact(start: Start, network: Network, kind: str, arguments: list[str], seconds: float) -> None:
    """Sums i32 and f32 in every size; all ranks check all elements."""
    emulation = start(network, switch=kind)
    for dtype in DTYPES:
        reports = run_perf(emulation, f"sweep-{dtype}", [*arguments, "--dtype", dtype], seconds)
        assert [report["rank"] for report in reports] == list(range(len(network.hosts)))
        sizes = {tuple(row["size"] for row in report["rows"]) for report in reports}
        assert len(sizes) == 1
        assert len(sizes.pop()) >= 3
        assert {row["wrong"] for report in reports for row in report["rows"]} == {0}


@pytest.mark.parametrize("shape", SHAPES)
def test_p6_every_element_is_right_whatever_the_placement(shape: str, kind: str, start: Start) -> None:
    sweep_is_exact(start, SHAPES[shape], kind, SWEEP, 60)


@pytest.mark.parametrize("shape", LOSSY)
def test_loss_on_every_link_costs_time_only(shape: str, kind: str, start: Start) -> None:
    sweep_is_exact(start, LOSSY[shape], kind, [*LOSSY_SWEEP, "--join-timeout", "90"], 120)


def test_jumbo_frames_carry_32_words(kind: str, start: Start) -> None:
    arguments = [*SWEEP, "--chunk-words", "32"]
    sweep_is_exact(start, topology.tree2("t", [2, 1], mtu=9500), kind, arguments, 60)


def test_ping_and_tcp_between_all_neighbours_while_a_job_runs(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 1]), switch=kind)
    assert check_traffic(emulation, 300_000) == 0


def test_rank_that_never_starts_is_named(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 1]), switch=kind)
    arguments = ["--count", "1000", "--join-timeout", "2"]
    jobs = emulation.start_workers(
        lambda _worker: agent_command("allreduce", "absent", arguments), "absent", ranks=[0, 1]
    )
    for outcome in emulation.wait(jobs, 30):
        assert outcome.returncode == 3
        assert outcome.seconds < 15
        assert "2" in outcome.stderr.read_text().split("rank")[-1]


def test_killed_rank_fails_the_others_in_bounded_time_and_the_next_job_is_right(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 1]), switch=kind)
    arguments = ["--bytes", "4M", "--repeat", "1000", "--deadline", "10"]
    jobs = emulation.start_workers(lambda _worker: agent_command("allreduce", "victim", arguments), "victim")
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    jobs[2].process.kill()
    outcomes = emulation.wait(jobs[:2], 60)
    assert [outcome.returncode for outcome in outcomes] == [4, 4]
    reports = run_perf(emulation, "next", ["-b", "4K", "-e", "64K", "-f", "4", "-n", "2", "-w", "1", "--dtype", "i32"])
    assert {row["wrong"] for report in reports for row in report["rows"]} == {0}


def test_p5_chunk_that_does_not_fit_the_mtu_is_refused_with_the_numbers(kind: str, start: Start) -> None:
    """Sized for jumbo frames on links of 1500 bytes, and then one that fits exactly and one byte too many."""
    emulation = start(topology.single("t", [1], mtu=1500), switch=kind)
    chunk_of_5_words = 20 + 8 + 40 + 5 * 256
    for words, mtu, fits in ((32, 1500, False), (5, chunk_of_5_words, True), (5, chunk_of_5_words - 1, False)):
        emulation.net.get("h1").cmd(f"ip link set dev h1-eth0 mtu {mtu}")
        arguments = ["--count", "1000", "--chunk-words", str(words), "--check"]
        label = f"large-{words}-{mtu}"
        jobs = emulation.start_workers(lambda _worker, a=arguments, n=label: agent_command("allreduce", n, a), label)
        (outcome,) = emulation.wait(jobs, 30)
        assert outcome.returncode == (0 if fits else 3), outcome.report()
        if not fits:
            error = outcome.stderr.read_text()
            assert f"a chunk of {words} words" in error
            assert f"has MTU {mtu}," in error


def test_link_that_fails_for_two_seconds_delays_a_job_only(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [1, 1]), switch=kind)
    arguments = ["--bytes", "8M", "--dtype", "i32", "--check", "full", "--deadline", "50"]
    jobs = emulation.start_workers(lambda _worker: agent_command("allreduce", "cut", arguments), "cut")
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    emulation.set_link("leaf1", "spine1", False)
    emulation.pause(2.0)
    emulation.set_link("leaf1", "spine1", True)
    require(emulation.wait(jobs, 60))


def test_link_that_never_comes_back_ends_the_job_with_its_name(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [1, 1]), switch=kind, inventory={"failure": {"patience_ms": 2000}})
    arguments = ["--bytes", "4M", "--repeat", "1000", "--dtype", "i32", "--deadline", "20"]
    jobs = emulation.start_workers(lambda _worker: agent_command("allreduce", "cut", arguments), "cut")
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    emulation.set_link("leaf1", "spine1", False)
    for outcome in emulation.wait(jobs, 60):
        assert outcome.returncode == 4, outcome.report()
        assert "leaf1" in outcome.stderr.read_text()
