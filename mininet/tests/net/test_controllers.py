"""The death of a controller, and two controllers at once: sums go on, and what is remembered is what switches hold."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from conftest import Start

from inca_net import topology
from inca_net.emulation import CONTROLLER_PORT, Emulation
from inca_net.jobs import agent_command, run_perf, wrong_elements
from inca_net.processes import Component, Job, require

STEADY = str(Path(__file__).with_name("steady.py"))
SHORT_SWEEP = ["-b", "4K", "-e", "64K", "-f", "4", "-w", "1", "-n", "2", "--dtype", "i32"]
SECOND_PORT = CONTROLLER_PORT + 1
# A busy machine stands still for seconds: that is not what is tested here.
PATIENT = {"discovery": {"link_timeout_ms": 4000}, "failure": {"attach_grace_ms": 5000, "report_timeout_ms": 8000}}


def start_steady(emulation: Emulation) -> tuple[list[Job], Path]:
    """A job that sums, and checks every sum, until the file appears."""
    stop = emulation.run_dir / "stop"
    stop.unlink(missing_ok=True)
    controllers = (
        f"{emulation.controller_url},{emulation.controller_url.replace(str(CONTROLLER_PORT), str(SECOND_PORT))}"
    )
    pipe = agent_command("pipe", "steady", ["--dtype", "i32", "--deadline", "30"], json=False)
    pipe = [controllers if argument == "{controller}" else argument for argument in pipe]
    jobs = emulation.start_workers(lambda _worker: [sys.executable, STEADY, str(stop), *pipe], "steady")
    emulation.wait_status(lambda status: any(job["state"] == "running" for job in status["jobs"]), 20)
    emulation.pause(0.5)
    return jobs, stop


def steady(emulation: Emulation) -> dict[str, Any]:
    """What stays as it is while the job goes on."""
    found: dict[str, Any] = next(job for job in emulation.status()["jobs"] if job["name"] == "steady")
    return {key: value for key, value in found.items() if key != "progress"}


def kill(emulation: Emulation) -> None:
    controller = emulation.controller
    assert controller is not None
    emulation.controller = None
    controller.process.kill()
    controller.process.wait()


def all_attached(emulation: Emulation, ranks: int) -> None:
    logs = sorted((emulation.run_dir / "jobs").glob("*-steady-*.err"))
    assert len(logs) == ranks
    for _ in range(200):
        if all("the controller is back" in log.read_text() for log in logs):
            return
        emulation.pause(0.05)
    raise AssertionError([log.read_text() for log in logs])


def finish(emulation: Emulation, jobs: list[Job], stop: Path) -> None:
    """Ends the job: every sum was exact, none took long; its slots are free, and the next job is right."""
    stop.touch()
    outcomes = emulation.wait(jobs, 60)
    require(outcomes)
    reports = [outcome.json() for outcome in outcomes]
    assert len({report["rounds"] for report in reports}) == 1
    assert max(report["longest_seconds"] for report in reports) < 10, reports
    emulation.wait_status(lambda status: all(switch["slots_used"] == 0 for switch in status["switches"]), 20)
    assert wrong_elements(run_perf(emulation, "next", SHORT_SWEEP)) == 0


def test_killed_controller_is_replaced_and_sums_go_on(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 1]), switch=kind, inventory=PATIENT)
    jobs, stop = start_steady(emulation)
    before = steady(emulation)
    slots = {switch["name"]: switch["slots_used"] for switch in emulation.status()["switches"]}
    kill(emulation)
    emulation.pause(1.0)
    emulation.start_controller()
    emulation.wait_ready()
    all_attached(emulation, len(jobs))
    after = steady(emulation)
    # The trust in what was remembered has passed as well.
    emulation.pause(4.5)
    assert steady(emulation) == after
    assert (after["generation"], after["state"], after["tree"]) == (before["generation"], "running", before["tree"])
    assert {switch["name"]: switch["slots_used"] for switch in emulation.status()["switches"]} == slots
    finish(emulation, jobs, stop)


def test_controller_that_stands_by_takes_over_when_the_other_dies(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [1, 1]), switch=kind, inventory=PATIENT)
    backup = emulation.launch_controller("backup", SECOND_PORT, "--standby")
    jobs, stop = start_steady(emulation)
    generation = steady(emulation)["generation"]
    assert "standing by" in backup.log.read_text()
    kill(emulation)
    all_attached(emulation, len(jobs))
    assert "taking over" in backup.log.read_text()
    use(emulation, backup, SECOND_PORT)
    emulation.wait_ready()
    assert steady(emulation)["generation"] == generation
    finish(emulation, jobs, stop)


def test_controller_that_is_displaced_stops_writing_and_says_why(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [1, 1]), switch=kind, inventory=PATIENT)
    jobs, stop = start_steady(emulation)
    generation = steady(emulation)["generation"]
    old = emulation.controller
    assert old is not None
    new = emulation.launch_controller("second", SECOND_PORT)
    all_attached(emulation, len(jobs))
    text = old.log.read_text()
    assert "stops writing and stands by" in text
    assert "another controller, with election id" in text
    use(emulation, new, SECOND_PORT)
    emulation.wait_ready()
    assert steady(emulation)["generation"] == generation
    # The old one is still there, writes nothing, and does no harm.
    finish(emulation, jobs, stop)
    old.check()
    old.stop()


def use(emulation: Emulation, controller: Component, port: int) -> None:
    """Asks another controller from now on."""
    emulation.controller = controller
    emulation.controller_port = port
