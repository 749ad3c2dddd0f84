"""What failures cost: something breaks in the middle of a sum, and it is timed when ranks notice and when they go on.

Every event has a network and a job of its own. Times count from the event: `detect_ms` to the first rank that is told,
`resume_ms` to the last rank that goes on, or that ends with the error. After the return of a link that was all there
was, `resume_ms` counts from there. Every element of every rank is compared. Figures:
`target/reports/bench-recovery.json`.
"""

from __future__ import annotations

import argparse
import array
import dataclasses
import json
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from . import topology
from .emulation import Emulation, Settings, Worker
from .jobs import agent_command
from .nodes import ROOT
from .processes import Job, JobError, Outcome
from .topology import Network

REPORT = ROOT / "target" / "reports" / "bench-recovery.json"
JOB = "recovery"
JOIN_SECONDS = 40.0
END_SECONDS = 150.0
# A sum is well under way by then.
LEAD_SECONDS = 0.25
DOWN_SECONDS = 2.0
EXIT_OPERATION = 4
LOG_LINE = re.compile(r"^(\S+Z)\s+\w+\s+(.*)$")

STOPPED = "stopped"
WAITS = "the group waits for ranks"
GOES_ON = "going on in a new generation"
JOINED = "joined"


@dataclass(frozen=True)
class Row:
    """What became of one event on one switch."""

    event: str
    switch: str
    detect_ms: float | None
    resume_ms: float | None
    outcome: str
    error: str


@dataclass
class Run:
    """A job in the middle of a sum, and when something happened to it."""

    emulation: Emulation
    size: int
    jobs: list[Job] = dataclasses.field(default_factory=list)
    # By the clock of logs, and by the one of processes.
    wall: float = 0.0
    at: float = 0.0

    def start(self, extra: Sequence[str] = (), ranks: Sequence[int] | None = None) -> list[Job]:
        """Starts ranks of the job."""
        command = self.command(extra)
        jobs = self.emulation.start_workers(lambda _worker: command, JOB, ranks=ranks)
        self.jobs += jobs
        return jobs

    def command(self, extra: Sequence[str] = ()) -> list[str]:
        """One long sum, every element compared."""
        options = ["--bytes", str(self.size), "--dtype", "i32", "--check", "full", "--deadline", "100", "--log", "info"]
        return agent_command("allreduce", JOB, [*(extra or options)])

    def await_running(self) -> None:
        """Returns in the middle of the sum."""
        self.emulation.wait_status(
            lambda status: any(job["state"] == "running" for job in status["jobs"]), JOIN_SECONDS
        )
        self.emulation.pause(LEAD_SECONDS)
        for job in self.jobs:
            if job.process.poll() is not None:
                raise JobError(f"{job.host}: the sum was over before anything happened: use more --bytes")

    def mark(self) -> None:
        """It happens now."""
        self.wall, self.at = time.time(), time.monotonic()

    def root(self) -> str:
        """The switch at the root of the job's tree."""
        nodes = next(job["tree"] for job in self.emulation.status()["jobs"] if job["state"] == "running")
        return str(next(node["switch_name"] for node in nodes if not node["parent"]))

    def completed(self) -> int:
        """Sums that switches have completed."""
        switches = self.emulation.status(counters=True)["switches"]
        return sum(switch["counters"].get("completed", 0) for switch in switches)

    def logged(self, jobs: Sequence[Job], text: str) -> list[float]:
        """Milliseconds from the event to the first such line of every rank that has one."""
        found = []
        for job in jobs:
            for line in job.stderr.read_text(errors="replace").splitlines():
                match = LOG_LINE.match(line)
                if match and match[2].startswith(text):
                    stamp = datetime.fromisoformat(match[1].replace("Z", "+00:00")).timestamp()
                    if stamp >= self.wall:
                        found.append((stamp - self.wall) * 1e3)
                        break
        return found

    def judge(self, event: str, jobs: Sequence[Job], detected: str = STOPPED, resumed: str = GOES_ON) -> Row:
        """Waits for the ranks' end: all exact, or all with an error."""
        outcomes = self.emulation.wait(jobs, END_SECONDS)
        detect = min(self.logged(jobs, detected), default=None)
        codes = {outcome.returncode for outcome in outcomes}
        if codes == {0}:
            wrong = sum(outcome.json()["wrong"] for outcome in outcomes)
            if wrong:
                return self.row(event, detect, None, "wrong", f"{wrong} elements are wrong")
            return self.row(event, detect, max(self.logged(jobs, resumed), default=None), "exact", "")
        if codes == {EXIT_OPERATION}:
            ends = [job.started + outcome.seconds - self.at for job, outcome in zip(jobs, outcomes, strict=True)]
            return self.row(event, detect, max(ends) * 1e3, "error", error_of(outcomes[0]))
        raise JobError(f"{event}: ranks ended differently\n" + "\n".join(outcome.report() for outcome in outcomes))

    def row(self, event: str, detect: float | None, resume: float | None, outcome: str, error: str) -> Row:
        """A row of the table."""
        kind = self.emulation.settings.switch
        return Row(event, kind, rounded(detect), rounded(resume), outcome, error)


