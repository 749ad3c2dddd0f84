"""Trains on the digits over every number format, beside the same training on exact sums.

Prints accuracy, bytes per element on a host link and a sweep of sizes per format; writes
`target/reports/train-formats.json` and the curves as `target/reports/train-formats.png`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .demo import switch_text
from .emulation import Emulation
from .jobs import agent_command, run_perf, start_training, wrong_elements
from .links import counted
from .nodes import ROOT
from .processes import require, wait_jobs
from .training import export_digits

REPORTS = ROOT / "target" / "reports"
SECONDS = 240.0
# Accuracy may differ from that of exact sums by so much.
TOLERANCE = 0.01
# The mean over so many last steps is judged: one step's accuracy is worth one image in 359.
LAST_STEPS = 10
SWEEP = ["-b", "4K", "-e", "256K", "-f", "8", "-n", "3", "-w", "1"]
COUNTED_ELEMENTS = 1 << 18
CHUNK_WORDS = 5
WORD_BYTES = 256
# Ethernet, IPv4, UDP and ours.
HEADER_BYTES = 14 + 20 + 8 + 40


@dataclass(frozen=True)
class Variant:
    """A format, and whether what it takes from a gradient is added to the next one."""

    format: str
    lane_bytes: int
    feedback: bool

    @property
    def name(self) -> str:
        """For tables."""
        return self.format + ("+feedback" if self.feedback else "")


VARIANTS = [
    Variant("bfp8", 1, False),
    Variant("bfp8", 1, True),
    Variant("bfp16", 2, False),
    Variant("bfp32", 4, False),
    Variant("exact", 8, False),
]


def run(emulation: Emulation, steps: int, as_json: bool) -> int:
    """All formats; 0 if each learnt as exact sums do, with the same parameters on every rank."""
    world = len(emulation.network.hosts)
    data = emulation.run_dir / "digits.npz"
    export_digits(data)
    report: dict[str, Any] = {"switch": switch_text(emulation), "workers": world, "steps": steps, "formats": []}
    if not as_json:
        print(f"{world} workers, {steps} steps, {report['switch']}\n")
        print(
            f"{'format':<14} {'accuracy':>9} {'exact sums':>10} {'reduce':>9} {'#wrong':>7} "
            f"{'bytes/element each way':>23} {'headers aside':>14}"
        )
    good = True
    for variant in VARIANTS:
        result = train(emulation, variant, steps, data)
        result["link"] = link_bytes(emulation, variant)
        report["formats"].append(result)
        good = good and result["good"]
        if not as_json:
            wrong = "-" if result["wrong"] is None else result["wrong"]
            print(
                f"{variant.name:<14} {result['accuracy']:>9.2%} {result['exact_accuracy']:>10.2%} "
                f"{result['reduce_ms']:>6.1f} ms {wrong:>7} {result['link']['bytes_per_element']:>23.3f} "
                f"{result['link']['payload_bytes_per_element']:>14.3f}"
                + ("" if result["good"] else "  NOT as it should be"),
                flush=True,
            )
    good = sweep(emulation, report, as_json) and good
    REPORTS.mkdir(parents=True, exist_ok=True)
    plot(report, REPORTS / "train-formats.png")
    text = json.dumps(report, indent=2)
    (REPORTS / "train-formats.json").write_text(text + "\n")
    if as_json:
        print(text)
    else:
        print(f"\ncurves: {REPORTS / 'train-formats.png'}, figures: {REPORTS / 'train-formats.json'}")
    return 0 if good else 1


def train(emulation: Emulation, variant: Variant, steps: int, data: Path) -> dict[str, Any]:
    """One training: its curves, and how it ended."""
    job = f"train-{variant.name.replace('+', '-')}"
    extra = ["--format", variant.format, *(["--error-feedback"] if variant.feedback else [])]
    jobs = start_training(emulation, job, steps, data, extra)
    outcomes = wait_jobs(jobs, SECONDS, emulation.check_alive)
    require(outcomes)
    ranks = [[json.loads(line) for line in outcome.text().splitlines()] for outcome in outcomes]
    same = all([step["digest"] for step in rank] == [step["digest"] for step in ranks[0]] for rank in ranks)
    counts = [step["wrong"] for rank in ranks for step in rank]
    wrong = None if any(count is None for count in counts) else sum(counts)
    curve = ranks[0]
    last = curve[-LAST_STEPS:]
    accuracy = sum(step["accuracy"] for step in last) / len(last)
    exact = sum(step["reference_accuracy"] for step in last) / len(last)
    reduce_ms = sorted(step["reduce_ms"] for step in curve[:-1])
    return {
        "name": variant.name,
        "format": variant.format,
        "error_feedback": variant.feedback,
        "accuracy": accuracy,
        "exact_accuracy": exact,
        "same_parameters_on_every_rank": same,
        "wrong": wrong,
        "reduce_ms": reduce_ms[len(reduce_ms) // 2],
        # 8 bits alone are promised nothing: their error feedback is what must keep up.
        "good": same and not wrong and (abs(accuracy - exact) <= TOLERANCE or variant == VARIANTS[0]),
        "curve": [
            {key: step[key] for key in ("step", "loss", "reference_loss", "accuracy", "reference_accuracy")}
            for step in curve
        ],
    }


def link_bytes(emulation: Emulation, variant: Variant) -> dict[str, float]:
    """Bytes per element that one sum puts on the first host's link, mean of both directions."""
    host = emulation.network.hosts[0]
    interface = f"{host.switch}-eth{host.port}"
    before = counted(interface)
    arguments = ["--dtype", "f32", "--format", variant.format, "--count", str(COUNTED_ELEMENTS)]
    arguments += ["--chunk-words", str(CHUNK_WORDS)]
    name = f"bytes-{variant.name.replace('+', '-')}"
    outcomes = emulation.run_workers(lambda _worker: agent_command("allreduce", name, arguments), name, SECONDS)
    each_way = (counted(interface) - before) / 2
    rank = outcomes[0].json()
    # Of the packets of a chunk those with words, as many each way.
    payload = (rank["sent_bytes"] - 40 * rank["transmissions"]) / COUNTED_ELEMENTS
    return {
        "bytes_per_element": each_way / COUNTED_ELEMENTS,
        "payload_bytes_per_element": payload,
        "lane_bytes": variant.lane_bytes,
        "retransmissions": rank["retransmissions"],
    }


