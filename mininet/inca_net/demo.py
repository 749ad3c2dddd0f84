"""The demo: a training whose gradients the switches sum, a sweep of sizes, and what went over each link.

Every figure also goes to `target/reports/demo.json`, and to `demo-bmv2.json` or `demo-embedded.json` beside it.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

from .emulation import Emulation
from .jobs import agent_command, run_perf, start_training
from .links import LinkBytes, link_bytes
from .nodes import ROOT, find_switch
from .processes import Job, require, wait_jobs
from .training import export_digits

REPORT = ROOT / "target" / "reports" / "demo.json"
SECONDS = 110.0
SWEEP_SECONDS = 240.0
ROWS = 10
SWEEP = ["-b", "8", "-e", "4M", "-f", "2", "-n", "2", "-w", "1"]
TRAFFIC_BYTES = 4 << 20


def run(emulation: Emulation, steps: int) -> int:
    """All parts of the demo; 0 if every bit was right and the network learnt as it should."""
    report: dict[str, Any] = {
        "switch": emulation.settings.switch,
        "switch_version": switch_text(emulation),
        "network": emulation.network.describe(),
        "workers": len(emulation.network.hosts),
    }
    learnt = train(emulation, steps, report)
    right = sweep(emulation, report)
    traffic(emulation, report)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report, indent=2) + "\n"
    REPORT.write_text(text)
    # The other switch's figures stay.
    kept = REPORT.with_name(f"demo-{emulation.settings.switch}.json")
    kept.write_text(text)
    print(f"\nfigures: {REPORT} and {kept.name}")
    return 0 if learnt and right else 1


def train(emulation: Emulation, steps: int, report: dict[str, Any]) -> bool:
    """Trains and prints a table while it goes; whether every bit was right and the loss fell as it should."""
    started = time.monotonic()
    world = len(emulation.network.hosts)
    data = emulation.run_dir / "digits.npz"
    export_digits(data)
    print(f"\nTraining: {world} workers, {steps} steps on the digits data set; the gradients are summed by")
    print(f"{switch_text(emulation)}\n")
    jobs = start_training(emulation, "demo", steps, data)
    table = Table(jobs[0], steps)

    tree = ""

    def watch() -> None:
        nonlocal tree
        table.update()
        emulation.check_alive()
        if table.printed and not tree:
            tree = tree_text(emulation.status())

    # A rank that fails makes the others wait: end with the first failure.
    outcomes = wait_jobs(jobs, SECONDS, watch)
    require(outcomes)
    table.update()
    reports = [[json.loads(line) for line in outcome.text().splitlines()] for outcome in outcomes]
    return summarise(reports, tree, time.monotonic() - started, report)


def sweep(emulation: Emulation, report: dict[str, Any]) -> bool:
    """Reduces tensors of 8 bytes to 4 MiB; whether every element was right."""
    report["sweep"] = []
    for dtype in ("i32", "f32"):
        print(f"\nSweep, {dtype} sums over {len(emulation.network.hosts)} workers, every element checked:\n")
        print(f"{'size':>10} {'count':>9} {'type':>5} {'time':>10} {'algbw':>9} {'busbw':>9} {'#wrong':>7}")
        print(f"{'(B)':>10} {'':>9} {'':>5} {'(us)':>10} {'(MB/s)':>9} {'(MB/s)':>9} {'':>7}", flush=True)
        ranks = run_perf(emulation, f"sweep-{dtype}", ["--dtype", dtype, *SWEEP], SWEEP_SECONDS)
        for rows in zip(*(rank["rows"] for rank in ranks), strict=True):
            row, wrong = rows[0], sum(row["wrong"] for row in rows)
            print(
                f"{row['size']:>10} {row['count']:>9} {dtype:>5} {row['time_us']:>10.1f} "
                f"{row['algbw_mb_per_s']:>9.3f} {row['busbw_mb_per_s']:>9.3f} {wrong:>7}"
            )
            report["sweep"].append(
                {
                    "bytes": row["size"],
                    "type": dtype,
                    "time_us": row["time_us"],
                    "algbw": row["algbw_mb_per_s"],
                    "wrong": wrong,
                }
            )
    return all(row["wrong"] == 0 for row in report["sweep"])


def traffic(emulation: Emulation, report: dict[str, Any]) -> None:
    """Reduces one tensor of each type and prints what went over each link, beside what a ring would have sent."""
    blocks, integers = (one_sum(emulation, dtype) for dtype in ("f32", "i32"))
    print(
        f"\nLinks, both directions together, for one sum of {TRAFFIC_BYTES >> 20} MiB, headers included. A ring of the"
    )
    print("hosts carries 4 bytes an element, as i32 does here; f32 goes in blocks of 2 bytes an element.\n")
    print(f"{'link':<16} {'host ring':>10} {'i32':>10} {'ratio':>6} {'f32':>10} {'ratio':>6}")
    report["links"] = []
    for wide, narrow in zip(integers, blocks, strict=True):
        ring = max(1, wide.ring_bytes)
        print(
            f"{wide.name:<16} {wide.ring_bytes:>10} {wide.bytes:>10} {wide.bytes / ring:>6.2f} "
            f"{narrow.bytes:>10} {narrow.bytes / ring:>6.2f}"
        )
        report["links"].append(
            {
                "name": wide.name,
                "bytes": narrow.bytes,
                "bytes_f32": narrow.bytes,
                "bytes_i32": wide.bytes,
                "ring_bytes": wide.ring_bytes,
            }
        )


def one_sum(emulation: Emulation, dtype: str) -> list[LinkBytes]:
    """What one sum puts on each link."""
    before = link_bytes(emulation, TRAFFIC_BYTES)
    options = ["--dtype", dtype, "--count", str(TRAFFIC_BYTES // 4)]
    emulation.run_workers(
        lambda _worker: agent_command("allreduce", f"traffic-{dtype}", options), f"traffic-{dtype}", SECONDS
    )
    return [
        LinkBytes(link.name, link.bytes - old.bytes, link.ring_bytes)
        for link, old in zip(link_bytes(emulation, TRAFFIC_BYTES), before, strict=True)
    ]


class Table:
    """Prints rank 0's steps as they are finished."""

    def __init__(self, job: Job, steps: int) -> None:
        self.job = job
        self.every = max(1, steps // ROWS)
        self.steps = steps
        self.printed = 0

    def update(self) -> None:
        """Prints what is new."""
        lines = self.job.stdout.read_text().splitlines(keepends=True)
        for line in lines[self.printed :]:
            if not line.endswith("\n"):
                return
            self.printed += 1
            self.row(json.loads(line))

    def row(self, report: dict[str, Any]) -> None:
        """One line."""
        if report["step"] == 0:
            exact = "exact sums"
            print(f"{'step':>5} {'loss':>10} {exact:>10} {'accuracy':>9} {exact:>10} {'reduce':>10} {'#wrong':>7}")
            print(f"{'':>5} {'':>10} {'':>10} {'':>9} {'':>10} {'(ms)':>10} {'':>7}")
        if report["step"] % self.every == 0 or report["step"] == self.steps:
            last = report["step"] == self.steps
            print(
                f"{report['step']:>5} {report['loss']:>10.5f} {report['reference_loss']:>10.5f} "
                f"{report['accuracy']:>9.1%} {report['reference_accuracy']:>10.1%} "
                + (f"{'':>10} {'':>7}" if last else f"{report['reduce_ms']:>10.2f} {report['wrong']:>7}"),
                flush=True,
            )


def summarise(ranks: list[list[dict[str, Any]]], tree: str, seconds: float, report: dict[str, Any]) -> bool:
    """Prints what to remember of the training; whether it went as it should."""
    wrong = sum(step["wrong"] for rank in ranks for step in rank)
    elements = sum(step["elements"] for rank in ranks for step in rank)
    same = all([step["digest"] for step in rank] == [step["digest"] for step in ranks[0]] for rank in ranks)
    first, last = ranks[0][0], ranks[0][-1]
    distance = abs(last["loss"] - last["reference_loss"])
    learnt = last["loss"] < first["loss"] and distance < 0.01 * first["loss"]
    reduce_ms = sorted(step["reduce_ms"] for step in ranks[0][:-1])
    print(f"\ntree:            {tree}")
    print(f"elements:        {ranks[0][0]['elements']} f32 a step, {elements} received in all, #wrong {wrong}")
    print(f"parameters:      {'the same bits on every rank after every step' if same else 'DIFFERENT between ranks'}")
    print(
        f"loss:            {first['loss']:.5f} -> {last['loss']:.5f}; with exact sums {last['reference_loss']:.5f} "
        f"({'as it should be' if learnt else 'NOT as it should be'})"
    )
    print(f"one reduction:   {reduce_ms[len(reduce_ms) // 2]:.2f} ms (median)")
    print(f"time:            {seconds:.1f} s for training")
    report["training"] = {
        "steps": len(ranks[0]) - 1,
        "accuracy_tree": last["accuracy"],
        "accuracy_host": last["reference_accuracy"],
        "loss_tree": last["loss"],
        "loss_host": last["reference_loss"],
        "wrong": wrong,
        "tree": tree,
    }
    return same and learnt and wrong == 0 and elements > 0


def tree_text(status: dict[str, Any]) -> str:
    """`spine1(leaf1[0 1] leaf2[2 3])`: the first tree of the first job, root first, ranks in brackets."""
    nodes = status["jobs"][0]["tree"] if status["jobs"] else []

    def draw(node: dict[str, Any]) -> str:
        name: str = node["switch_name"]
        ranks = " ".join(map(str, node["ranks"]))
        below = " ".join(draw(child) for child in nodes if child["parent"] == node["switch_name"])
        return name + (f"[{ranks}]" if ranks else "") + (f"({below})" if below else "")

    return " ".join(draw(node) for node in nodes if not node["parent"] and node["tree_id"] == nodes[0]["tree_id"])


def switch_text(emulation: Emulation) -> str:
    """Which switch it is, with its version."""
    kind = emulation.settings.switch
    program = find_switch(kind)
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    version = (done.stdout or done.stderr).strip().splitlines()
    names = {"bmv2": "BMv2 (simple_switch_grpc)", "embedded": "the embedded switch (inca-switch)"}
    return f"{names.get(kind, kind)} {version[0].split()[-1] if version else ''}".strip()