def rounded(milliseconds: float | None) -> float | None:
    """A tenth of a millisecond is more than this tells."""
    return None if milliseconds is None else round(milliseconds, 1)


def error_of(outcome: Outcome) -> str:
    """The last line of the standard error."""
    lines = outcome.stderr.read_text(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "")


def worker_killed(run: Run) -> Row:
    """The last rank dies; the others end."""
    jobs = run.start()
    run.await_running()
    run.mark()
    jobs[-1].process.kill()
    return run.judge("worker killed (abort)", jobs[:-1])


def worker_frozen(run: Run) -> Row:
    """The last rank is stopped; the others end. When it goes on, long after, it ends too."""
    jobs = run.start()
    run.await_running()
    run.mark()
    frozen = jobs[-1].process
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        row = run.judge("worker frozen (abort)", jobs[:-1])
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    (outcome,) = run.emulation.wait([jobs[-1]], END_SECONDS)
    if outcome.returncode != EXIT_OPERATION:
        raise JobError(f"worker frozen: {outcome.report()}")
    return row


def worker_killed_shrink(run: Run) -> Row:
    """The last rank dies; the others go on. Rank r brings 2^r everywhere, so a sum tells whom it holds."""
    event, folder = "worker killed (shrink)", run.emulation.run_dir
    workers = run.emulation.workers
    count = run.size // 4
    jobs = []
    for worker in workers:
        source = folder / f"input-{worker.rank}.i32"
        source.write_bytes(array.array("i", [1 << worker.rank]).tobytes() * count)
        options = ["--input", str(source), "--output", str(output_of(folder, worker)), "--dtype", "i32"]
        options += ["--check", "none", "--deadline", "100", "--on-failure", "shrink", "--log", "info"]
        argv = worker.fill(run.command(options))
        jobs.append(run.emulation.start_job(worker.host.name, argv, JOB, True))
    run.jobs = jobs
    run.await_running()
    run.mark()
    jobs[-1].process.kill()
    row = dataclasses.replace(run.judge(event, jobs[:-1]))
    for worker, job in list(zip(workers, jobs, strict=True))[:-1]:
        report = json.loads(job.stdout.read_text())
        output = array.array("i", output_of(folder, worker).read_bytes())
        at = 0
        for part in report["parts"]:
            value = sum(1 << rank for rank in part["ranks"])
            right = array.array("i", [value]) * (part["end"] - part["first"])
            if part["first"] != at or output[part["first"] : part["end"]] != right:
                return dataclasses.replace(row, outcome="wrong", error=f"rank {worker.rank}: part {part}")
            at = part["end"]
        if at != count or report["members"] != [other.rank for other in workers[:-1]]:
            return dataclasses.replace(row, outcome="wrong", error=f"rank {worker.rank}: {report['members']}")
    return row


def output_of(folder: Path, worker: Worker) -> Path:
    """Where a rank's sum goes."""
    return folder / f"output-{worker.rank}.i32"


def worker_restarted(run: Run) -> Row:
    """The last rank dies and is started again; the others end, join again, and the sum is made anew."""
    jobs = run.start()
    run.await_running()
    run.mark()
    jobs[-1].process.kill()
    last = len(jobs) - 1
    again = run.start(ranks=[last])
    for outcome in run.emulation.wait(jobs[:-1], END_SECONDS):
        if outcome.returncode != EXIT_OPERATION:
            raise JobError(f"worker restarted: {outcome.report()}")
    detect = min(run.logged(jobs[:-1], STOPPED), default=None)
    again = [*run.start(ranks=list(range(last))), *again]
    row = run.judge("worker restarted", again, resumed=JOINED)
    return dataclasses.replace(row, detect_ms=rounded(detect))


def leaf_killed(run: Run) -> Row:
    """The leaf of the last rank dies: there is no other way to it."""
    jobs = run.start()
    run.await_running()
    run.mark()
    run.emulation.switch(run.emulation.network.hosts[-1].switch).kill()
    return run.judge("leaf killed", jobs)