def sweep(emulation: Emulation, report: dict[str, Any], as_json: bool) -> bool:
    """A sweep of sizes for each format, every element checked."""
    report["sweep"] = []
    if not as_json:
        print(f"\n{'format':<8} {'size (B)':>9} {'time (us)':>10} {'algbw (MB/s)':>13} {'#wrong':>7}")
    for name in sorted({variant.format for variant in VARIANTS}):
        ranks = run_perf(emulation, f"sweep-{name}", ["--dtype", "f32", "--format", name, *SWEEP], SECONDS)
        for rows in zip(*(rank["rows"] for rank in ranks), strict=True):
            row, wrong = rows[0], sum(row["wrong"] for row in rows)
            report["sweep"].append(
                {
                    "format": name,
                    "bytes": row["size"],
                    "time_us": row["time_us"],
                    "algbw": row["algbw_mb_per_s"],
                    "wrong": wrong,
                }
            )
            if not as_json:
                print(
                    f"{name:<8} {row['size']:>9} {row['time_us']:>10.1f} {row['algbw_mb_per_s']:>13.3f} {wrong:>7}",
                    flush=True,
                )
        if wrong_elements(ranks):
            return False
    return True


def plot(report: dict[str, Any], path: Path) -> None:
    """Loss and accuracy over the steps, each format beside exact sums."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (losses, accuracies) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    for result in report["formats"]:
        steps = [step["step"] for step in result["curve"]]
        losses.plot(steps, [step["loss"] for step in result["curve"]], label=result["name"], linewidth=1)
        accuracies.plot(steps, [step["accuracy"] for step in result["curve"]], label=result["name"], linewidth=1)
    exact = report["formats"][0]["curve"]
    steps = [step["step"] for step in exact]
    losses.plot(steps, [step["reference_loss"] for step in exact], "k:", label="sums at the hosts")
    accuracies.plot(steps, [step["reference_accuracy"] for step in exact], "k:", label="sums at the hosts")
    losses.set(xlabel="step", ylabel="loss on the training set", yscale="log")
    accuracies.set(xlabel="step", ylabel="accuracy on the test set")
    accuracies.legend()
    figure.suptitle(f"digits, {report['workers']} workers, {report['switch']}")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
