"""Trains a small convolutional network with PyTorch's DistributedDataParallel, gradients by inca's hook, by inca as the
backend of torch.distributed, then by gloo.

Prints the loss curves side by side and steps a second; writes `target/reports/train-ddp.json` and `train-ddp.png`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .emulation import Emulation
from .nodes import ROOT
from .package import python_package
from .report import matplotlib_pyplot

REPORTS = ROOT / "target" / "reports"
WORKER = str(Path(__file__).with_name("ddp_worker.py"))
SECONDS = 240.0
NAMES = {"inca": "inca's hook", "backend": "inca's backend", "gloo": "gloo"}
# bfp16 rounds every gradient to 2^-15 of its block's largest: what that may do to a loss in so few steps.
TOLERANCE = 0.02


def torch_missing() -> str:
    """Why this interpreter can't train, or nothing."""
    found = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True, check=False)
    return "" if found.returncode == 0 else "python3-torch not found"


def train(emulation: Emulation, by: str, steps: int, number_format: str = "bfp16") -> dict[str, Any]:
    """One training; losses and times of rank 0, and whether all ranks ended with the same parameters."""
    master = emulation.network.hosts[0].address
    command = [
        sys.executable,
        WORKER,
        "--controller",
        "{controller}",
        "--interface",
        "{interface}",
        "--job",
        f"ddp-{by}",
    ]
    command += ["--rank", "{rank}", "--world", "{world}", "--steps", str(steps), "--by", by]
    command += ["--master", master, "--format", number_format]
    env = {"PYTHONPATH": str(python_package())}
    outcomes = emulation.run_workers(lambda _worker: command, f"ddp-{by}", SECONDS, env)
    reports = [
        [json.loads(line) for line in outcome.text().splitlines() if line.startswith("{")] for outcome in outcomes
    ]
    rows = reports[0][:-1]
    times = sorted(row["ms"] for row in rows[1:])
    return {
        "by": by,
        "losses": [row["loss"] for row in rows],
        "step_ms": times[len(times) // 2],
        "steps_per_second": 1e3 * len(times) / sum(times),
        "agree": len({report[-1]["digest"] for report in reports}) == 1,
        "buckets": reports[0][-1]["buckets"],
        "chunks": reports[0][-1].get("chunks", 0),
    }


def run(emulation: Emulation, steps: int, rounds: int, as_json: bool) -> int:
    """All trainings; 0 if the curves agree within the format's bound and all ranks have the same parameters."""
    tries: dict[str, list[dict[str, Any]]] = {by: [] for by in NAMES}
    # In turns: what else the machine does shall hit all alike.
    for turn in range(rounds):
        for by, done in tries.items():
            print(f"round {turn + 1} of {rounds}, {NAMES[by]} ...", file=sys.stderr, flush=True)
            done.append(train(emulation, by, steps))
    runs = [middle(done) for done in tries.values()]
    hook, backend, gloo = (each["losses"] for each in runs)
    apart = max(abs(a - b) for ours in (hook, backend) for a, b in zip(ours, gloo, strict=True))
    report = {
        "workers": len(emulation.network.hosts),
        "switch": emulation.settings.switch,
        "rate_mbit": emulation.network.rate_mbit,
        "steps": steps,
        "rounds": rounds,
        "largest_difference": apart,
        "runs": runs,
    }
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / "train-ddp.json").write_text(json.dumps(report, indent=1) + "\n")
    plot(REPORTS / "train-ddp.png", report)
    if as_json:
        print(json.dumps(report))
    else:
        print(f"{'step':>5} {'hook':>10} {'backend':>10} {'gloo':>10}")
        for step in range(0, steps, max(1, steps // 10)):
            print(f"{step:>5} {hook[step]:>10.5f} {backend[step]:>10.5f} {gloo[step]:>10.5f}")
        print(f"largest difference {apart:.5f}, {runs[0]['buckets']} buckets by the switches")
        for each in runs:
            every = ", ".join(f"{speed:.1f}" for speed in each["rounds"])
            speed = f"{each['steps_per_second']:6.2f} steps/s, median step {each['step_ms']:.1f} ms"
            print(f"{NAMES[each['by']]:<16} {speed}; rounds: {every}")
    return 0 if apart <= TOLERANCE and all(each["agree"] for each in runs) else 1


def middle(done: list[dict[str, Any]]) -> dict[str, Any]:
    """The round of median speed, with the speeds of all; ranks must have agreed in each."""
    speeds = sorted(done, key=lambda each: float(each["steps_per_second"]))
    return speeds[len(speeds) // 2] | {
        "agree": all(each["agree"] for each in done),
        "rounds": [each["steps_per_second"] for each in done],
    }


def plot(path: Path, report: dict[str, Any]) -> None:
    """Loss over steps, and steps a second."""
    pyplot = matplotlib_pyplot()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), gridspec_kw={"width_ratios": [2, 1]})
    for each, style in zip(report["runs"], ("-", "--", ":"), strict=True):
        left.plot(each["losses"], style, label=NAMES[each["by"]])
    left.set(xlabel="step", ylabel="loss", ylim=(0, None))
    left.legend()
    right.bar([NAMES[each["by"]] for each in report["runs"]], [each["steps_per_second"] for each in report["runs"]])
    right.set(ylabel="steps/s")
    right.tick_params(axis="x", labelrotation=20)
    rate = f"{report['rate_mbit']:g} Mbit/s" if report["rate_mbit"] else "no limit"
    figure.suptitle(f"{report['workers']} workers, {rate} a link, {report['switch']}")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
