"""Everything that is promised, measured side by side in one run: `make bench`.

Data plane, codec, then the experiments of `bench/experiments/`; what there is of the latest `make soak` is added.
Leaves in the results' folder: `latest.json` (machine, raw rows, checks), `latest.md`, plots.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import bench_plots, machine
from .checks import Check, all_checks, table
from .experiment_file import STARTUP
from .nodes import ROOT, MissingProgramError, find_binary
from .report import figures, startup_table, tables
from .topology import TopologyError

EXPERIMENTS = ROOT / "bench" / "experiments"
RESULTS = ROOT / "bench" / "results"
REPORTS = ROOT / "target" / "reports"
WORK = ROOT / "target" / "bench"
FULL = ("goal-embedded", "goal-bmv2", "latency", "equal", "sizes-10", "sizes-50", "sizes-100", "scaling")
QUICK = ("quick",)
# Children of the switch in the data plane's sweep, beside the 4 of its main run.
CHILDREN = (2, 8, 16, 32, 64)


@dataclass(frozen=True)
class Part:
    """One measurement: a command of its own, and the report that it leaves."""

    name: str
    argv: list[str]
    report: Path
    seconds: float


def parts(quick: bool) -> list[Part]:
    """All measurements apart from the experiments, in order."""
    found = [dataplane("dataplane", ["--runs", "1" if quick else "5", "--seconds", "0.5" if quick else "1"], 420)]
    if not quick:
        for children in CHILDREN:
            options = ["--children", str(children), "--runs", "1", "--seconds", "0.7", "--only", "single on"]
            found.append(dataplane(f"dataplane-{children}", options, 120))
        codec = ["cargo", "bench", "-q", "-p", "inca-wire", "--bench", "codec", "--", "--json"]
        found.append(Part("codec", codec, REPORTS / "bench-codec.json", 600))
    return found


def dataplane(name: str, options: Sequence[str], seconds: float) -> Part:
    """bench-dataplane with a report of its own."""
    report = WORK / f"{name}.json"
    return Part(name, [program("bench-dataplane"), "--report", str(report), *options], report, seconds)


def program(name: str) -> str:
    """One of ours; its bare name where it was not built, so that running it says what is missing."""
    try:
        return find_binary(name)
    except MissingProgramError:
        return name


def run(quick: bool, only: Sequence[str], results: Path, resume: bool, as_json: bool) -> int:
    """Measures, writes the results, prints the checks; 1 if something failed to run, whatever the checks say."""
    started = time.monotonic()
    before = machine.describe()
    WORK.mkdir(parents=True, exist_ok=True)
    reports: dict[str, Any] = {}
    rows: dict[str, list[dict[str, Any]]] = {}
    failed: list[str] = []
    for part in parts(quick):
        if chosen(part.name, only):
            say(f"== {part.name}")
            reports[part.name] = measure(part, resume, failed)
    for name in QUICK if quick else FULL:
        if chosen(name, only):
            say(f"== experiment {name}")
            rows[name] = experiment(name, resume, failed)
    soak = REPORTS / "soak.json"
    if soak.exists():
        reports["soak"] = json.loads(soak.read_text())
    checks = all_checks(rows, reports)
    latest = {
        "machine": before,
        "load_average_after": list(os.getloadavg()),
        "seconds": time.monotonic() - started,
        "quick": quick,
        # Parts were then measured at different times, under different loads: rows say which.
        "resumed": resume,
        "failed": failed,
        "checks": [check.json() for check in checks],
        "reports": reports,
        "rows": [row for each in rows.values() for row in each],
    }
    results.mkdir(parents=True, exist_ok=True)
    (results / "latest.json").write_text(json.dumps(latest, indent=1) + "\n")
    (results / "latest.md").write_text("\n".join(markdown(latest, checks, rows, results)))
    print(json.dumps(latest) if as_json else "\n".join(summary(checks)))
    say(f"{latest['seconds']:.0f} s; results in {results}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def parse_only(text: str, quick: bool) -> list[str]:
    """The parts that are asked for; raises TopologyError with the valid ones where one is not known."""
    valid = [part.name for part in parts(quick)] + list(QUICK if quick else FULL)
    only = [name.strip() for name in text.split(",")]
    for name in only:
        if not any(chosen(each, [name]) for each in valid):
            raise TopologyError(f"--only '{text}': no part is called '{name}', valid are {', '.join(valid)}")
    return only


def chosen(name: str, only: Sequence[str]) -> bool:
    """Whether a part is to be measured; `dataplane` stands for all of its sweeps."""
    return not only or name in only or name.split("-")[0] in only


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def measure(part: Part, resume: bool, failed: list[str]) -> Any:
    """A part's report, None if it could not be made."""
    if not (resume and part.report.exists() and part.report.is_relative_to(WORK)):
        part.report.unlink(missing_ok=True)
        try:
            subprocess.run(part.argv, cwd=ROOT, check=True, timeout=part.seconds, stdout=sys.stderr)
        except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            say(f"{part.name}: {error}")
    if not part.report.exists():
        failed.append(part.name)
        return None
    return json.loads(part.report.read_text())