def root_killed(event: str) -> Callable[[Run], Row]:
    """The root dies, which is a spine."""

    def scenario(run: Run) -> Row:
        jobs = run.start()
        run.await_running()
        root = run.root()
        run.mark()
        run.emulation.switch(root).kill()
        return run.judge(event, jobs)

    return scenario


def link_down(event: str) -> Callable[[Run], Row]:
    """The link between the last rank's leaf and the root is cut for good."""

    def scenario(run: Run) -> Row:
        jobs = run.start()
        run.await_running()
        root = run.root()
        run.mark()
        run.emulation.cut_link(run.emulation.network.hosts[-1].switch, root, True)
        return run.judge(event, jobs)

    return scenario


def link_down_up(run: Run) -> Row:
    """The only link of the last rank's leaf goes down and comes back."""
    jobs = run.start()
    run.await_running()
    leaf, root = run.emulation.network.hosts[-1].switch, run.root()
    run.mark()
    run.emulation.cut_link(leaf, root, True)
    run.emulation.pause(DOWN_SECONDS)
    detect = min(run.logged(jobs, STOPPED), default=None)
    run.emulation.cut_link(leaf, root, False)
    run.mark()
    row = run.judge("switch link down 2 s, no alternative", jobs)
    return dataclasses.replace(row, detect_ms=rounded(detect))


def host_link_down_up(run: Run) -> Row:
    """The last rank's own link goes down and comes back: nothing but patience is needed."""
    jobs = run.start()
    run.await_running()
    host = run.emulation.network.hosts[-1]
    run.mark()
    run.emulation.cut_link(host.name, host.switch, True)
    run.emulation.pause(DOWN_SECONDS)
    detect = min(run.logged(jobs, WAITS), default=None)
    before = run.completed()
    run.emulation.cut_link(host.name, host.switch, False)
    run.mark()
    while run.completed() <= before:
        if time.monotonic() > run.at + END_SECONDS:
            raise JobError("host link down 2 s: the sum does not go on")
    resume = (time.monotonic() - run.at) * 1e3
    row = run.judge("host link down 2 s", jobs)
    return run.row(row.event, detect, resume, row.outcome, row.error)


def switch_restarted(run: Run) -> Row:
    """The only root dies and another process takes its place, empty."""
    jobs = run.start()
    run.await_running()
    root = run.emulation.switch(run.root())
    run.mark()
    root.kill()
    root.launch()
    return run.judge("switch restarted empty", jobs)


# Event, spines of the network, what happens.
SCENARIOS: tuple[tuple[int, Callable[[Run], Row]], ...] = (
    (1, worker_killed),
    (1, worker_frozen),
    (1, worker_killed_shrink),
    (1, worker_restarted),
    (1, leaf_killed),
    (2, root_killed("spine killed, another there")),
    (1, root_killed("spine killed, no other")),
    (2, link_down("switch link down, another path")),
    (1, link_down_up),
    (1, host_link_down_up),
    (1, switch_restarted),
)


def network_of(spines: int, workers: Sequence[int]) -> Network:
    """Leaves under one spine or two."""
    return topology.tree2("recovery", workers, spines)


def run(settings: Sequence[Settings], workers: Sequence[int], arguments: argparse.Namespace) -> int:
    """All events on all switches; 1 if a sum was wrong."""
    rows: list[Row] = []
    if not arguments.json:
        print(f"{'event':<38} {'switch':<9} {'detect ms':>10} {'resume ms':>10} outcome")
    for chosen in settings:
        for number, (spines, scenario) in enumerate(SCENARIOS):
            folder = chosen.run_dir / f"{chosen.switch}-{number}"
            with Emulation(network_of(spines, workers), dataclasses.replace(chosen, run_dir=folder)) as emulation:
                row = scenario(Run(emulation, arguments.bytes))
            rows.append(row)
            if not arguments.json:
                print(line(row), flush=True)
    report = {"workers": list(workers), "rows": [dataclasses.asdict(row) for row in rows]}
    path: Path = arguments.report or REPORT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2) if arguments.json else f"figures: {path}")
    return 1 if any(row.outcome == "wrong" for row in rows) else 0


def line(row: Row) -> str:
    """One line of the table."""
    detect, resume = ("-" if value is None else f"{value:.0f}" for value in (row.detect_ms, row.resume_ms))
    text = f"{row.event:<38} {row.switch:<9} {detect:>10} {resume:>10} {row.outcome}"
    return f"{text}: {row.error.removeprefix('error: ')}" if row.error else text