def experiment(name: str, resume: bool, failed: list[str]) -> list[dict[str, Any]]:
    """An experiment's rows, in a process of its own, since it needs namespaces of its own."""
    folder = WORK / name
    argv = [sys.executable, "-m", "inca_net", "experiment", str(EXPERIMENTS / f"{name}.yaml")]
    argv += ["--results", str(folder), "--resume" if resume else "--again"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "mininet")}
    if subprocess.run(argv, check=False, env=env, stdout=sys.stderr).returncode != 0:
        failed.append(name)
    path = folder / "rows.json"
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found


def summary(checks: Sequence[Check]) -> list[str]:
    """For people at a terminal."""
    lines = []
    for check in checks:
        value = "-" if check.value is None else f"{check.value:.3g}"
        lines.append(
            f"{'holds' if check.holds else 'NO':<6} {check.name:<70} {value:>8} {check.target:<8} {check.note}"
        )
    return lines


def markdown(
    latest: dict[str, Any], checks: Sequence[Check], rows: dict[str, list[dict[str, Any]]], results: Path
) -> list[str]:
    """The report for people, with its plots beside it."""
    load = " ".join(f"{value:.2f}" for value in latest["load_average_after"])
    lines = ["# Benchmarks", "", f"{machine.line(latest['machine'])}; {load} after {latest['seconds']:.0f} s.", ""]
    if latest["resumed"]:
        lines += ["Resumed: parts were measured at different times, under different loads; each row says when.", ""]
    lines += ["## What was promised", "", *table(checks)]
    for old in results.glob("*.png"):
        old.unlink()
    for title, name in bench_plots.draw(results, latest["reports"], rows):
        lines += [f"## {title}", "", f"![{title}]({name})", ""]
    lines += dataplane_table(latest["reports"]) + codec_table(latest["reports"].get("codec") or [])
    for name, found in rows.items():
        sums = figures(row for row in found if row["job"] != STARTUP)
        lines += [f"# {title_of(name)}", "", *tables(sums)]
        lines += startup_table([row for row in found if row["job"] == STARTUP])
        for path in sorted((WORK / name).glob("*.png")):
            shutil.copy2(path, results / f"{name}-{path.name}")
            lines += [f"![{path.stem}]({name}-{path.name})", ""]
    return lines


def title_of(name: str) -> str:
    """An experiment's title."""
    from .experiment_file import read_experiment

    return read_experiment(EXPERIMENTS / f"{name}.yaml").title


def codec_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Markdown, or nothing."""
    if not rows:
        return []
    lines = ["## Codec", "", "One core, bytes of f32 a second.", ""]
    lines += ["| format | direction | MB/s | memcpy MB/s | times memcpy |", "|---" * 5 + "|"]
    for row in rows:
        speeds = f"{row['bytes_per_s'] / 1e6:,.0f} | {row['memcpy_bytes_per_s'] / 1e6:,.0f}"
        lines.append(f"| {row['format']} | {row['direction']} | {speeds} | {row['ratio']:.2f} |")
    return [*lines, ""]


def means(row: dict[str, Any]) -> str:
    """What a switch had that others had not."""
    threads = int(row.get("threads", 1))
    return "one core" if row["one_core"] else f"{threads} threads" if threads > 1 else ""


def dataplane_table(reports: dict[str, Any]) -> list[str]:
    """Markdown, or nothing."""
    rows = [
        (report.get("children", "?"), row)
        for name, report in reports.items()
        if name.startswith("dataplane") and report
        for row in report["rows"]
    ]
    if not rows:
        return []
    lines = [
        "## Data plane",
        "",
        "| program | role | switch | children | payload | slots | packets/s | MB/s |  |",
        "|---" * 9 + "|",
    ]
    for children, row in rows:
        lines.append(
            f"| {row['program']} | {row['role']} | {row['switch']} | {children} | {row['payload']} | {row['slots']} | "
            f"{row['packets_per_s']:,.0f} | {row['bytes_per_s'] / 1e6:.1f} | {means(row)} |"
        )
    return [*lines, ""]
